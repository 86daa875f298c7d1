// A small transformer whose layers devices can share.
#pragma once
#include "tests/planner/small_models.h"

namespace tandem::small_models {

// One block of a transformer: attention with heads, a layer of twice the width, residuals and normalizations; the mean of tokens is
// classified.
inline Graph transformer_with(std::int64_t n, std::int64_t key_heads) {
  constexpr std::int64_t tokens = 3, width = 8, heads = 4;
  Builder b;
  b.graph.name = "transformer";
  const std::int64_t size = width / heads;
  const auto by_heads = [&](ValueId x, std::int64_t count, Ints perm) {
    return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", Ints{n, tokens, count, size}}})}, {{"perm", std::move(perm)}});
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const ValueId y = normal(b, x, "norm1");
  const ValueId q = by_heads(dense(b, y, "q", width, width), heads, {0, 2, 1, 3});
  // Keys have no bias: its gradient is zero but for rounding, of which Adam makes steps.
  const ValueId k = by_heads(dense(b, y, "k", width, key_heads * size, false), key_heads, {0, 2, 3, 1}),
                v = by_heads(dense(b, y, "v", width, key_heads * size), key_heads, {0, 2, 1, 3});
  const auto repeated = [&](ValueId x) {  // each key head for those that share it
    Shape shape = b.graph[x].type.shape, apart = shape, wide;
    apart.dims.insert(apart.dims.begin() + 2, 1);
    wide = apart;
    wide[2] = heads / key_heads;
    shape[1] = heads;
    return key_heads == heads
               ? x
               : b.node("Reshape", {b.node("Expand", {b.node("Reshape", {x}, {{"shape", apart.dims}})}, {{"shape", wide.dims}})},
                        {{"shape", shape.dims}});
  };
  const ValueId scores = b.node("Softmax", {b.node("MatMul", {q, repeated(k)})}, {{"axis", std::int64_t{-1}}});
  const ValueId read = b.node("Transpose", {b.node("MatMul", {scores, repeated(v)})}, {{"perm", Ints{0, 2, 1, 3}}});
  x = b.node("Add", {x, dense(b, b.node("Reshape", {read}, {{"shape", Ints{n, tokens, width}}}), "proj", width, width)});
  x = b.node("Add", {x, dense(b, b.node("Gelu", {dense(b, normal(b, x, "norm2"), "up", width, 2 * width)}), "down", 2 * width, width)});
  x = b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("head", {width, 5}, 0.4F), b.weight("head.bias", {5}, 0.1F)})};
  return b.graph;
}
inline Graph transformer(std::int64_t n) { return transformer_with(n, 4); }
inline Graph grouped(std::int64_t n) { return transformer_with(n, 2); }

}  // namespace tandem::small_models
