// What can be known of options before anything is planned.
#pragma once
#include "planner/compile.h"

namespace tandem {

// Fails (usage, device) on devices, precision, loss, optimizer, loss scaling and patterns that cannot be used with this model.
void check_options(const GraphSource& source, const CompileOptions& options, Backends backends);

// A pattern that names nothing is a slip of the pen: what it was to freeze would be trained. Fails (usage).
void check_patterns(const Graph& model, const CompileOptions& options);

}  // namespace tandem
