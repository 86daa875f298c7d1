#include "graph/operator.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

using Function = double (*)(double a, double b);

struct Row {
  const char* op;
  int arity;
  double low, high;    // of the inputs
  double ulps;         // float32
  Function f;
  Attributes attributes = {};
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_below(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
double gelu_bend(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

// Errors in units of float's epsilon relative to the result.
const Row rows[] = {
    {"Add", 2, -2, 2, 0.5, [](double a, double b) { return static_cast<double>(static_cast<float>(a) + static_cast<float>(b)); }},
    {"Sub", 2, -2, 2, 0.5, [](double a, double b) { return static_cast<double>(static_cast<float>(a) - static_cast<float>(b)); }},
    {"Mul", 2, -2, 2, 0.6, [](double a, double b) { return a * b; }},
    {"Div", 2, -2, 2, 0.6, [](double a, double b) { return a / b; }},
    {"Max", 2, -2, 2, 0, [](double a, double b) { return std::max(a, b); }},
    {"Min", 2, -2, 2, 0, [](double a, double b) { return std::min(a, b); }},
    {"Pow", 2, 0.1, 3, 2, [](double a, double b) { return std::pow(a, b); }},
    {"Relu", 1, -2, 2, 0, [](double x, double) { return std::max(x, 0.0); }},
    {"LeakyRelu", 1, -2, 2, 1, [](double x, double) { return x >= 0 ? x : 0.25 * x; }, {{"alpha", 0.25F}}},
    {"Elu", 1, -20, 2, 4, [](double x, double) { return x >= 0 ? x : 1.5 * std::expm1(x); }, {{"alpha", 1.5F}}},
    {"Elu", 1, -1e-3, 1e-3, 4, [](double x, double) { return x >= 0 ? x : std::expm1(x); }},
    {"Sigmoid", 1, -80, 80, 3, [](double x, double) { return sigmoid(x); }},
    {"Tanh", 1, -12, 12, 3, [](double x, double) { return std::tanh(x); }},
    {"Tanh", 1, -0.7, 0.7, 3, [](double x, double) { return std::tanh(x); }},
    {"Softplus", 1, -80, 80, 3, [](double x, double) { return std::log1p(std::exp(x)); }},
    {"Exp", 1, -87, 88, 2, [](double x, double) { return std::exp(x); }},
    {"Exp", 1, -1, 1, 2, [](double x, double) { return std::exp(x); }},
    {"Log", 1, 1e-30, 1e3, 2, [](double x, double) { return std::log(x); }},
    {"Log", 1, 0.5, 2, 2, [](double x, double) { return std::log(x); }},
    {"Erf", 1, -5, 5, 3, [](double x, double) { return std::erf(x); }},
    {"Erf", 1, -1, 1, 3, [](double x, double) { return std::erf(x); }},
    {"Sqrt", 1, 0, 9, 0.6, [](double x, double) { return std::sqrt(x); }},
    {"Abs", 1, -2, 2, 0, [](double x, double) { return std::abs(x); }},
    {"Neg", 1, -2, 2, 0, [](double x, double) { return -x; }},
    {"Reciprocal", 1, -2, 2, 0.6, [](double x, double) { return 1 / x; }},
    {"Sign", 1, -2, 2, 0, [](double x, double) { return static_cast<double>((x > 0) - (x < 0)); }},
    {"Floor", 1, -9, 9, 0, [](double x, double) { return std::floor(x); }},
    {"Ceil", 1, -9, 9, 0, [](double x, double) { return std::ceil(x); }},
    {"Round", 1, -9, 9, 0, [](double x, double) { return std::nearbyint(x); }},
    {"QuantizeLevels", 2, 0.5, 9, 0, [](double x, double s) { return std::clamp(std::nearbyint(x / s), 1.0, 4.0); }, {{"min", 1.0F}, {"max", 4.0F}}},
    {"Sin", 1, -9, 9, 2, [](double x, double) { return std::sin(x); }},
    {"Cos", 1, -9, 9, 2, [](double x, double) { return std::cos(x); }},
    {"Atan", 1, -9, 9, 2, [](double x, double) { return std::atan(x); }},
    {"Acos", 1, -1, 1, 8, [](double x, double) { return std::acos(x); }},
    {"Acosh", 1, 1.01, 9, 64, [](double x, double) { return std::acosh(x); }},
    {"Asin", 1, -1, 1, 2, [](double x, double) { return std::asin(x); }},
    {"Asinh", 1, -9, 9, 2, [](double x, double) { return std::asinh(x); }},
    {"Atanh", 1, -0.9, 0.9, 4, [](double x, double) { return std::atanh(x); }},
    {"Cosh", 1, -9, 9, 2, [](double x, double) { return std::cosh(x); }},
    {"Sinh", 1, -9, 9, 2, [](double x, double) { return std::sinh(x); }},
    {"Tan", 1, -1.4, 1.4, 2, [](double x, double) { return std::tan(x); }},
    {"Identity", 1, -2, 2, 0, [](double x, double) { return x; }},
    {"Clip", 1, -2, 2, 0, [](double x, double) { return std::clamp(x, -0.5, 0.75); }, {{"min", -0.5F}, {"max", 0.75F}}},
    {"HardSigmoid", 1, -5, 5, 2, [](double x, double) { return std::clamp(0.25 * x + 0.5, 0.0, 1.0); }, {{"alpha", 0.25F}, {"beta", 0.5F}}},
    {"GeluErf", 1, -5, 9, 6, [](double x, double) { return x * normal_below(x); }},
    {"GeluTanh", 1, -2, 9, 12, [](double x, double) { return 0.5 * x * (1 + std::tanh(gelu_bend(x))); }},
    {"HardSwish", 1, -2.9, 5, 3, [](double x, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
    {"Swish", 1, -20, 20, 6, [](double x, double) { return x * sigmoid(x); }},
    {"Swish", 1, -9, 9, 12, [](double x, double) { return x * sigmoid(1.5 * x); }, {{"alpha", 1.5F}}},
    {"GeluErfBackward", 2, -0.4, 6, 6, [](double dy, double x) { return dy * (normal_below(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI)); }},
    {"GeluTanhBackward", 2, -0.4, 6, 8,
     [](double dy, double x) {
       const double t = std::tanh(gelu_bend(x));
       return dy * 0.5 * (1 + t + x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x));
     }},
    {"HardSwishBackward", 2, -1.2, 5, 4, [](double dy, double x) { return x >= 3 ? dy : dy * (x / 3 + 0.5); }},
    {"SwishBackward", 2, -1, 9, 8, [](double dy, double x) { return dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))); }},
    {"ReluBackward", 2, -2, 2, 0, [](double dy, double y) { return y > 0 ? dy : 0; }},
    {"PRelu", 2, -2, 2, 1, [](double x, double slope) { return x > 0 ? x : slope * x; }},
    {"PReluSlope", 2, -2, 2, 1, [](double x, double slope) { return x > 0 ? 1 : slope; }},
    {"LeakyReluBackward", 2, -2, 2, 1, [](double dy, double x) { return x > 0 ? dy : 0.25 * dy; }, {{"alpha", 0.25F}}},
    {"EluBackward", 2, -2, 2, 3, [](double dy, double y) { return y > 0 ? dy : dy * (y + 4); }, {{"alpha", 4.0F}}},
    {"SigmoidBackward", 2, 0.1, 0.9, 4, [](double dy, double y) { return dy * y * (1 - y); }},
    {"TanhBackward", 2, -0.7, 0.7, 4, [](double dy, double y) { return dy * (1 - y * y); }},
    {"HardSigmoidBackward", 2, -5, 5, 1, [](double dy, double x) { return x > -2 && x < 2 ? 0.25 * dy : 0; }, {{"alpha", 0.25F}, {"beta", 0.5F}}},
    {"ClipBackward", 2, -2, 2, 0, [](double dy, double y) { return y > -0.5 && y < 0.75 ? dy : 0; }, {{"min", -0.5F}, {"max", 0.75F}}},
};

TEST(NativeElementwise, EveryOperatorOnEveryInstructionSet) {
  const Shape shape{4999};
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const Row& row : rows) {
        Case c{row.op, row.attributes, {}, {plain(dtype, shape)}};
        std::vector<Values> x;
        for (int k = 0; k < row.arity; ++k) {
          c.inputs.push_back(plain(dtype, shape));
          x.push_back(random_values(shape.elements(), 7u + static_cast<unsigned>(k), row.low, row.high));
        }
        Values wanted;
        for (std::size_t i = 0; i < x[0].size(); ++i) wanted.push_back(row.f(x[0][i], x.back()[i]));
        if (dtype == DType::float64 && (c.op == "Add" || c.op == "Sub"))
          for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = c.op == "Add" ? x[0][i] + x[1][i] : x[0][i] - x[1][i];
        expect_near(run_values(c, x)[0], wanted, row.ulps * 2 * epsilon_of(dtype), concat(row.op, " ", dtype, " ", isa));
      }
  }
}

