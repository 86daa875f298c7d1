// The scale of a loss in float16: what of it stands in the training graph.
#pragma once
#include "planner/options.h"
#include "planner/update/gradient_parts.h"

namespace tandem {

std::optional<LossScaling> loss_scaling_of(const CompileOptions& options);  // what the options come to. Fails (usage)

// The loss times this step's scale, from a state that the optimizer keeps; the scale becomes an output.
ValueId scaled_loss(Graph& graph, const LossScaling& scaling, ValueId loss);
// A gradient of the scaled loss as that of the loss.
ValueId unscaled(Graph& graph, ValueId gradient);

// What updates of scaled gradients go by in place of `scalars`, and the update of the scale itself. The gradients, by group of devices, are
// those already summed over the devices, the same on all of them: so is what is found in them.
void scale_scalars(Graph& graph, const CompileOptions& options, StepScalarsOf& scalars, std::vector<std::vector<ValueId>> gradients);

}  // namespace tandem
