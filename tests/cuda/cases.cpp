// One table a family of operators. The file is long because it is a list: a row is a case, and rows share only how they
// are made.
#include "tests/cuda/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/small_types.h"

namespace tandem::cuda {
namespace {

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
Shape image(std::mt19937& random) { return {between(random, 1, 3), between(random, 1, 9), between(random, 3, 8), between(random, 3, 8)}; }
TensorType real(Shape shape) { return {DType::float64, std::move(shape)}; }

// ---- elementwise ----

Comparison unary(std::mt19937& random, const char* op, Attributes attributes = {}, double low = -3, double high = 3) {
  const Shape s = image(random);
  return {op, std::move(attributes), {random_tensor(random, s, low, high)}, {real(s)}, 16};
}
Comparison binary(std::mt19937& random, const char* op, Attributes attributes = {}, double low = -3, double high = 3) {
  const Shape s = image(random);
  const Shape others[] = {s, Shape{}, Shape{s[3]}, Shape{s[1], 1, 1}, Shape{1, s[1], 1, 1}, Shape{s[0], 1, s[2], 1}};
  return {op,
          std::move(attributes),
          {random_tensor(random, s, low, high), random_tensor(random, others[between(random, 0, 5)], low, high)},
          {real(s)},
          16};
}

// Of dy, and x at whole numbers, where some functions have two slopes.
Comparison at_kinks(std::mt19937& random, const char* op, Attributes attributes = {}) {
  const Shape s = image(random);
  return {op, std::move(attributes), {random_tensor(random, s), random_integers(random, s, -3, 4).cast(DType::float64)}, {real(s)}, 16};
}

const CaseRow elementwise_rows[] = {
    {"leaky relu backward at 0", [](std::mt19937& r) { return at_kinks(r, "LeakyReluBackward", {{"alpha", 0.125F}}); }},
    {"elu backward at 0", [](std::mt19937& r) { return at_kinks(r, "EluBackward", {{"alpha", 0.75F}}); }},
    {"clip backward at its bounds", [](std::mt19937& r) { return at_kinks(r, "ClipBackward", {{"min", -1.0F}, {"max", 2.0F}}); }},
    {"hard sigmoid backward at its ends", [](std::mt19937& r) { return at_kinks(r, "HardSigmoidBackward", {{"alpha", 0.25F}, {"beta", 0.5F}}); }},
    {"hard swish backward at its ends", [](std::mt19937& r) { return at_kinks(r, "HardSwishBackward"); }},
    {"prelu",
     [](std::mt19937& r) {
       Comparison c = at_kinks(r, "PRelu");
       std::swap(c.inputs[0], c.inputs[1]);
       return c;
     }},
    {"prelu slope",
     [](std::mt19937& r) {
       Comparison c = at_kinks(r, "PReluSlope");
       std::swap(c.inputs[0], c.inputs[1]);
       return c;
     }},
    {"abs", [](std::mt19937& r) { return unary(r, "Abs"); }},
    {"add", [](std::mt19937& r) { return binary(r, "Add"); }, {DType::float32, DType::float64, DType::float16, DType::bfloat16}},
    {"atan", [](std::mt19937& r) { return unary(r, "Atan"); }},
    {"acos", [](std::mt19937& r) { return unary(r, "Acos", {}, -1, 1); }},
    {"acosh", [](std::mt19937& r) { return unary(r, "Acosh", {}, 1.01, 9); }},
    {"asin", [](std::mt19937& r) { return unary(r, "Asin", {}, -1, 1); }},
    {"asinh", [](std::mt19937& r) { return unary(r, "Asinh", {}, -9, 9); }},
    {"atanh", [](std::mt19937& r) { return unary(r, "Atanh", {}, -0.9, 0.9); }},
    {"cosh", [](std::mt19937& r) { return unary(r, "Cosh", {}, -9, 9); }},
    {"sinh", [](std::mt19937& r) { return unary(r, "Sinh", {}, -9, 9); }},
    {"tan", [](std::mt19937& r) { return unary(r, "Tan", {}, -1.4, 1.4); }},
    {"ceil", [](std::mt19937& r) { return unary(r, "Ceil"); }},
    {"clip", [](std::mt19937& r) { return unary(r, "Clip", {{"min", -0.5F}, {"max", 1.25F}}); }},
    {"clip backward", [](std::mt19937& r) { return binary(r, "ClipBackward", {{"min", -0.5F}, {"max", 1.25F}}); }},
    {"cos", [](std::mt19937& r) { return unary(r, "Cos"); }},
    {"div", [](std::mt19937& r) { return binary(r, "Div", {}, 0.5, 4); }},
    {"elu", [](std::mt19937& r) { return unary(r, "Elu", {{"alpha", 0.75F}}); }},
    {"elu backward", [](std::mt19937& r) { return binary(r, "EluBackward", {{"alpha", 0.75F}}); }},
    {"erf", [](std::mt19937& r) { return unary(r, "Erf"); }},
    {"exp", [](std::mt19937& r) { return unary(r, "Exp"); }},
    {"floor", [](std::mt19937& r) { return unary(r, "Floor"); }},
    {"hard sigmoid", [](std::mt19937& r) { return unary(r, "HardSigmoid", {{"alpha", 0.25F}, {"beta", 0.5F}}); }},
    {"hard sigmoid backward", [](std::mt19937& r) { return binary(r, "HardSigmoidBackward", {{"alpha", 0.25F}, {"beta", 0.5F}}); }},
    {"leaky relu", [](std::mt19937& r) { return unary(r, "LeakyRelu", {{"alpha", 0.125F}}); }},
    {"leaky relu backward", [](std::mt19937& r) { return binary(r, "LeakyReluBackward", {{"alpha", 0.125F}}); }},
    {"log", [](std::mt19937& r) { return unary(r, "Log", {}, 0.25, 4); }},
    {"max", [](std::mt19937& r) { return binary(r, "Max"); }},
    {"min", [](std::mt19937& r) { return binary(r, "Min"); }},
    {"mod", [](std::mt19937& r) { return binary(r, "Mod", {}, 0.5, 4); }},
    {"fmod", [](std::mt19937& r) { return binary(r, "Mod", {{"fmod", std::int64_t{1}}}, 0.5, 4); }},
    {"mod of integers",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Mod", {{"fmod", between(r, 0, 1)}}, {random_integers(r, s, -9, 9), random_integers(r, s, -3, 4)}, {{DType::int64, s}}};
     },
     {DType::float32}},
    {"bits of integers",
     [](std::mt19937& r) {
       const char* const ops[] = {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"};
       const Shape s = image(r);
       return Comparison{ops[between(r, 0, 3)], {{"direction", std::string(between(r, 0, 1) ? "LEFT" : "RIGHT")}}, {random_integers(r, s, -99, 99), random_integers(r, s, -3, 70)}, {{DType::int64, s}}};
     },
     {DType::float32}},
    {"mul", [](std::mt19937& r) { return binary(r, "Mul"); }, {DType::float32, DType::float16, DType::bfloat16}},
    {"pow of integers",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Pow", {}, {random_integers(r, s, -4, 5), random_integers(r, s, -3, 12)}, {{DType::int64, s}}};
     },
     {DType::float32}},
    {"gelu by erf", [](std::mt19937& r) { return unary(r, "GeluErf"); }},
    {"gelu by erf backward", [](std::mt19937& r) { return binary(r, "GeluErfBackward"); }},
    {"gelu by tanh", [](std::mt19937& r) { return unary(r, "GeluTanh"); }},
    {"gelu by tanh backward", [](std::mt19937& r) { return binary(r, "GeluTanhBackward"); }},
    {"hard swish", [](std::mt19937& r) { return unary(r, "HardSwish"); }},
    {"hard swish backward", [](std::mt19937& r) { return binary(r, "HardSwishBackward"); }},
    {"swish", [](std::mt19937& r) { return unary(r, "Swish", {{"alpha", 1.5F}}); }},
    {"swish backward", [](std::mt19937& r) { return binary(r, "SwishBackward", {{"alpha", 1.5F}}); }},
    {"neg", [](std::mt19937& r) { return unary(r, "Neg"); }},
    {"pow", [](std::mt19937& r) { return binary(r, "Pow", {}, 0.5, 2); }},
    {"reciprocal", [](std::mt19937& r) { return unary(r, "Reciprocal", {}, 0.5, 4); }},
    {"relu", [](std::mt19937& r) { return unary(r, "Relu"); }},
    {"relu backward", [](std::mt19937& r) { return binary(r, "ReluBackward"); }},
    {"quantize levels", [](std::mt19937& r) { return binary(r, "QuantizeLevels", {{"min", -2.0F}, {"max", 3.0F}}, 0.5, 9); }},
    {"round", [](std::mt19937& r) { return unary(r, "Round"); }},
    {"sigmoid", [](std::mt19937& r) { return unary(r, "Sigmoid"); }},
    {"sigmoid backward", [](std::mt19937& r) { return binary(r, "SigmoidBackward"); }},
    {"sign", [](std::mt19937& r) { return unary(r, "Sign"); }},
    {"sin", [](std::mt19937& r) { return unary(r, "Sin"); }},
    {"softplus", [](std::mt19937& r) { return unary(r, "Softplus"); }},
    {"sqrt", [](std::mt19937& r) { return unary(r, "Sqrt", {}, 0, 4); }},
    {"sub", [](std::mt19937& r) { return binary(r, "Sub"); }},
    {"tanh", [](std::mt19937& r) { return unary(r, "Tanh"); }},
    {"tanh backward", [](std::mt19937& r) { return binary(r, "TanhBackward"); }},
    {"a fused program",
     [](std::mt19937& r) {
       const Shape s = image(r);
       // y0 = relu(a · b + c), y1 = a · b
       Attributes a{{"ops", Strings{"Mul", "Add", "Relu"}}, {"args", Ints{0, 1, -1, 3, 2, -1, 4, -1, -1}}, {"params", Floats(6, 0.0F)}, {"results", Ints{5, 3}}};
       return Comparison{"Elementwise", a, {random_tensor(r, s), random_tensor(r, {1, s[1], 1, 1}), random_tensor(r, {})}, {real(s), real(s)}, 4};
     },
     {DType::float32, DType::float64, DType::float16, DType::bfloat16}},
};

// ---- reductions ----

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

const std::vector<DType> numbers{DType::float32, DType::float64, DType::float16, DType::bfloat16};

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

// ---- movement ----

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

// Tables with entries of `least` to `most` terms, some of them outside of the axis.
Comparison resample(std::mt19937& random, int axis, int axes, bool weighted, std::int64_t least, std::int64_t most) {
  const Shape s = image(random);
  Comparison c{"Resample", {{"axis", std::int64_t{axis}}}, {random_tensor(random, s)}, {real(s)}, 36};
  for (int a = 0; a < axes; ++a) {
    std::vector<std::int32_t> starts{0};
    for (std::int64_t i = between(random, 1, 9); i > 0; --i)
      starts.push_back(starts.back() + static_cast<std::int32_t>(between(random, least, most)));
    c.inputs.push_back(Tensor::of<std::int32_t>(Shape{std::ssize(starts)}, starts));
    c.inputs.push_back(random_integers(random, {starts.back()}, -1, s[axis + a]).cast(DType::int32));
    if (weighted || a + 1 < axes) c.inputs.push_back(weighted ? random_tensor(random, {starts.back()}) : Tensor());
    c.outputs[0].shape[axis + a] = std::ssize(starts) - 1;
  }
  return c;
}

Comparison pad(std::mt19937& random, const char* op, const char* mode, bool crop) {
  const Shape s = image(random);
  Ints pads{0, 0, between(random, 0, 2), between(random, 0, 2), 0, 0, between(random, 0, 2), between(random, 0, 2)};
  if (crop) pads[2] = -1;
  Shape y = s;
  for (int axis = 0; axis < 4; ++axis) y[axis] += pads[static_cast<std::size_t>(axis)] + pads[static_cast<std::size_t>(axis) + 4];
  const bool backward = std::string_view(op) == "PadBackward";
  Attributes a{{"pads", pads}, {"mode", std::string(mode)}, {"value", 1.5F}};
  if (backward) a.set("input_shape", s.dims);
  return {op, a, {random_tensor(random, backward ? y : s)}, {real(backward ? s : y)}, 16};
}

const CaseRow resample_rows[] = {
    {"resample two axes, moved", [](std::mt19937& r) { return resample(r, 2, 2, false, 1, 1); }, {DType::float32, DType::float16}},
    {"resample two axes, summed", [](std::mt19937& r) { return resample(r, 2, 2, false, 0, 3); }},
    {"resample two axes, weighted", [](std::mt19937& r) { return resample(r, 2, 2, true, 0, 4); }},
    {"resample the last axis", [](std::mt19937& r) { return resample(r, 3, 1, true, 1, 2); }},
    {"resample channels and lines", [](std::mt19937& r) { return resample(r, 1, 2, true, 1, 2); }},
};

Comparison sample_rows(std::mt19937& random, const char* op) {
  const std::int64_t b = between(random, 1, 3), m = between(random, 1, 9), p = between(random, 1, 7), k = between(random, 1, 4),
                     c = between(random, 1, 40);
  const Tensor index = random_integers(random, {b, p, k}, -2, m + 1);
  const Shape x{b, m, c}, y{b, p, c}, taps{b, p, k};
  const std::string_view name = op;
  if (name == "SampleRows") return {op, {}, {random_tensor(random, x), index, random_tensor(random, taps)}, {real(y)}, k};
  if (name == "SampleRowsBackwardData")
    return {op, {{"input_shape", x.dims}}, {random_tensor(random, y), index, random_tensor(random, taps)}, {real(x)}, p * k};
  return {op, {}, {random_tensor(random, x), random_tensor(random, y), index}, {real(taps)}, c};
}
const CaseRow sampling_rows[] = {
    {"sample rows", [](std::mt19937& r) { return sample_rows(r, "SampleRows"); }},
    {"sample rows backward data", [](std::mt19937& r) { return sample_rows(r, "SampleRowsBackwardData"); }},
    {"sample rows backward weights", [](std::mt19937& r) { return sample_rows(r, "SampleRowsBackwardWeights"); }},
};

const CaseRow pad_rows[] = {
    {"constant", [](std::mt19937& r) { return pad(r, "Pad", "constant", false); }, {DType::float32, DType::float16}},
    {"constant, cropping", [](std::mt19937& r) { return pad(r, "Pad", "constant", true); }},
    {"reflect", [](std::mt19937& r) { return pad(r, "Pad", "reflect", false); }},
    {"edge", [](std::mt19937& r) { return pad(r, "Pad", "edge", false); }},
    {"wrap", [](std::mt19937& r) { return pad(r, "Pad", "wrap", false); }},
    {"constant backward", [](std::mt19937& r) { return pad(r, "PadBackward", "constant", false); }},
    {"constant backward, cropping", [](std::mt19937& r) { return pad(r, "PadBackward", "constant", true); }},
    {"reflect backward", [](std::mt19937& r) { return pad(r, "PadBackward", "reflect", false); }},
    {"edge backward", [](std::mt19937& r) { return pad(r, "PadBackward", "edge", false); }},
    {"wrap backward", [](std::mt19937& r) { return pad(r, "PadBackward", "wrap", false); }},
};

// ---- choices ----

// To integers of few bits nothing that is no number: ONNX does not say what becomes of it.
Comparison cast_to_small(std::mt19937& r) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0, -0.0, 0x1p-126, -0x1p-30, std::numeric_limits<double>::quiet_NaN(), inf, -inf, 1e30};
  const char* const modes[] = {"up", "down", "nearest"};
  const auto to = static_cast<DType>(between(r, 17, 28));
  Tensor x = random_tensor(r, image(r), -600, 600);
  for (double& v : x.write<double>()) {
    v = std::ldexp(v, static_cast<int>(-between(r, 0, 12)));
    if (between(r, 0, 7) == 0) v = special[between(r, 0, is_small_integer(to) ? 3 : 7)];
  }
  Attributes attributes{{"to", static_cast<std::int64_t>(to)}, {"saturate", between(r, 0, 1)}};
  if (to == DType::float8e8m0) attributes.set("round_mode", std::string(modes[between(r, 0, 2)]));
  return {"Cast", attributes, {x}, {{to, x.shape()}}};
}

