// What a model is trained for and measured by, as options of the commands.
#pragma once
#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

// Into options.plan.
void read_loss(const Arguments& a, ModelOptions& options);
void read_distillation(const Arguments& a, ModelOptions& options);  // and what labels count in training
std::vector<std::string> metrics_of(const Arguments& a);
Json json_of(const Evaluation& e);                // "metrics"; "classes", and "confusion" where it is a metric, of each output
// Readable in 60 columns; each output's classes where `metrics` has per-class, its matrix where it has confusion.
std::string text_of(const Evaluation& e, const std::vector<std::string>& metrics);

}  // namespace tandem
