// Products, which have no kernels of our own.
#include "tests/cuda/cases/rows.h"

namespace tandem::cuda::cases {
namespace {

Comparison inner_product(std::mt19937& random, const char* op) {
  const Shape x = image(random), w{between(random, 1, 9), x[1], x[2], x[3]}, y{x[0], w[0]};
  const std::int64_t inner = x[1] * x[2] * x[3];
  const std::string_view name = op;
  if (name == "InnerProduct")
    return {op,
            {{"activation", std::string("Relu")}},
            {random_tensor(random, x), random_tensor(random, w), random_tensor(random, {w[0]})},
            {real(y)},
            16 * inner};
  if (name == "InnerProductBackwardData")
    return {op, {{"input_shape", x.dims}}, {random_tensor(random, y), random_tensor(random, w)}, {real(x)}, 16 * w[0]};
  return {op, {}, {random_tensor(random, x), random_tensor(random, y)}, {real(w), real({w[0]})}, 16 * x[0]};
}
// An activation behind a product, and its slope behind the product that is a gradient.
Comparison activated_product(std::mt19937& random, const char* activation) {
  const Shape x{between(random, 1, 40), 8 * between(random, 1, 9)}, w{8 * between(random, 1, 9), x[1]}, y{x[0], w[0]};
  return {"InnerProduct",
          {{"activation", std::string(activation)}},
          {random_tensor(random, x, -1, 1), random_tensor(random, w, -1, 1), random_tensor(random, {w[0]})},
          {real(y), real(y)},
          16 * x[1]};
}
Comparison activated_gradient(std::mt19937& random, const char* activation) {
  const Shape x{between(random, 1, 40), 8 * between(random, 1, 9)}, w{8 * between(random, 1, 9), x[1]}, y{x[0], w[0]};
  return {"InnerProductBackwardData",
          {{"input_shape", x.dims}, {"activation", std::string(activation)}},
          {random_tensor(random, y, -1, 1), random_tensor(random, w, -1, 1), random_tensor(random, x)},
          {real(x)},
          16 * w[0]};
}
Comparison matmul(std::mt19937& random, bool trans_a, bool trans_b) {
  const std::int64_t m = between(random, 1, 9), k = between(random, 1, 9), n = between(random, 1, 9), batch = between(random, 1, 4);
  return {"MatMul", {{"transA", std::int64_t{trans_a}}, {"transB", std::int64_t{trans_b}}},
          {random_tensor(random, trans_a ? Shape{2, batch, k, m} : Shape{2, batch, m, k}), random_tensor(random, trans_b ? Shape{batch, n, k} : Shape{batch, k, n})}, {real({2, batch, m, n})}, 16 * k};
}

const CaseRow product_rows[] = {
    {"inner product", [](std::mt19937& r) { return inner_product(r, "InnerProduct"); }, {DType::float32, DType::float64, DType::bfloat16}},
    {"inner product backward data", [](std::mt19937& r) { return inner_product(r, "InnerProductBackwardData"); }},
    {"inner product backward weights", [](std::mt19937& r) { return inner_product(r, "InnerProductBackwardWeights"); }},
    {"inner product + Gelu", [](std::mt19937& r) { return activated_product(r, "GeluErf"); }, {DType::bfloat16, DType::float16}},
    {"inner product + Gelu by tanh", [](std::mt19937& r) { return activated_product(r, "GeluTanh"); }, {DType::bfloat16, DType::float16}},
    {"inner product backward data + Gelu", [](std::mt19937& r) { return activated_gradient(r, "GeluErf"); }, {DType::bfloat16, DType::float16}},
    {"inner product backward data + Gelu by tanh", [](std::mt19937& r) { return activated_gradient(r, "GeluTanh"); }, {DType::bfloat16, DType::float16}},
    {"inner product backward data + Relu", [](std::mt19937& r) { return activated_gradient(r, "Relu"); }, {DType::bfloat16, DType::float16}},
    {"matmul", [](std::mt19937& r) { return matmul(r, false, false); }},
    {"matmul, both transposed", [](std::mt19937& r) { return matmul(r, true, true); }},
};

}  // namespace

std::vector<CaseRow> products() { return list(product_rows); }

}  // namespace tandem::cuda::cases