TEST(NativeElementwise, EveryElementwiseOperatorRunsByItselfAndInAProgram) {
  for (const Operator& op : operators()) {
    if (!op.elementwise) continue;
    const bool real = op.types.empty() || op.types[0].allowed.has(DType::float32);
    const Operand x = plain(real ? DType::float32 : DType::int64, {3});
    bool alone = false, fused = false;
    for (std::size_t arity = 1; arity <= 2; ++arity) {
      const std::vector<Operand> inputs(arity, x);
      const Case by_itself{op.name, {}, inputs, {x}};
      const Case program{"Elementwise",
                         {{"ops", Strings{std::string(op.name)}}, {"args", Ints{0, arity > 1 ? 1 : -1, -1}}, {"params", Floats{0, 0}}, {"results", Ints{static_cast<std::int64_t>(arity)}}},
                         inputs,
                         {x}};
      alone = alone || !cpu_backend().describe(by_itself.request()).empty();
      fused = fused || !cpu_backend().describe(program.request()).empty();
    }
    EXPECT_TRUE(alone) << op.name;
    EXPECT_TRUE(fused) << op.name;
  }
}

// docs/kinks.md
TEST(NativeElementwise, GradientsAtKinks) {
  struct Kink {
    const char* op;
    Attributes attributes;
    double a, b, y;
  };
  const Kink kinks[] = {{"LeakyReluBackward", {{"alpha", 0.25F}}, 2, 0, 0.5},
                        {"PReluSlope", {}, 0, 0.25, 0.25},
                        {"PRelu", {}, 0, 0.25, 0},
                        {"ReluBackward", {}, 2, 0, 0},
                        {"EluBackward", {{"alpha", 4.0F}}, 2, 0, 8},
                        {"HardSwishBackward", {}, 2, -3, 0},
                        {"HardSwishBackward", {}, 2, 3, 2},
                        {"HardSigmoidBackward", {{"alpha", 0.25F}, {"beta", 0.5F}}, 2, 2, 0},
                        {"HardSigmoidBackward", {{"alpha", 0.25F}, {"beta", 0.5F}}, 2, -2, 0},
                        {"ClipBackward", {{"min", -1.0F}, {"max", 1.0F}}, 2, 1, 0},
                        {"ClipBackward", {{"min", -1.0F}, {"max", 1.0F}}, 2, -1, 0}};
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const Kink& k : kinks) {
      const Case c{k.op, k.attributes, {plain(DType::float32, {40}), plain(DType::float32, {40})}, {plain(DType::float32, {40})}};
      EXPECT_EQ(run_values(c, {Values(40, k.a), Values(40, k.b)})[0], Values(40, k.y))
          << k.op << " of " << k.a << " and " << k.b << ' ' << isa;
    }
  }
}

