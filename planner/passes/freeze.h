// Which parameters are not trained.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/options.h"

namespace tandem {

// The model with what options.trained.freeze names no longer trainable. A BatchNormalization whose scale and bias are frozen, or whose
// statistics are, gets the attribute `frozen`: it normalizes with its running statistics, which stay as they are; but not
// where options.trained.unfreeze names those. Fails (usage) where a pattern names nothing.
Graph freeze(const Graph& model, const CompileOptions& options, std::vector<std::string>& warnings);
// A pattern that names nothing is a slip of the pen: what it was to freeze would be trained. Fails (usage).
void check_patterns(const Graph& model, const CompileOptions& options);
bool is_frozen(const std::string& parameter, const CompileOptions& options);

}  // namespace tandem
