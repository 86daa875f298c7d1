// What evaluate and predict start from.
#pragma once
#include "cli/ranks.h"
#include "data/dataset.h"

namespace tandem {

struct Inference {
  ModelOptions options;
  Model model;  // not yet compiled
  BackendSet backends;
  Splits splits;
  const Dataset* data = nullptr;  // the part asked for
};

// The model, the devices and the data of a call, which all ranks must have found alike. `world`: null where this process
// is alone. The data may be a .npy too, as the model's only input.
// `measures`: a loss is wanted of it.
Inference open_inference(const Invocation& call, World* world, bool measures);

}  // namespace tandem
