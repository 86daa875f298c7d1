// What an optimizer's options mean for the training graph.
#pragma once
#include "graph/graph.h"
#include "graph/updates.h"
#include "planner/options.h"

namespace tandem {

class StepScalarsOf;

// One update node per group of parameters: inputs scalars, then (w, g, states...) for each; see docs/internal-operators.md.
struct UpdateRule {
  std::string op;
  UpdateKind kind = UpdateKind::sgd;
  Attributes attributes;
  std::vector<std::string> states;  // names of the state tensors kept for each parameter: state "momentum/WEIGHT"
};
UpdateRule update_rule(const OptimizerOptions& options);  // fails (usage)
UpdateKind scalars_kind(const OptimizerOptions& options);  // by which the step's scalars are set (set_step)
std::string to_string(const OptimizerOptions& options);  // "sgd momentum=0.9"

// The state that is no formula's: the average of the parameter.
inline constexpr std::string_view average_state = "average";

// Whether the parameter's step is composed of the operators that kernels know: Adafactor's, and Muon's of a matrix.
bool is_composed(const Value& parameter, const OptimizerOptions& options);
// What needs all of a parameter for its step (a norm of it, a product by it), as messages name it; empty: each element has its own step.
std::string reads_whole(const Value& parameter, const OptimizerOptions& options);
// Adds the nodes of such a step, and those that assign what they give. `attributes`: as its group has them.
void compose_update(Graph& graph, const OptimizerOptions& options, const Attributes& attributes, ValueId scalars, ValueId parameter,
                    ValueId gradient, ValueId average);

// Adds an average of every running statistic, "average/STATISTIC", and what moves it.
void average_statistics(Graph& graph, const StepScalarsOf& scalars);

// What a parameter's group makes of the rule's attributes.
Attributes attributes_for(const Value& parameter, const UpdateRule& rule, const OptimizerOptions& options);
// Fails (usage) where a group's pattern names no parameter that is trained. Adds what the groups come to, for the user.
void check_groups(const Graph& graph, const OptimizerOptions& options, std::vector<std::string>& lines);

}  // namespace tandem