TEST(NativeElementwise, EdgesOfTheFunctions) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  struct Edge {
    const char* op;
    double x, y;
  };
  const Edge edges[] = {{"Exp", -inf, 0}, {"Exp", inf, inf}, {"Exp", nan, nan}, {"Exp", 89.5, inf}, {"Exp", -200, 0},
                        {"Log", 0, -inf}, {"Log", -1, nan}, {"Log", inf, inf}, {"Log", nan, nan}, {"Log", 1, 0},
                        {"Tanh", inf, 1}, {"Tanh", -inf, -1}, {"Tanh", 0, 0}, {"Tanh", nan, nan}, {"Erf", inf, 1}, {"Erf", -inf, -1},
                        {"Erf", nan, nan}, {"Sigmoid", inf, 1}, {"Sigmoid", -inf, 0}, {"Softplus", 0, std::log(2.0)}, {"Softplus", inf, inf},
                        {"Softplus", -inf, 0}, {"Relu", nan, nan}, {"Relu", inf, inf}, {"Sign", nan, nan}, {"Sign", 0, 0}, {"Sqrt", -1, nan}};
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const Edge& e : edges) {
      const Case c{e.op, {}, {plain(DType::float32, {40})}, {plain(DType::float32, {40})}};
      expect_near(run_values(c, {Values(40, e.x)})[0], Values(40, e.y), 1e-7, concat(e.op, "(", e.x, ") ", isa));
    }
  }
}

