// Whatever a model holds: once it is expanded, each operator that is left says how it runs in 16 bits.
#include <gtest/gtest.h>

#include "planner/rewrite/expand.h"
#include "tests/operators/node_cases.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

using namespace test;

class PrecisionRoles : public testing::TestWithParam<NodeSuite (*)()> {};

TEST_P(PrecisionRoles, AreSaidByAllThatExpansionLeaves) {
  const NodeSuite suite = GetParam()();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  int graphs = 0;
  for (const NodeCase& one : suite.cases) {
    std::optional<Graph> graph;
    try {
      const LoadedCase loaded = load(one);
      graph = loaded.model.graph(import_options(loaded, false));
    } catch (const Error&) {
      continue;  // of other operators
    }
    for (const bool training : {false, true}) {
      SCOPED_TRACE(one.name);
      EXPECT_NO_THROW(passed("mixed_precision", expand(*graph, training), {.options = {.precision = Precision::bf16}}));
    }
    ++graphs;
  }
  EXPECT_TRUE(graphs > 0 || !suite.covers_all());
}
INSTANTIATE_TEST_SUITE_P(Of, PrecisionRoles, testing::Values(debian_suite, shared_suite),
                         [](const auto& info) { return info.index == 0 ? "DebiansNodeTests" : "NewerNodeTests"; });

}  // namespace
}  // namespace tandem
