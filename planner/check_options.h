// What can be known of options before anything is planned.
#pragma once
#include "kernels/backends.h"
#include "planner/options.h"

namespace tandem {

// Fails (usage, device) on devices, precision, loss, optimizer, loss scaling and patterns that cannot be used with this model.
void check_options(const GraphSource& source, const CompileOptions& options, Backends backends);

// Fails (usage) where the caller computes the loss: such a plan is shown, and its passes are run by who does (trainer/autograd.h).
void refuse_external_loss(const CompileOptions& options);

// The options of a micro-batch, for which graphs are made; plans that only predict go through the batch at once. Fails (usage) where the
// batch has no such equal parts.
CompileOptions of_micro_batch(CompileOptions options);

}  // namespace tandem
