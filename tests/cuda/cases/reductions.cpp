// Reductions, and the places of the largest and smallest.
#include "tests/cuda/cases/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::cuda::cases {
namespace {

Comparison reduce(std::mt19937& random, const char* op, double low = -2, double high = 2) {
  const Shape s = image(random);
  Ints axes;
  for (int axis = 0; axis < 4; ++axis)
    if (between(random, 0, 1) == 1 || (axis == 3 && axes.empty())) axes.push_back(axis);
  const bool keep = between(random, 0, 1) == 1;
  Shape y;
  std::int64_t terms = 1;
  for (int axis = 0; axis < 4; ++axis) {
    const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (reduced) terms *= s[axis];
    if (!reduced || keep) y.dims.push_back(reduced ? 1 : s[axis]);
  }
  return {op, {{"axes", axes}, {"keepdims", std::int64_t{keep}}}, {random_tensor(random, s, low, high)}, {real(y)}, terms * 4};
}

// Few different numbers, so that there are ties, and sometimes some that are none.
Comparison place_of_most(std::mt19937& random, const char* op, const Shape& s, int axis) {
  Tensor x = random_tensor(random, s, -1, 1);
  for (double& v : x.write<double>()) v = std::round(v * 3);
  const std::int64_t lines = s.elements() / s[axis];
  for (std::int64_t i = between(random, -lines, 3 * lines); i > 0; --i)
    x.write<double>()[between(random, 0, s.elements() - 1)] = std::numeric_limits<double>::quiet_NaN();
  Shape y = s;
  y.dims.erase(y.dims.begin() + axis);
  return {op,
          {{"axis", std::int64_t{axis}}, {"keepdims", std::int64_t{0}}, {"select_last_index", between(random, 0, 1)}},
          {x},
          {{DType::int64, y}}};
}

const CaseRow reduction_rows[] = {
    {"sum", [](std::mt19937& r) { return reduce(r, "ReduceSum"); }, {DType::float32, DType::float64, DType::float16, DType::bfloat16}},
    {"mean", [](std::mt19937& r) { return reduce(r, "ReduceMean"); }, {DType::float32, DType::float64, DType::float16}},
    {"max", [](std::mt19937& r) { return reduce(r, "ReduceMax"); }},
    {"min", [](std::mt19937& r) { return reduce(r, "ReduceMin"); }},
    {"product", [](std::mt19937& r) { return reduce(r, "ReduceProd", 0.75, 1.25); }},
    {"reduce mean of integers",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"ReduceMean",
                         {{"axes", Ints{1, 3}}, {"keepdims", std::int64_t{0}}},
                         {random_integers(r, s, -99, 99)},
                         {{DType::int64, Shape{s[0], s[2]}}}};
     },
     {DType::float32}},
    {"sum of a long column, shared between blocks",
     [](std::mt19937& r) {
       const Shape s{between(r, 900, 1500), between(r, 1, 5)};
       return Comparison{"ReduceSum", {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, {random_tensor(r, s)}, {real({s[1]})}, s[0] * 4};
     },
     {DType::float32, DType::float16},
     {"ab", "ba"}},
    {"sum of everything",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 7), between(r, 500, 900)};
       return Comparison{
           "ReduceSum", {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{1}}}, {random_tensor(r, s)}, {real({1, 1})}, s[0] * s[1] * 4};
     },
     {DType::float32},
     {"ab"}},
    {"determinants",
     [](std::mt19937& r) {
       const std::int64_t n = between(r, 1, 6), count = between(r, 1, 70);
       return Comparison{"Det", {}, {random_tensor(r, {count, n, n})}, {real({count})}, 64};
     }},
    {"determinants backward",
     [](std::mt19937& r) {
       const std::int64_t n = between(r, 1, 6), count = between(r, 1, 70);
       return Comparison{"DetBackward", {}, {random_tensor(r, {count, n, n}), random_tensor(r, {count})}, {real({count, n, n})}, 64};
     }},
    {"random numbers",
     [](std::mt19937& r) {
       const std::int64_t samples = between(r, 1, 5), outer = between(r, 1, 3), inner = between(r, 1, 3);
       const Shape s{between(r, 1, 4), samples * outer * inner, between(r, 1, 9)};
       Attributes a{{"layer", between(r, 0, 1 << 30)}, {"axis", std::int64_t{1}}, {"outer", outer}, {"inner", inner}};
       if (between(r, 0, 1)) a.set("seed", between(r, 0, 1 << 30));
       return Comparison{"RandomNumbers", a, {random_integers(r, {4}, 0, 1 << 20)}, {real(s)}};
     }},
    {"place of the largest", [](std::mt19937& r) { return place_of_most(r, "ArgMax", image(r), 1); }, numbers},
    {"place of the smallest", [](std::mt19937& r) { return place_of_most(r, "ArgMin", image(r), 2); }},
    {"place of the largest in short lines", [](std::mt19937& r) { return place_of_most(r, "ArgMax", {between(r, 1, 40), between(r, 1, 90)}, 1); }, numbers, {"ab"}},
    {"place of the largest in lines of packs", [](std::mt19937& r) { return place_of_most(r, "ArgMax", {between(r, 1, 40), 8 * between(r, 1, 40)}, 1); }, numbers, {"ab"}},
    {"place of the smallest in long lines", [](std::mt19937& r) { return place_of_most(r, "ArgMin", {between(r, 1, 4), between(r, 1025, 3000)}, 1); }, numbers, {"ab"}},
    {"place of the largest in long lines of packs", [](std::mt19937& r) { return place_of_most(r, "ArgMax", {between(r, 1, 4), 8 * between(r, 129, 400)}, 1); }, numbers, {"ab"}},
    {"place of the largest in lines side by side", [](std::mt19937& r) { return place_of_most(r, "ArgMax", {2, between(r, 2, 7), 1 << 13}, 1); }, {DType::float32, DType::bfloat16}, {"abc"}},
    {"place of the smallest integer",
     [](std::mt19937& r) {
       Comparison c = place_of_most(r, "ArgMin", {between(r, 1, 9), between(r, 1, 70)}, 1);
       c.inputs[0] = random_integers(r, c.inputs[0].shape(), -5, 5);
       if (between(r, 0, 1))
         c.inputs[0].write<std::int64_t>()[between(r, 0, c.inputs[0].shape().elements() - 1)] = std::numeric_limits<std::int64_t>::min();
       return c;
     },
     {DType::float32},
     {"ab"}},
};

}  // namespace

std::vector<CaseRow> reductions() { return list(reduction_rows); }

}  // namespace tandem::cuda::cases
