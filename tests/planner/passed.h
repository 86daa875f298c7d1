// One pass by itself, by its name: graph in, graph out.
#pragma once
#include <gtest/gtest.h>

#include "planner/loss/labels.h"
#include "planner/passes/run_passes.h"

namespace tandem {

// What a pass sees besides its graph, where a test says something of it.
struct PassInput {
  Fuses fuses{};
  CompileOptions options{};
  std::optional<PlacementRequest> placement{};
  std::int64_t samples = 0;
  const Plan* parameters_of = nullptr;
  std::vector<std::string>* warnings = nullptr;  // where those go that the pass adds
};

inline CompileOptions for_training(bool training) {
  CompileOptions o;
  o.mode = training ? PlanMode::training : PlanMode::inference;
  return o;
}

inline const Pass& pass_of(std::string_view name) {
  for (const PlanMode mode : {PlanMode::training, PlanMode::inference})
    for (const Pass& pass : passes_of(mode))
      if (pass.name == name) return pass;
  fail("no pass is called '", name, "'");
}

inline Graph passed(std::string_view name, Graph graph, const PassInput& in = {}) {
  PassContext c{
      .options = in.options, .samples = in.samples, .placement = in.placement, .fuses = in.fuses, .parameters_of = in.parameters_of};
  graph = pass_of(name).run(std::move(graph), c);
  if (in.warnings) in.warnings->insert(in.warnings->end(), c.warnings.begin(), c.warnings.end());
  return graph;
}

// The action fails, and says this among other things.
template <class Action>
void expect_error(const std::string& part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace tandem
