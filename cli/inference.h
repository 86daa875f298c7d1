// What evaluate and predict start from.
#pragma once
#include "cli/ranks.h"
#include "trainer/prepare.h"

namespace tandem {

struct Inference {
  Model model;  // not yet compiled
  BackendSet backends;
  Prepared run;
};

// The model, the devices and the data of a call, which all ranks must have found alike. `world`: null where this process
// is alone. The data may be a .npy too, as the model's only input.
Inference open_inference(const Invocation& call, World* world, Purpose purpose);

}  // namespace tandem