const CaseRow choice_rows[] = {
    {"equal",
     [](std::mt19937& r) {
       auto c = binary(r, "Equal", {}, -0.05, 0.05);
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"less or equal",
     [](std::mt19937& r) {
       auto c = binary(r, "LessOrEqual");
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"greater",
     [](std::mt19937& r) {
       auto c = binary(r, "Greater");
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"where",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Where",
                         {},
                         {random_integers(r, {s[1], 1, 1}, 0, 2).cast(DType::boolean), random_tensor(r, s), random_tensor(r, {})},
                         {real(s)}};
     }},
    {"cast to int64",
     [](std::mt19937& r) {
       auto c = unary(r, "Cast", {{"to", std::int64_t{7}}});
       c.outputs[0].dtype = DType::int64;
       return c;
     }},
    {"cast to boolean",
     [](std::mt19937& r) {
       auto c = unary(r, "Cast", {{"to", std::int64_t{9}}}, -0.05, 0.05);
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"cast from int64",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Cast", {{"to", std::int64_t{11}}}, {random_integers(r, s, -9, 9)}, {real(s)}};
     },
     {DType::float64}},
    {"cast to small types", cast_to_small},
    {"cast from small types",
     [](std::mt19937& r) {
       const auto from = static_cast<DType>(between(r, 17, 28));
       Tensor x(TensorType{from, image(r)});
       for (std::byte& b : x.write())
         b = std::byte{is_small_integer(from) ? low_bits(between(r, 0, 255), from)
                                              : static_cast<std::uint8_t>(between(r, 0, (1 << bits_of(from)) - 1))};
       return Comparison{"Cast", {{"to", std::int64_t{1}}}, {x}, {real(x.shape())}};
     }},
};

// ---- softmax, losses, metrics ----

const CaseRow loss_rows[] = {
    {"softmax", [](std::mt19937& r) { auto c = unary(r, "Softmax", {{"axis", std::int64_t{1}}}); c.terms = 64; return c; }, {DType::float32, DType::float64, DType::float16, DType::bfloat16}},
    {"log softmax", [](std::mt19937& r) { auto c = unary(r, "LogSoftmax", {{"axis", std::int64_t{-1}}}); c.terms = 64; return c; }},
    {"log softmax of large numbers",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 2, 200)};
       return Comparison{"LogSoftmax", {{"axis", std::int64_t{1}}}, {random_tensor(r, s, 10000, 10004)}, {real(s)}, s[1]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"cross-entropy of large numbers",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 150)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s, 10000, 10004), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32},
     {"ab"}},
    {"softmax of long rows",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 65, 300)};
       return Comparison{"Softmax", {{"axis", std::int64_t{1}}}, {random_tensor(r, s)}, {real(s)}, s[1]};
     },
     {DType::float32, DType::float64, DType::float16},
     {"ab"}},
    {"cross-entropy of classes",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 150)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"cross-entropy of long rows in 16 bits",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 5), between(r, 200, 1200)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.125F}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::bfloat16, DType::float16},
     {"ab"}},
    {"cross-entropy, some ignored",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 9)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}, {"ignore_index", std::int64_t{1}}},
                         {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])},
                         {real({}), real(s)},
                         s[1] * s[0]};
     },
     {DType::float32},
     {"ab"}},
    {"cross-entropy, a label that is no class",
     [](std::mt19937& r) {
       const Shape s{3, between(r, 2, 9)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}},
                         {random_tensor(r, s), random_integers(r, {3}, s[1], s[1] + 2)},
                         {real({}), real(s)},
                         s[1]};
     },
     {DType::float32},
     {"ab"}},
    {"cross-entropy of dense labels",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 9), between(r, 2, 40)};
       return Comparison{"SoftmaxCrossEntropyTraining",
                         {{"scale", 0.5F}},
                         {random_tensor(r, s), random_tensor(r, s, 0, 1)},
                         {real({}), real(s)},
                         s[1] * s[1] * s[0]};
     },
     {DType::float32, DType::float64},
     {"ab"}},
    {"negative log likelihood, mean",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLoss",
                         {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{1}}},
                         {random_tensor(r, s, -4, 0), random_integers(r, {s[0], s[2]}, 0, s[1]), random_tensor(r, {s[1]}, 0.5, 2)},
                         {real({})},
                         64};
     },
     {DType::float32, DType::float64},
     {"abc"}},
    {"negative log likelihood, each",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLoss",
                         {{"reduction", std::string("none")}},
                         {random_tensor(r, s, -4, 0), random_integers(r, {s[0], s[2]}, 0, s[1])},
                         {real({s[0], s[2]})}};
     },
     {DType::float32},
     {"abc"}},
    {"negative log likelihood backward",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 4), between(r, 2, 9), between(r, 1, 5)};
       return Comparison{"NegativeLogLikelihoodLossBackward",
                         {{"reduction", std::string("mean")}, {"input_shape", s.dims}},
                         {random_tensor(r, {}), random_integers(r, {s[0], s[2]}, 0, s[1]), random_tensor(r, {s[1]}, 0.5, 2)},
                         {real(s)},
                         64};
     },
     {DType::float32, DType::float64},
     {"abc"}},
    {"count of the correct of long rows",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 60), between(r, 5, 60)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])}, {{DType::float32, {}}}};
     },
     {DType::float32, DType::bfloat16},
     {"ab"}},
    {"count of the correct",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 40), between(r, 2, 5)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_integers(r, {s[0]}, 0, s[1])}, {{DType::float32, {}}}};
     },
     {DType::float32},
     {"ab"}},
    {"count of the correct among dense labels",
     [](std::mt19937& r) {
       const Shape s{between(r, 1, 40), between(r, 2, 5)};
       return Comparison{"CountCorrect", {}, {random_tensor(r, s), random_tensor(r, s)}, {{DType::float32, {}}}};
     },
     {DType::float32},
     {"ab"}},
};

