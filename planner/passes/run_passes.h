// Runs the passes that make a plan's graph of a model.
#pragma once
#include <span>
#include <string>

#include "planner/rewrite/pass.h"

namespace tandem {

// The rows of rows.inc that are for such plans, in order.
std::span<const Pass> passes_of(PlanMode mode);

// Fails (usage) where a name is no pass's, naming the nearest, or no plan can be without the pass.
void check_left_out(const std::vector<std::string>& names);

// Why it does not hold; empty where it does.
std::string breach_of(Property property, const Graph& graph, const PassContext& context);

// Runs a list. With options.passes.verify, and in debug builds, the graph and all that is said to hold are checked behind every pass; a
// breach names the pass. Leaves out what options.passes.without names. Calls
// options.passes.after behind each, and for the graph it begins with (number 0, "model").
Graph run_passes(std::span<const Pass> passes, Graph graph, PassContext& context);

}  // namespace tandem
