// What tables of cases share: how operands are drawn, and one function for each family.
#pragma once
#include "tests/cuda/cases.h"

namespace tandem::cuda::cases {

inline std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
inline Shape image(std::mt19937& random) {
  return {between(random, 1, 3), between(random, 1, 9), between(random, 3, 8), between(random, 3, 8)};
}
inline TensorType real(Shape shape) { return {DType::float64, std::move(shape)}; }
inline const std::vector<DType> numbers{DType::float32, DType::float64, DType::float16, DType::bfloat16};

inline Comparison unary(std::mt19937& random, const char* op, Attributes attributes = {}, double low = -3, double high = 3) {
  const Shape s = image(random);
  return {op, std::move(attributes), {random_tensor(random, s, low, high)}, {real(s)}, 16};
}
inline Comparison binary(std::mt19937& random, const char* op, Attributes attributes = {}, double low = -3, double high = 3) {
  const Shape s = image(random);
  const Shape others[] = {s, Shape{}, Shape{s[3]}, Shape{s[1], 1, 1}, Shape{1, s[1], 1, 1}, Shape{s[0], 1, s[2], 1}};
  return {op,
          std::move(attributes),
          {random_tensor(random, s, low, high), random_tensor(random, others[between(random, 0, 5)], low, high)},
          {real(s)},
          16};
}

template <std::size_t N>
std::vector<CaseRow> list(const CaseRow (&rows)[N]) {
  return {std::begin(rows), std::end(rows)};
}

std::vector<CaseRow> elementwise();
std::vector<CaseRow> reductions();
std::vector<CaseRow> movement();
std::vector<CaseRow> pads();
std::vector<CaseRow> resampling();
std::vector<CaseRow> sampling();
std::vector<CaseRow> choices();
std::vector<CaseRow> losses();
std::vector<CaseRow> windows();
std::vector<CaseRow> products();

}  // namespace tandem::cuda::cases
