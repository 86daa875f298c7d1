// Whatever a model holds: once it is expanded, each operator that is left says how it runs in 16 bits.
#include <gtest/gtest.h>

#include "planner/passes/passes.h"
#include "tests/operators/node_cases.h"

namespace tandem {
namespace {

using namespace test;

TEST(PrecisionRoles, AreSaidByAllThatExpansionLeaves) {
  int graphs = 0;
  for (const NodeSuite& suite : {debian_suite(), shared_suite()})
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
        EXPECT_NO_THROW(mixed_precision(expand(*graph, training), Precision::bf16));
      }
      ++graphs;
    }
  if (graphs == 0) GTEST_SKIP() << debian_suite().missing;
}

}  // namespace
}  // namespace tandem
