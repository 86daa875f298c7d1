// What a model is trained for and measured by.
#pragma once
#include <string>
#include <vector>

#include "options/values.h"
#include "trainer/template/model_options.h"

namespace tandem {

// Into options.plan.
void read_loss(const OptionValues& values, ModelOptions& options);
void read_distillation(const OptionValues& values, ModelOptions& options);  // and what labels count in training
std::vector<std::string> metrics_of(const OptionValues& values);

}  // namespace tandem
