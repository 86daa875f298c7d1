// A model of a few layers for tests of whole steps.
#pragma once
#include <cmath>

#include "graph/operator.h"

namespace tandem::test {

// Convolution, normalisation, pooling, dropout and a linear layer: every family of kernels.
inline Graph small_model(std::int64_t n) {
  Graph g;
  g.name = "model";
  const auto weight = [&](const char* name, Shape shape) {
    Tensor values(TensorType{DType::float32, shape});
    float next = 0;
    for (float& v : values.write<float>()) v = 0.1F * std::sin(next += 1);
    return g.add_parameter(name, {DType::float32, shape}, std::move(values), true);
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return g[g.add_node(internal_operator(op), concat(op, g.nodes.size()), std::move(a), std::move(in), 1)].outputs[0];
  };
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3}, two{2, 2}, none{0, 0, 0, 0};
  ValueId x = g.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = node("Conv", {x, weight("c", {16, 3, 3, 3})},
           {{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}});
  x = node("Relu",
           {node("BatchNormalization", {x, weight("scale", {16}), weight("bias", {16}), weight("mean", {16}), weight("variance", {16})})});
  x = node("MaxPool", {x}, {{"kernel_shape", two}, {"strides", two}, {"pads", none}, {"dilations", ones}});
  x = node("Flatten", {node("Dropout", {x}, {{"ratio", 0.5F}})}, {{"axis", std::int64_t{1}}});
  g.outputs = {node("Gemm", {x, weight("w", {256, 5}), weight("b", {5})})};
  return g;
}

}  // namespace tandem::test
