// Errors that rounding explains, from the element type and the longest sum.
#pragma once
#include <algorithm>
#include <cmath>

#include "graph/operator.h"

namespace tandem::test {

struct ToleranceRow {
  DType dtype;
  double error;  // of one operation, relative: a few units in the last place, for functions that are not exactly rounded
};
inline constexpr ToleranceRow tolerances[] = {
    {DType::float32, 4 * 1.2e-7},
    {DType::float64, 4 * 2.3e-16},
    {DType::float16, 4 * 9.8e-4},
    {DType::bfloat16, 4 * 7.8e-3},
};

// Relative to the largest element; rounding errors of a sum of n terms grow as √n.
inline double tolerance(DType dtype, double reduction_length) {
  for (const ToleranceRow& row : tolerances)
    if (row.dtype == dtype) return row.error * std::sqrt(std::max(1.0, reduction_length));
  return 0;
}

// The most operations that go into one element of a node's output.
inline double reduction_length(const Graph& graph) {
  double longest = 1;
  for (const Node& node : graph.nodes) {
    double outputs = 0;
    for (const ValueId v : node.outputs)
      if (v.present()) outputs = std::max(outputs, static_cast<double>(graph[v].type.shape.elements()));
    if (outputs > 0) longest = std::max(longest, flops_of(graph, node) / outputs);
  }
  return longest;
}

}  // namespace tandem::test