TEST(NativeElementwise, SmallestFloatsSurviveExpAndLog) {
  const Case e{"Exp", {}, {plain(DType::float32, {32})}, {plain(DType::float32, {32})}};
  EXPECT_NEAR(run_values(e, {Values(32, -100.0)})[0][0] / std::exp(-100.0), 1, 0.05);  // subnormal: few bits are left
  const Case l{"Log", {}, {plain(DType::float32, {32})}, {plain(DType::float32, {32})}};
  EXPECT_NEAR(run_values(l, {Values(32, 0x1p-140)})[0][0], std::log(0x1p-140), 1e-5);
}

// b broadcasts to a's shape in a's layout, given in a layout of its own.
struct Broadcast {
  Shape a;
  const char* layout_a;
  Shape b;
  const char* layout_b;
};
const Broadcast broadcasts[] = {
    {{2, 5, 3, 4}, "abcd", {2, 5, 3, 4}, "abcd"},   {{2, 5, 3, 4}, "acdb", {2, 5, 3, 4}, "acdb"},
    {{2, 20, 3, 4}, "aBcd16b", {2, 20, 3, 4}, "aBcd16b"}, {{2, 20, 3, 4}, "aBcd8b", {1, 20, 1, 1}, "abcd"},
    {{2, 32, 3, 4}, "aBcd16b", {32, 1, 1}, "abc"},  {{2, 20, 3, 4}, "aBcd16b", {20, 1, 1}, "abc"},
    {{2, 20, 3, 4}, "aBcd16b", {1, 20, 1, 1}, "aBcd16b"}, {{2, 20, 3, 4}, "aBcd16b", {}, "a"},
    {{2, 20, 3, 4}, "aBcd16b", {4}, "a"},           {{2, 20, 3, 4}, "aBcd16b", {2, 1, 1, 1}, "abcd"},
    {{2, 20, 3, 4}, "aBcd16b", {1, 1, 3, 1}, "abcd"}, {{2, 20, 3, 4}, "acdb", {20, 1, 1}, "abc"},
    {{2, 20, 3, 4}, "acdb", {1, 20, 1, 1}, "acdb"}, {{2, 20, 3, 4}, "acdb", {3, 4}, "ab"},
    {{2, 20, 3, 4}, "abcd", {20, 1, 1}, "cab"},     {{2, 20, 3, 4}, "abcd", {1, 20, 3, 1}, "acdb"},
    {{7, 1}, "ab", {1, 5}, "ab"},                   {{1, 5}, "ab", {5}, "a"},
    {{3, 1, 5}, "abc", {4, 1}, "ab"},               {{}, "a", {}, "a"},
    {{300, 10}, "ab", {10}, "a"},                   {{8, 3, 50, 50}, "abcd", {3, 1, 1}, "abc"},
    {{8, 3, 50, 50}, "aBcd8b", {3, 1, 1}, "abc"},   {{3, 5000}, "ab", {5000}, "a"},
    {{0, 5}, "ab", {5}, "a"},                       {{2, 0}, "ab", {1, 1}, "ab"},
};

Values oracle(const Shape& y, const Shape& a, const Values& va, const Shape& b, const Values& vb, Function f) {
  Values out;
  const auto number = [&](const Shape& s, std::int64_t i) {
    std::int64_t n = 0, stride = 1;
    for (int axis = y.rank() - 1, k = s.rank() - 1; k >= 0; --axis, --k) {
      n += (s[k] == 1 ? 0 : i % y[axis]) * stride;
      stride *= s[k];
      i /= y[axis];
    }
    return static_cast<std::size_t>(n);
  };
  for (std::int64_t i = 0; i < y.elements(); ++i) out.push_back(f(va[number(a, i)], vb[number(b, i)]));
  return out;
}

