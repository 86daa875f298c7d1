// What a user should know of a plan that works nevertheless.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/options.h"

namespace tandem {

// `model`: the graph that the plan was made from.
std::vector<std::string> warnings_of(const Plan& plan, const CompileOptions& options, const Graph& model);

}  // namespace tandem
