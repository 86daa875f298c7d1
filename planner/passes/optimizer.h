// What an optimizer's options mean for the training graph.
#pragma once
#include "planner/options.h"

namespace tandem {

// One update node per group of parameters: inputs scalars, then (w, g, states...) for each; see docs/internal-operators.md.
struct UpdateRule {
  std::string op;
  Attributes attributes;
  std::vector<std::string> states;  // names of the state tensors kept for each parameter: state "momentum/WEIGHT"
};
UpdateRule update_rule(const OptimizerOptions& options);
std::string to_string(const OptimizerOptions& options);  // "sgd momentum=0.9"

}  // namespace tandem
