// Gradients of scattering with reductions where a product has zeros among its factors, or the largest is there several times: as
// PyTorch's scatter_reduce has them.
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

using Floats64 = std::vector<double>;

struct Row {
  const char* reduction;
  Floats64 x, indices, updates, dy, dx, du;
};
const Row rows[] = {
    {"none", {1, 2, 3}, {-1, 0}, {4, 5}, {1, 10, 100}, {0, 10, 0}, {100, 1}},
    {"add", {1, 2, 3}, {0, 0, 2}, {4, 5, 6}, {1, 10, 100}, {1, 10, 100}, {1, 1, 100}},
    {"mul", {2, 7, 3}, {0, 0, 2}, {4, 5, 6}, {1, 10, 100}, {20, 10, 600}, {10, 8, 300}},
    {"mul", {2, 0, 3}, {0, 0, 1, 2, 2}, {0, 4, 5, 0, 0}, {1, 10, 100}, {0, 50, 0}, {8, 0, 0, 0, 0}},
    {"max", {1, 5, 7}, {0, 0, 1}, {3, 3, 5}, {1, 10, 100}, {0, 5, 100}, {0.5, 0.5, 5}},
    {"min", {1, 5, 7}, {0, 1, 1}, {3, 4, 2}, {1, 10, 100}, {1, 0, 100}, {0, 0, 10}},
};

Tensor floats(const Floats64& values) {
  return Tensor::of<double>(Shape{static_cast<std::int64_t>(values.size())}, values).cast(DType::float32);
}

TEST(ScatterGradients, AreThoseOfEveryFactor) {
  for (const char* op : {"ScatterND", "ScatterElements"}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(concat(op, ' ', row.reduction));
      Graph graph;
      const auto parameter = [&](const char* name, const Floats64& values) {
        return graph.add_parameter(name, floats(values).type(), floats(values), true);
      };
      const ValueId x = parameter("x", row.x), u = parameter("u", row.updates);
      Tensor places = Tensor::of<double>(Shape{static_cast<std::int64_t>(row.indices.size())}, row.indices).cast(DType::int64);
      if (op == std::string_view("ScatterND")) places = places.reshaped(Shape{places.elements(), 1});
      const ValueId indices = graph.add_input("i", places.type());
      GraphBuilder b(graph, "test", {});
      const ValueId y = b.emit(op, {x, indices, u}, {{"reduction", std::string(row.reduction)}});
      graph.outputs = {b.reduce_sum(b.mul(y, graph.add_constant("dy", floats(row.dy))), {0}, false)};
      for (const NamedTensor& got : test::GraphRun(graph, {"x", "u"}).run({{"i", places}})) {
        if (got.name == "gradient/x") EXPECT_EQ(got.tensor.to_doubles(), row.dx);
        if (got.name == "gradient/u") EXPECT_EQ(got.tensor.to_doubles(), row.du);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
