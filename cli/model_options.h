// What options that several commands share mean for the API.
#pragma once
#include <vector>

#include "cli/command.h"
#include "trainer/prepare.h"

namespace tandem {

// Of weights and fine-tuning.
WeightOptions weight_options(const Arguments& arguments);
// --dim: sizes of dimensions, and of those that batches choose from.
void read_dims(const Arguments& arguments, std::map<std::string, std::int64_t>& dims,
               std::map<std::string, std::vector<std::int64_t>>& buckets);
// What the options of a command that plans or runs a model mean for prepare(). It refers to `call`.
RunOptions run_options(const Invocation& call, Purpose purpose, World* world = nullptr);

}  // namespace tandem