// ---- windows ----

struct Windowed {
  Shape x, y;
  Attributes attributes;
};
Windowed windowed(std::mt19937& random, bool dilates, bool both_axes = false) {
  Windowed w{image(random), {}, {}};
  const Ints kernel{between(random, 1, 3), between(random, 1, 3)}, strides{between(random, 1, 2), between(random, 1, 3)};
  const Ints dilations = dilates ? Ints{between(random, 1, 2), both_axes ? between(random, 1, 2) : 1} : Ints{1, 1};
  const Ints pads{between(random, 0, kernel[0] - 1), 0, between(random, 0, kernel[0] - 1), between(random, 0, kernel[1] - 1)};
  w.y = w.x;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
    w.x[2 + static_cast<int>(i)] = std::max(w.x[2 + static_cast<int>(i)], extent);
    w.y[2 + static_cast<int>(i)] = (w.x[2 + static_cast<int>(i)] + pads[i] + pads[i + 2] - extent) / strides[i] + 1;
  }
  w.attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}};
  return w;
}

Comparison convolution(std::mt19937& random, const char* op) {
  Windowed w = windowed(random, true);
  const std::int64_t groups = between(random, 1, 2), in = groups * between(random, 1, 3), out = groups * between(random, 1, 3);
  w.x[1] = in;
  w.y[1] = out;
  const Ints kernel = w.attributes.ints("kernel_shape");
  const Shape filter{out, in / groups, kernel[0], kernel[1]};
  w.attributes.set("group", groups);
  const std::string_view name = op;
  if (name == "Conv") {
    w.attributes.set("activation", std::string("Relu"));
    return {op, w.attributes, {random_tensor(random, w.x), random_tensor(random, filter), random_tensor(random, {out})}, {real(w.y)}, 256};
  }
  if (name == "ConvolutionBackwardData") {
    w.attributes.set("input_shape", w.x.dims);
    Comparison c{op, w.attributes, {random_tensor(random, w.y), random_tensor(random, filter)}, {real(w.x)}, 256};
    if (between(random, 0, 1) == 1) c.inputs.push_back(random_tensor(random, w.x));  // masks
    return c;
  }
  if (name == "ConvTranspose") {
    w.attributes.set("output_padding", Ints{0, 0});
    return {op, w.attributes, {random_tensor(random, w.y), random_tensor(random, filter), random_tensor(random, {in})}, {real(w.x)}, 256};
  }
  w.attributes.set("weight_shape", filter.dims);
  return {op, w.attributes, {random_tensor(random, w.x), random_tensor(random, w.y)}, {real(filter), real({out})}, 2048};
}

