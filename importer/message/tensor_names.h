// What the names of tensors say.
#pragma once
#include <string_view>

namespace tandem {

// An exporter made the name up: a counter ("val_12", "onnx::Mul_31", "470"), a place in a graph ("dense/mul/y:0",
// "/Constant_output_0"), or a word for a number ("scalar_float_1", "two"). What modules call their parameters is no such name.
bool is_made_up(std::string_view name);
// The path of a module's attribute: "block.0.alpha".
bool is_path(std::string_view name);
// As frameworks call weights and biases: "fc.bias", "dense/kernel:0".
bool is_weights_name(std::string_view name);
// As they call the statistics of a normalization: "bn.running_mean".
bool is_statistics_name(std::string_view name);
// As PyTorch calls what an operator gives that makes a constant: "zeros_like_1".
bool is_creations_name(std::string_view name);

// As its dynamo exporter calls a number of a formula: "val_12", "threshold_cast". One it computed from parameters it calls by
// the operator: "tanh".
bool is_exporters_number(std::string_view name);

}  // namespace tandem