TEST(NativeElementwise, BroadcastsInEveryLayout) {
  for (const Broadcast& row : broadcasts) {
    for (const bool swapped : {false, true})
      for (const int threads : {1, 3}) {
        const Shape y = broadcast(row.a, row.b);
        Operand a = operand(DType::float32, row.a, row.layout_a), b = operand(DType::float32, row.b, row.layout_b);
        const Values va = random_values(row.a.elements(), 1), vb = random_values(row.b.elements(), 2, 0.5, 2);
        Case c{"Sub", {}, swapped ? std::vector{b, a} : std::vector{a, b}, {operand(DType::float32, y)}, threads};
        Values wanted = oracle(y, row.a, va, row.b, vb,
                               [](double p, double q) { return static_cast<double>(static_cast<float>(p) - static_cast<float>(q)); });
        if (swapped)
          for (double& v : wanted) v = -v;
        const KernelDescription d = described(c);
        EXPECT_EQ(d.inputs, c.inputs) << "a layout that could be read as it is was not taken: " << row.layout_a << " " << row.layout_b
                                      << " " << to_string(y);
        expect_near(run_values(c, swapped ? std::vector{vb, va} : std::vector{va, vb})[0], wanted, 0,
                    concat(row.a, ":", row.layout_a, " - ", row.b, ":", row.layout_b));
      }
  }
}

// x1 is added to x0; tanh of it is kept and scaled by a channel's x2, which gives two outputs.
Case fused_case(const Operand& x, const Operand& channel, int threads) {
  return {"Elementwise",
          {{"ops", Strings{"Add", "Tanh", "Mul", "Clip"}},
           {"args", Ints{0, 1, -1, 3, -1, -1, 4, 2, -1, 5, -1, -1}},
           {"params", Floats{0, 0, 0, 0, 0, 0, -0.5F, 0.5F}},
           {"results", Ints{4, 6}}},
          {x, x, channel},
          {{x.dtype, x.shape, {}}, {x.dtype, x.shape, {}}},
          threads};
}

TEST(NativeElementwise, FusedProgramsInEveryLayout) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"})
        for (const Shape& shape : {Shape{2, 20, 9, 7}, Shape{1, 16, 1, 1}, Shape{3, 5, 40, 41}}) {
          const Case c = fused_case(operand(dtype, shape, tag), operand(dtype, {shape[1], 1, 1}, "abc"), 2);
          const std::vector<Values> x = {random_values(shape.elements(), 1), random_values(shape.elements(), 2),
                                         random_values(shape[1], 3)};
          std::vector<Values> wanted(2);
          for (std::size_t i = 0; i < x[0].size(); ++i) {
            const double sum = dtype == DType::float32 ? static_cast<double>(static_cast<float>(x[0][i]) + static_cast<float>(x[1][i]))
                                                       : x[0][i] + x[1][i];
            const std::size_t channel = i / static_cast<std::size_t>(shape[2] * shape[3]) % static_cast<std::size_t>(shape[1]);
            wanted[0].push_back(std::tanh(sum));
            wanted[1].push_back(std::clamp(std::tanh(sum) * x[2][channel], -0.5, 0.5));
          }
          const std::vector<Values> got = run_values(c, x);
          for (std::size_t k = 0; k < 2; ++k)
            expect_near(got[k], wanted[k], 8 * epsilon_of(dtype), concat(shape, tag, " ", isa, " output ", k));
        }
  }
}

TEST(NativeElementwise, OverwritesAnInputOnlyWhereNothingReadsItLater) {
  const Operand x = plain(DType::float32, {5000});
  // y0 = x0 + x1, y1 = y0 · x0: y0 may not go to x0, but to x1; y1 to either.
  const Case c{"Elementwise",
               {{"ops", Strings{"Add", "Mul"}}, {"args", Ints{0, 1, -1, 2, 0, -1}}, {"params", Floats{0, 0, 0, 0}}, {"results", Ints{2, 3}}},
               {x, x},
               {x, x}};
  const KernelDescription d = described(c);
  EXPECT_EQ(d.in_place, (std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 1}}));
  const Values a = random_values(5000, 1), b = random_values(5000, 2);
  const std::vector<Values> apart = run_values(c, {a, b});
  std::vector<Buffer> inputs = {Buffer(x, a), Buffer(x, b)};
  std::vector<Buffer> over = run(d, inputs, {1, 0});
  EXPECT_EQ(over[0].values(), apart[0]);
  EXPECT_EQ(over[1].values(), apart[1]);
}