// With sums of what is written, perhaps normalizing what is read. Channels in eights: libraries have kernels for no others.
Comparison chained_convolution(std::mt19937& random, const char* op, bool normalizes) {
  Windowed w = windowed(random, true);
  w.x[1] = 8 * between(random, 1, 2);
  w.y[1] = 8 * between(random, 1, 2);
  const Ints kernel = w.attributes.ints("kernel_shape");
  const Shape filter{w.y[1], w.x[1], kernel[0], kernel[1]}, c{w.y[1]}, in{w.x[1]};
  const bool forward = std::string_view(op) == "Conv";
  Comparison k{
      op, w.attributes, {random_tensor(random, w.x), random_tensor(random, forward ? filter : w.y)}, {real(forward ? w.y : filter)}, 2048};
  if (forward) k.outputs.insert(k.outputs.end(), {real(c), real(c)});
  if (!forward) k.attributes.set("weight_shape", filter.dims);
  if (normalizes && forward) k.inputs.emplace_back();  // no bias
  if (normalizes)
    for (const double most : {2, 1}) k.inputs.push_back(random_tensor(random, in, -most, most));
  return k;
}

Comparison pooling(std::mt19937& random, const char* op, bool in_eights = false) {
  Windowed w = windowed(random, true, in_eights);
  if (in_eights) w.x[1] = w.y[1] = 8 * between(random, 1, 3);
  w.attributes.set("count_include_pad", between(random, 0, 1));
  const bool backward = std::string_view(op).ends_with("Backward");
  if (backward) w.attributes.set("input_shape", w.x.dims);
  Comparison c{op, w.attributes, {random_tensor(random, backward ? w.y : w.x)}, {real(backward ? w.x : w.y)}, 16};
  if (std::string_view(op) == "MaxPool") {
    c.attributes.set("storage_order", between(random, 0, 1));
    c.outputs.push_back({DType::int64, w.y});
  }
  return c;
}

