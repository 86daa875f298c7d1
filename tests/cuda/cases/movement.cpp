// Kernels that move elements: transposes, slices, concatenations, gathers, scatters.
#include "tests/cuda/cases/rows.h"

#include <algorithm>

namespace tandem::cuda::cases {
namespace {

Comparison transposed_planes(std::mt19937& random, std::int64_t multiple) {
  const Shape s{between(random, 1, 2), multiple * between(random, 34 / multiple, 90 / multiple),
                multiple * between(random, 34 / multiple, 90 / multiple)};
  return {"Transpose", {{"perm", Ints{0, 2, 1}}}, {random_tensor(random, s)}, {real({s[0], s[2], s[1]})}};
}

const CaseRow movement_rows[] = {
    {"transpose",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 3), between(r, 1, 40), between(r, 1, 9), between(r, 1, 40)};
       Ints perm{0, 1, 2, 3};
       std::shuffle(perm.begin(), perm.end(), r);
       Shape y;
       for (const std::int64_t axis : perm) y.dims.push_back(s[static_cast<int>(axis)]);
       return Comparison{"Transpose", {{"perm", perm}}, {random_tensor(r, s)}, {real(y)}};
     },
     {DType::float32, DType::float64, DType::float16}},
    {"transpose of large planes", [](std::mt19937& r) { return transposed_planes(r, 1); }, numbers, {"abc"}},
    {"transpose of large planes of pairs", [](std::mt19937& r) { return transposed_planes(r, 2); }, numbers, {"abc"}},
    {"slice of odd lines",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 3), between(r, 3, 9), between(r, 5, 70)};
       const std::int64_t from = between(r, 0, 3), step = between(r, 1, 2), length = (s[2] - from + step - 1) / step;
       return Comparison{"Slice",
                         {{"starts", Ints{1, from}}, {"ends", Ints{s[1], s[2]}}, {"axes", Ints{1, 2}}, {"steps", Ints{1, step}}},
                         {random_tensor(r, s)},
                         {real({s[0], s[1] - 1, length})}};
     },
     numbers,
     {"abc"}},
    {"concat of odd lines",
     [](std::mt19937& r) {
       Comparison c{"Concat", {{"axis", std::int64_t{1}}}, {}, {}};
       const std::int64_t rows = between(r, 1, 9);
       std::int64_t whole = 0;
       for (int i = 0; i < 2; ++i) {
         const std::int64_t columns = between(r, 1, 40);
         whole += columns;
         c.inputs.push_back(random_tensor(r, {rows, columns}));
       }
       c.outputs = {real({rows, whole})};
       return c;
     },
     numbers,
     {"ab"}},
    {"concat",
     [](std::mt19937& r) {
       Shape s = image(r);
       const int axis = static_cast<int>(between(r, 0, 3));
       Comparison c{"Concat", {{"axis", std::int64_t{axis}}}, {}, {}};
       std::int64_t whole = 0;
       for (int i = 0; i < 3; ++i) {
         s[axis] = between(r, 1, 9);
         whole += s[axis];
         c.inputs.push_back(random_tensor(r, s));
       }
       s[axis] = whole;
       c.outputs = {real(s)};
       return c;
     }},
    {"slice",
     [](std::mt19937& r) {
       const Shape s = image(r);
       const Ints starts{1, s[3] - 1}, ends{3, -1 - s[3]}, axes{2, 3}, steps{1, -2};
       return Comparison{"Slice",
                         {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}},
                         {random_tensor(r, s)},
                         {real({s[0], s[1], 2, (s[3] + 1) / 2})}};
     }},
    {"slice backward",
     [](std::mt19937& r) {
       const Shape s = image(r);
       const Ints starts{1, 0}, ends{3, s[3]}, axes{2, 3}, steps{1, 2};
       return Comparison{"SliceBackward",
                         {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}, {"input_shape", s.dims}},
                         {random_tensor(r, {s[0], s[1], 2, (s[3] + 1) / 2})},
                         {real(s)}};
     }},
    {"expand",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Expand", {{"shape", s.dims}}, {random_tensor(r, {s[1], 1, s[3]})}, {real(s)}};
     }},
    {"tile",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Tile", {{"repeats", Ints{2, 1, 3, 2}}}, {random_tensor(r, s)}, {real({2 * s[0], s[1], 3 * s[2], 2 * s[3]})}};
     }},
    {"reshape",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Reshape", {{"shape", Ints{s[0], -1}}}, {random_tensor(r, s)}, {real({s[0], s[1] * s[2] * s[3]})}};
     }},
    {"gather",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Gather",
                         {{"axis", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, {2, 3}, -s[1], s[1] + 1)},
                         {real({s[0], 2, 3, s[2], s[3]})}};
     },
     {DType::float32, DType::float16}},
    {"gather backward",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"GatherBackward",
                         {{"axis", std::int64_t{1}}, {"input_shape", s.dims}},
                         {random_tensor(r, {s[0], 7, s[2], s[3]}), random_integers(r, {7}, -s[1], s[1])},
                         {real(s)},
                         7};
     }},
    {"gather backward of rows picked often",  // longer than the pieces that are summed
     [](std::mt19937& r) {
       const std::int64_t rows = between(r, 2, 5), count = between(r, 150, 300), inner = between(r, 0, 1) ? 16 : 5;
       return Comparison{"GatherBackward",
                         {{"axis", std::int64_t{1}}, {"input_shape", Ints{2, rows, inner}}},
                         {random_tensor(r, {2, count, inner}), random_integers(r, {count}, -rows - 1, rows)},
                         {real({2, rows, inner})},
                         300};
     },
     {DType::float32, DType::float64, DType::bfloat16}},
    {"gather backward of many",  // more than a block sorts
     [](std::mt19937& r) {
       return Comparison{"GatherBackward",
                         {{"axis", std::int64_t{0}}, {"input_shape", Ints{900, 4}}},
                         {random_tensor(r, {4500, 4}), random_integers(r, {4500}, -900, 901)},
                         {real({900, 4})},
                         20};
     },
     {DType::float32}},
    {"gather elements backward of many",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 3), between(r, 1, 6), between(r, 1, 4)}, y{s[0], 50, s[2]};
       return Comparison{"GatherElementsBackward",
                         {{"axis", std::int64_t{1}}, {"input_shape", s.dims}},
                         {random_tensor(r, y), random_integers(r, y, -s[1] - 1, s[1] + 1)},
                         {real(s)},
                         50};
     },
     {DType::float32, DType::float64, DType::float16}},
    {"cumulative sum",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"CumSum",
                         {{"axis", between(r, 0, 3)}, {"exclusive", between(r, 0, 1)}, {"reverse", between(r, 0, 1)}},
                         {random_tensor(r, s)},
                         {real(s)},
                         9};
     },
     {DType::float32, DType::float64, DType::float16}},
    {"cumulative product",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"CumProd",
                         {{"axis", between(r, 0, 3)}, {"exclusive", between(r, 0, 1)}, {"reverse", between(r, 0, 1)}},
                         {random_tensor(r, s)},
                         {real(s)},
                         9};
     }},
    {"cumulative product backward",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"CumProdBackward",
                         {{"axis", between(r, 0, 3)}, {"exclusive", between(r, 0, 1)}, {"reverse", between(r, 0, 1)}},
                         {random_tensor(r, s), random_tensor(r, s)},
                         {real(s)},
                         18};
     }},
    {"top k",
     [](std::mt19937& r) {
       const Shape s = image(r);
       const Shape y{s[0], s[1], 2, s[3]};
       return Comparison{"TopK",
                         {{"axis", std::int64_t{2}}, {"k", std::int64_t{2}}, {"largest", between(r, 0, 1)}},
                         {random_tensor(r, s)},
                         {real(y), {DType::int64, y}}};
     },
     {DType::float32, DType::float64}},
    {"gather nd",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"GatherND",
                         {{"batch_dims", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, {s[0], 5, 2}, -s[1], s[1] + 1)},
                         {real({s[0], 5, s[3]})}};
     },
     {DType::float32, DType::float16}},
    {"scatter nd",
     [](std::mt19937& r) {
       const Shape s = image(r);
       const char* const reductions[] = {"none", "add", "mul", "max", "min"};
       return Comparison{"ScatterND", {{"reduction", std::string(reductions[between(r, 0, 4)])}, {"batch_dims", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, {s[0], 9, 1}, -s[1], s[1] + 1), random_tensor(r, {s[0], 9, s[2], s[3]})}, {real(s)}, 9};
     },
     {DType::float32, DType::float64, DType::float16}},
    {"scatter elements",
     [](std::mt19937& r) {
       const Shape s = image(r), u{s[0], 7, s[2] - 1, s[3]};
       const char* const reductions[] = {"none", "add", "mul", "max", "min"};
       return Comparison{"ScatterElements", {{"reduction", std::string(reductions[between(r, 0, 4)])}, {"axis", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, u, -s[1] - 1, s[1] + 1), random_tensor(r, u)}, {real(s)}, 7};
     },
     {DType::float32, DType::float64, DType::bfloat16}},
    {"scatter elements of integers",
     [](std::mt19937& r) {
       const Shape s = image(r), u{s[0], s[1], 5, s[3]};
       return Comparison{"ScatterElements",
                         {{"reduction", std::string("add")}, {"axis", std::int64_t{2}}},
                         {random_integers(r, s, -9, 9), random_integers(r, u, -s[2], s[2]), random_integers(r, u, -9, 9)},
                         {{DType::int64, s}}};
     },
     {DType::float32}},
    {"gather elements",
     [](std::mt19937& r) {
       const Shape s = image(r), y{s[0], 7, s[2], s[3]};
       return Comparison{
           "GatherElements", {{"axis", std::int64_t{1}}}, {random_tensor(r, s), random_integers(r, y, -s[1], s[1] + 1)}, {real(y)}};
     },
     {DType::float32, DType::float16}},
    {"gather elements backward",
     [](std::mt19937& r) {
       const Shape s = image(r), y{s[0], 7, s[2], s[3]};
       return Comparison{"GatherElementsBackward",
                         {{"axis", std::int64_t{1}}, {"input_shape", s.dims}},
                         {random_tensor(r, y), random_integers(r, y, -s[1] - 1, s[1] + 1)},
                         {real(s)},
                         7};
     },
     {DType::float32, DType::float64, DType::bfloat16}},
};

}  // namespace

std::vector<CaseRow> movement() { return list(movement_rows); }

}  // namespace tandem::cuda::cases
