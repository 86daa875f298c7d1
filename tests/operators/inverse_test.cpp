// Operators that undo each other, where ONNX has no node test.
#include <gtest/gtest.h>

#include <numeric>

#include "graph/operator.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

TEST(Inverses, SpaceToDepthUndoesDepthToSpace) {
  for (const char* mode : {"DCR", "CRD"}) {
    const Attributes attributes{{"blocksize", std::int64_t{2}}, {"mode", std::string(mode)}};
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::float32, {1, 8, 2, 3}});
    const NodeId up = graph.add_node(internal_operator("DepthToSpace"), "up", attributes, {x}, 1);
    const NodeId down = graph.add_node(internal_operator("SpaceToDepth"), "down", attributes, {graph[up].outputs[0]}, 1);
    // Both are outputs, so that neither is left out.
    graph.outputs = {graph[up].outputs[0], graph[down].outputs[0]};
    Tensor values(graph[x].type);
    const auto span = values.write<float>();
    std::iota(span.begin(), span.end(), 0.0F);
    const std::vector<NamedTensor> results = test::GraphRun(graph).run({{"x", values}});
    EXPECT_NE(results[0].tensor.to_doubles(), values.to_doubles()) << mode;
    EXPECT_EQ(results[1].tensor.to_doubles(), values.to_doubles()) << mode;
  }
}

}  // namespace
}  // namespace tandem