TEST(NativeElementwise, ResultsThatAreInputsOrTheSameValueAreCopies) {
  const Operand x = plain(DType::float32, {70});
  const Case c{"Elementwise",
               {{"ops", Strings{"Neg"}}, {"args", Ints{0, -1, -1}}, {"params", Floats{0, 0}}, {"results", Ints{1, 0, 1}}},
               {x},
               {x, x, x}};
  const Values v = random_values(70, 1);
  const std::vector<Values> got = run_values(c, {v});
  EXPECT_EQ(got[1], v);
  EXPECT_EQ(got[0], got[2]);
  EXPECT_EQ(got[0][3], -v[3]);
}

TEST(NativeElementwise, SameBitsTwiceAndWithAnyThreads) {
  const Shape shape{3, 20, 30, 31};
  const std::vector<Values> x = {random_values(shape.elements(), 1), random_values(shape.elements(), 2), random_values(20, 3)};
  const auto result = [&](int threads) {
    return run_values(fused_case(operand(DType::float32, shape, "aBcd16b"), operand(DType::float32, {20, 1, 1}, "abc"), threads), x);
  };
  const auto first = result(1);
  EXPECT_EQ(first, result(1));
  EXPECT_EQ(first, result(2));
  EXPECT_EQ(first, result(5));
}

struct Whole {
  const char* op;
  DType in, out;
  std::vector<Values> x;
  Values y;
};
const Whole whole_rows[] = {
    {"Add", DType::int64, DType::int64, {{1, -2, 3}, {10, 20, -30}}, {11, 18, -27}},
    {"Add", DType::uint8, DType::uint8, {{250, 1}, {10, 2}}, {4, 3}},
    {"Sub", DType::int32, DType::int32, {{1, 2}, {5, -6}}, {-4, 8}},
    {"Mul", DType::int8, DType::int8, {{-3, 100}, {5, 2}}, {-15, -56}},
    {"Div", DType::int32, DType::int32, {{7, -7, 5}, {2, 2, 0}}, {3, -3, 0}},
    {"Max", DType::int64, DType::int64, {{1, -2}, {0, 5}}, {1, 5}},
    {"Pow", DType::int32, DType::int32, {{2, -3, 5, 2}, {10, 3, 0, -1}}, {1024, -27, 1, 0}},
    {"Neg", DType::int8, DType::int8, {{-128, 5}}, {-128, -5}},
    {"Abs", DType::int16, DType::int16, {{-7, 7}}, {7, 7}},
    {"Sign", DType::int64, DType::int64, {{-7, 0, 7}}, {-1, 0, 1}},
    {"Sign", DType::uint16, DType::uint16, {{0, 7}}, {0, 1}},
    {"Relu", DType::int32, DType::int32, {{-7, 7}}, {0, 7}},
    {"Mod", DType::int32, DType::int32, {{7, -7, 7, -7, 1}, {3, 3, -3, -3, 0}}, {1, 2, -2, -1, 0}},
    {"Equal", DType::float32, DType::boolean, {{1, 2}, {1, 3}}, {1, 0}},
    {"Equal", DType::boolean, DType::boolean, {{1, 0}, {1, 1}}, {1, 0}},
    {"Greater", DType::float64, DType::boolean, {{1, 4, 3}, {1, 3, 4}}, {0, 1, 0}},
    {"GreaterOrEqual", DType::int32, DType::boolean, {{1, 4, 3}, {1, 3, 4}}, {1, 1, 0}},
    {"Less", DType::uint8, DType::boolean, {{1, 4, 3}, {1, 3, 4}}, {0, 0, 1}},
    {"LessOrEqual", DType::int64, DType::boolean, {{1, 4, 3}, {1, 3, 4}}, {1, 0, 1}},
    {"And", DType::boolean, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 0, 0, 1}},
    {"Or", DType::boolean, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 1, 1}},
    {"Xor", DType::boolean, DType::boolean, {{0, 0, 1, 1}, {0, 1, 0, 1}}, {0, 1, 1, 0}},
    {"Not", DType::boolean, DType::boolean, {{0, 1}}, {1, 0}},
    {"Cast", DType::float32, DType::int32, {{1.9, -1.9, 3e10}}, {1, -1, 2147483647}},
    {"Cast", DType::float32, DType::boolean, {{0, -0.5}}, {0, 1}},
    {"Cast", DType::int64, DType::float32, {{-3, 1 << 20}}, {-3, 1 << 20}},
    {"Cast", DType::float64, DType::uint8, {{-3, 300, 7.5}}, {0, 255, 7}},
    {"Cast", DType::boolean, DType::float64, {{0, 1}}, {0, 1}},
};

