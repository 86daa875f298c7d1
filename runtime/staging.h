// A device's room for the batch of the step to come, shared by its programs: what lies there is the batch of the program
// that filled it last. A step may be begun while the one before computes, so two fillings may be under way.
#pragma once
#include <array>
#include <memory>

#include "kernels/device.h"

namespace tandem {

class Program;

struct Staging {
  std::unique_ptr<Stream> stream;        // copies from the host; made for the first program that stages
  std::unique_ptr<Event> taken;          // its step has a copy of its own
  std::array<std::unique_ptr<Event>, 2> filled;  // the batch is there, by turns
  std::size_t fillings = 0;
  Event* in_use = nullptr;          // the filling of the last step begun
  const Program* holder = nullptr;  // whose batch lies there, or comes, and was not taken yet
};

}  // namespace tandem
