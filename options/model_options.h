// What options mean for the API.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "options/values.h"
#include "trainer/prepare.h"

namespace tandem {

// Of weights and fine-tuning.
WeightOptions weight_options(const OptionValues& values);
// dim: sizes of dimensions, and of those that batches choose from.
void read_dims(const OptionValues& values, std::map<std::string, std::int64_t>& dims,
               std::map<std::string, std::vector<std::int64_t>>& buckets);
// What plans, measures or uses a model. `ranks`: that share the devices.
RunOptions run_options(const OptionValues& values, Purpose purpose, int ranks);
// The same of what trains: with the options of the training.
RunOptions training_options(const OptionValues& values, const Model& model, Purpose purpose, int ranks);

}  // namespace tandem