TEST(NativeElementwise, IntegersBooleansAndCasts) {
  for (const Whole& row : whole_rows) {
    const Shape shape{static_cast<std::int64_t>(row.y.size())};
    Case c{row.op, {}, {}, {plain(row.out, shape)}};
    for (std::size_t k = 0; k < row.x.size(); ++k) c.inputs.push_back(plain(row.in, shape));
    EXPECT_EQ(run_values(c, row.x)[0], row.y) << row.op << " " << to_string(row.in);
  }
}

TEST(NativeElementwise, WhereBroadcastsAllThree) {
  const Case c{
      "Where", {}, {plain(DType::boolean, {3, 1}), plain(DType::float32, {2}), plain(DType::float32, {})}, {plain(DType::float32, {3, 2})}};
  EXPECT_EQ(run_values(c, {{1, 0, 1}, {5, 6}, {9}})[0], (Values{5, 6, 9, 9, 5, 6}));
}

TEST(NativeElementwise, FloatingModFollowsTheSignAsked) {
  const Operand x = plain(DType::float32, {4});
  EXPECT_EQ(run_values({"Mod", {{"fmod", std::int64_t{1}}}, {x, x}, {x}}, {{5.5, -5.5, 5.5, -5.5}, {2, 2, -2, -2}})[0],
            (Values{1.5, -1.5, 1.5, -1.5}));
}

// Bits of float16 and bfloat16 that stand for exact or rounded numbers.
TEST(NativeElementwise, HalvesRoundToTheNearestEven) {
  struct Half {
    DType dtype;
    float value;
    std::uint16_t bits;
    float back;
  };
  const Half halves[] = {{DType::float16, 1, 0x3c00, 1},
                         {DType::float16, 65504, 0x7bff, 65504},
                         {DType::float16, 65520, 0x7c00, std::numeric_limits<float>::infinity()},
                         {DType::float16, 0x1p-24F, 0x0001, 0x1p-24F},
                         {DType::float16, 0x1p-25F, 0x0000, 0},
                         {DType::float16, 0x1.8p-24F, 0x0002, 0x1p-23F},
                         {DType::float16, 2049, 0x6800, 2048},
                         {DType::float16, -2.5F, 0xc100, -2.5F},
                         {DType::float16, 0x1.ff8p-15F, 0x03ff, 0x1.ff8p-15F},
                         {DType::float16, 0x1.ffcp-15F, 0x0400, 0x1p-14F},
                         {DType::bfloat16, 1, 0x3f80, 1},
                         {DType::bfloat16, 257, 0x4380, 256},
                         {DType::bfloat16, 259, 0x4382, 260}};
  for (const Half& h : halves) {
    const Operand wide = plain(DType::float32, {1}), narrow = plain(h.dtype, {1});
    std::uint16_t bits = 0;
    float value = h.value, back = 0;
    const auto cast = [](const Operand& in, const Operand& out, void* x, void* y) {
      const Case c{"Cast", {}, {in}, {out}};
      std::byte* const from[] = {static_cast<std::byte*>(x)};
      std::byte* const to[] = {static_cast<std::byte*>(y)};
      const auto kernel = described(c).make();
      kernel->bind(from, to, nullptr);
      kernel->run({});
    };
    cast(wide, narrow, &value, &bits);
    cast(narrow, wide, &bits, &back);
    EXPECT_EQ(bits, h.bits) << h.value << " as " << to_string(h.dtype);
    EXPECT_EQ(back, h.back) << h.value << " as " << to_string(h.dtype);
  }
}

}  // namespace
}  // namespace tandem::native_tests
