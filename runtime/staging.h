// A device's room for the batch of the step to come, shared by its programs: what lies there is the batch of the program
// that filled it last.
#pragma once
#include <memory>

#include "kernels/device.h"

namespace tandem {

class Program;

struct Staging {
  std::unique_ptr<Stream> stream;        // copies from the host; made for the first program that stages
  std::unique_ptr<Event> filled, taken;  // the batch is there; its step has a copy of its own
  const Program* holder = nullptr;       // whose batch lies there, or comes, and was not taken yet
};

}  // namespace tandem
