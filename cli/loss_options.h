// What a model is trained for and measured by, as options of the commands.
#pragma once
#include "cli/model_options.h"

namespace tandem {

// Into options.plan. Class weights wait for the data: take_class_weights.
void read_loss(const Arguments& a, ModelOptions& options);
// Says how they came about, where they were counted.
void take_class_weights(const Invocation& call, const Model& model, ModelOptions& options, const Dataset& data);
// Those of a plan without data: of `balanced` the numbers are left open.
void plan_class_weights(const Invocation& call, const Model& model, ModelOptions& options);
std::vector<std::string> metrics_of(const Arguments& a);
Json json_of(const Evaluation& e);                // "metrics"; "classes", and "confusion" where it is a metric, of each output
// Readable in 60 columns; each output's classes where `metrics` has per-class, its matrix where it has confusion.
std::string text_of(const Evaluation& e, const std::vector<std::string>& metrics);

}  // namespace tandem