const CaseRow window_rows[] = {
    {"convolution", [](std::mt19937& r) { return convolution(r, "Conv"); }, {DType::float32, DType::float64, DType::bfloat16}},
    {"convolution with sums", [](std::mt19937& r) { return chained_convolution(r, "Conv", false); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution that normalizes", [](std::mt19937& r) { return chained_convolution(r, "Conv", true); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution backward weights that normalizes", [](std::mt19937& r) { return chained_convolution(r, "ConvolutionBackwardWeights", true); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution backward data", [](std::mt19937& r) { return convolution(r, "ConvolutionBackwardData"); }},
    {"convolution backward weights", [](std::mt19937& r) { return convolution(r, "ConvolutionBackwardWeights"); }},
    {"transposed convolution", [](std::mt19937& r) { return convolution(r, "ConvTranspose"); }},
    {"max pool", [](std::mt19937& r) { return pooling(r, "MaxPool"); }},
    {"average pool", [](std::mt19937& r) { return pooling(r, "AveragePool"); }, {DType::float32, DType::float64, DType::float16}},
    {"average pool backward", [](std::mt19937& r) { return pooling(r, "AveragePoolBackward"); }},
    {"average pool of channels in eights", [](std::mt19937& r) { return pooling(r, "AveragePool", true); }, numbers},
    {"average pool backward of channels in eights", [](std::mt19937& r) { return pooling(r, "AveragePoolBackward", true); }, numbers},
    {"local response normalization", [](std::mt19937& r) { return unary(r, "LRN", {{"size", between(r, 1, 5)}, {"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 1.0F}}); }},
    {"batch normalization factors",
     [](std::mt19937& r) {
       const Shape c{between(r, 1, 300)};
       const std::int64_t count = 16;  // variances from 1/4
       return Comparison{"BatchNormalizationFactors",
                         {{"epsilon", 1e-3F}, {"count", count}},
                         {random_tensor(r, c, -8, 8), random_tensor(r, c, 8, 32), random_tensor(r, c), random_tensor(r, c)},
                         {real(c), real(c), {DType::uint8, {0}}, real(c), real(c)},
                         64};
     },
     {DType::float32, DType::float64},
     {"a"}},
    {"batch normalization, inference",
     [](std::mt19937& r) {
       const Shape s = image(r), c{s[1]};
       return Comparison{"BatchNormalization",
                         {{"epsilon", 1e-3F}},
                         {random_tensor(r, s), random_tensor(r, c), random_tensor(r, c), random_tensor(r, c), random_tensor(r, c, 0.5, 2)},
                         {real(s)},
                         64};
     }},
};

// ---- products: no kernels of our own ----

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

template <std::size_t N>
std::vector<CaseRow> list(const CaseRow (&rows)[N]) {
  return {std::begin(rows), std::end(rows)};
}

}  // namespace

const std::vector<CaseFamily>& case_families() {
  static const std::vector<CaseFamily> families = {
      {"Elementwise", list(elementwise_rows)}, {"Reductions", list(reduction_rows)}, {"Movement", list(movement_rows)}, {"Pad", list(pad_rows)}, {"Resample", list(resample_rows)}, {"Sampling", list(sampling_rows)},
      {"Choices", list(choice_rows)},          {"Losses", list(loss_rows)},          {"Windows", list(window_rows)},   {"Products", list(product_rows), false},
  };
  return families;
}

std::vector<NamedCase> all_cases(bool own_kernels_only) {
  std::vector<NamedCase> all;
  for (const CaseFamily& family : case_families()) {
    if (own_kernels_only && !family.own_kernels) continue;
    for (const CaseRow& row : family.rows) {
      std::string name = concat(family.name, '_');
      for (const char c : std::string_view(row.name)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      all.push_back({name, row});
    }
  }
  return all;
}

}  // namespace tandem::cuda
