// What options that several commands share mean for the API.
#pragma once
#include <vector>

#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

// Of weights and fine-tuning.
WeightOptions weight_options(const Arguments& arguments);
// --dim: sizes of dimensions, and of those that batches choose from.
void read_dims(const Arguments& arguments, std::map<std::string, std::int64_t>& dims, std::map<std::string, std::vector<std::int64_t>>& buckets);
ModelOptions model_options(const Invocation& invocation, PlanMode mode);
// What the options leave open of loss, its value and the classes' axis is taken as the training had it that the file tells
// of (`tandem.*` in its metadata), with a line for what is not the default.
// Of the model's inputs what options leave open: values and axes as the file says it was trained with, sizes as the data has them.
void settle_inputs(const Invocation& call, const Model& model, ModelOptions& options);
void take_preparation(const Invocation& invocation, const Model& model, ModelOptions& options);
// --normalize, or what the file says its training did, with a line.
Preprocess preprocess(const Invocation& invocation, const Model& model);

// A split by name; empty: the first of test, validation, train that the data has. Fails (data) where it is not there.
const Dataset& split_of(const Splits& splits, std::string_view name);

}  // namespace tandem
