// Elementwise operators and their gradients.
#include "tests/cuda/cases/rows.h"

namespace tandem::cuda::cases {
namespace {

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

}  // namespace

std::vector<CaseRow> elementwise() { return list(elementwise_rows); }

}  // namespace tandem::cuda::cases
