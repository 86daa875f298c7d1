// A loss that the caller computes. The plan has neither loss nor updates: its forward pass gives the model's outputs, its backward pass
// takes their gradients as inputs of the role gradient, and gives those of CompileOptions::keep_gradients: of parameters and inputs.
#pragma once
#include "graph/graph.h"
#include "planner/options.h"

namespace tandem {

inline constexpr std::string_view external_loss = "external";  // the row of losses
inline bool has_external_loss(const CompileOptions& o) { return o.mode == PlanMode::training && o.loss.name == external_loss; }

// Whether the steps stand in the order of phases (graph/phase.h).
inline bool has_phases(const CompileOptions& o) { return o.parallel.micro_batches > 1 || has_external_loss(o); }

// An input that stands at the model's end: labels, samples' weights, gradients of outputs.
inline bool is_given_to_loss(const Value& v) {
  return v.kind == ValueKind::input && (v.role == ValueRole::label || v.role == ValueRole::sample_weight || v.role == ValueRole::gradient);
}

}  // namespace tandem
