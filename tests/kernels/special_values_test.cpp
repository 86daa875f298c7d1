// NaN and infinities: through every elementwise formula on every instruction set, and through every way to compute a layer that ends with
// a Relu or takes a maximum. tests/training/special_values.py compares all operators with ONNX Runtime and PyTorch.
#include "kernels/cpu/machine.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

struct Row {
  const char* op;
  Values x, second;  // second: of operators of two operands
  Values wanted;
  Attributes attributes = {};
};
const Row rows[] = {
    {"Relu", {nan, inf, -inf}, {}, {nan, inf, 0}},
    {"LeakyRelu", {nan, inf, -inf}, {}, {nan, inf, -inf}, {{"alpha", 0.25F}}},
    {"Elu", {nan, inf, -inf}, {}, {nan, inf, -1}, {{"alpha", 1.0F}}},
    {"Sigmoid", {nan, inf, -inf}, {}, {nan, 1, 0}},
    {"HardSigmoid", {nan, inf, -inf}, {}, {nan, 1, 0}, {{"alpha", 0.2F}, {"beta", 0.5F}}},
    {"Tanh", {nan, inf, -inf}, {}, {nan, 1, -1}},
    {"Erf", {nan, inf, -inf}, {}, {nan, 1, -1}},
    {"Clip", {nan, inf, -inf}, {}, {nan, 6, 0}, {{"min", 0.0F}, {"max", 6.0F}}},
    {"Softplus", {nan, inf, -inf}, {}, {nan, inf, 0}},
    {"Exp", {nan, inf, -inf}, {}, {nan, inf, 0}},
    {"Log", {nan, inf, -inf, 0, -1}, {}, {nan, inf, nan, -inf, nan}},
    {"Sqrt", {nan, inf, -inf, 0, -1}, {}, {nan, inf, nan, 0, nan}},
    {"Abs", {nan, inf, -inf}, {}, {nan, inf, inf}},
    {"Neg", {nan, inf, -inf}, {}, {nan, -inf, inf}},
    {"Reciprocal", {nan, inf, -inf, 0}, {}, {nan, 0, 0, inf}},
    {"Sign", {nan, inf, -inf}, {}, {nan, 1, -1}},
    {"Floor", {nan, inf, -inf}, {}, {nan, inf, -inf}},
    {"Ceil", {nan, inf, -inf}, {}, {nan, inf, -inf}},
    {"Round", {nan, inf, -inf}, {}, {nan, inf, -inf}},
    {"GeluErf", {nan, inf, -inf}, {}, {nan, inf, nan}},
    {"GeluTanh", {nan, inf, -inf}, {}, {nan, inf, nan}},
    {"Swish", {nan, inf, -inf}, {}, {nan, inf, nan}},
    {"HardSwish", {nan, inf, -inf}, {}, {nan, inf, nan}},
    {"Max", {nan, 1, nan, inf, -inf}, {1, nan, nan, 1, 1}, {nan, nan, nan, inf, 1}},
    {"Min", {nan, 1, nan, inf, -inf}, {1, nan, nan, 1, 1}, {nan, nan, nan, 1, -inf}},
    {"Add", {inf, inf, nan}, {-inf, 1, 1}, {nan, inf, nan}},
    {"Mul", {inf, inf, nan}, {0, -1, 0}, {nan, -inf, nan}},
    {"Div", {0, inf, 1, -1}, {0, inf, 0, inf}, {nan, nan, inf, 0}},
    {"ReluBackward", {1, 1, 1, nan}, {nan, inf, 0, 1}, {1, 1, 0, nan}},
};

void expect_same(const Values& got, const Values& wanted, const std::string& what) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i] || std::abs(got[i] - wanted[i]) < 1e-30)
        << what << ": element " << i << " is " << got[i] << ", expected " << wanted[i];
}

// In vectors and behind them: each element stands at several places.
TEST(SpecialValues, ElementwiseOnEveryInstructionSet) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      for (const Row& row : rows) {
        Values x, second, wanted;
        for (int k = 0; k < 37; ++k)
          for (std::size_t i = 0; i < row.x.size(); ++i) {
            x.push_back(row.x[i]);
            if (!row.second.empty()) second.push_back(row.second[i]);
            wanted.push_back(row.wanted[i]);
          }
        const Operand operand = plain(dtype, {static_cast<std::int64_t>(x.size())});
        Case c{row.op, row.attributes, {operand}, {operand}};
        std::vector<Values> inputs{x};
        if (!second.empty()) {
          c.inputs.push_back(operand);
          inputs.push_back(second);
        }
        flush_subnormals();
        expect_same(run_values(c, inputs)[0], wanted, concat(row.op, ' ', dtype, ' ', isa));
      }
  }
}

struct Layer {
  const char* name;
  const char* op;
  Attributes attributes;
  Shape x, w, y;  // w: without elements where there is no filter
};
const Attributes same_size{
    {"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1}}, {"activation", std::string("Relu")}};
const Layer layers[] = {
    {"convolution", "Conv", same_size, {2, 16, 8, 8}, {32, 16, 3, 3}, {2, 32, 8, 8}},
    {"of few channels", "Conv", same_size, {2, 3, 8, 8}, {6, 3, 3, 3}, {2, 6, 8, 8}},
    {"pointwise", "Conv", {{"kernel_shape", Ints{1, 1}}, {"activation", std::string("Relu")}}, {2, 16, 4, 4}, {32, 16, 1, 1}, {2, 32, 4, 4}},
    {"transposed", "ConvTranspose", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"activation", std::string("Relu")}}, {2, 8, 4, 4}, {8, 8, 2, 2}, {2, 8, 8, 8}},
    {"inner product", "InnerProduct", {{"activation", std::string("Relu")}}, {4, 16}, {32, 16}, {4, 32}},
    {"pooling", "MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, {2, 16, 8, 8}, {}, {2, 16, 4, 4}},
    {"pooling of few channels", "MaxPool", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}, {2, 3, 8, 8}, {}, {2, 3, 4, 4}},
};

// One NaN in the first sample, all else ones: each way to compute it gives NaN in that sample, and none in the other. Without: none.
TEST(SpecialValues, LayersKeepNaN) {
  for (const Layer& layer : layers)
    for (const DType dtype : {DType::float32, DType::bfloat16})
      for (const char* tag : {"", "channels last", "blocks"}) {
        const auto laid = [&](const Shape& s) {
          const std::string t = tag;
          return Operand{dtype, s,
                         s.rank() != 4   ? Layout::row_major(s.rank())
                         : t.empty()     ? Layout::row_major(4)
                         : t == "blocks" ? Layout("aBcd16b")
                                         : Layout::channels_last(4)};
        };
        Case c{layer.op, layer.attributes, {laid(layer.x)}, {laid(layer.y)}};
        if (layer.w.elements() > 0 && layer.w.rank() > 0) c.inputs.push_back({dtype, layer.w, Layout()});
        for (const KernelDescription& d : cpu_backend().describe(c.request())) {
          for (const bool with : {true, false}) {
            Values x(static_cast<std::size_t>(layer.x.elements()), 1.0);
            if (with) x[static_cast<std::size_t>(layer.x.elements() / layer.x[0] / 2)] = nan;
            std::vector<Buffer> in{Buffer(d.inputs[0], x)};
            if (d.inputs.size() > 1) in.emplace_back(d.inputs[1], Values(static_cast<std::size_t>(layer.w.elements()), -0.5));
            const Values y = run(d, in)[0].values();
            const std::size_t each = y.size() / static_cast<std::size_t>(layer.y[0]);
            const auto any = [&](std::size_t from, std::size_t to) {
              return std::any_of(y.begin() + static_cast<std::ptrdiff_t>(from), y.begin() + static_cast<std::ptrdiff_t>(to),
                                 [](double v) { return std::isnan(v); });
            };
            const std::string what = concat(layer.name, ' ', dtype, ' ', tag, ": ", d.kernel);
            EXPECT_EQ(any(0, each), with) << what;
            EXPECT_FALSE(any(each, y.size())) << what;
            const double wanted = layer.w.rank() > 0 ? 0 : 1;
            EXPECT_EQ(y.back(), wanted) << what;
          }
        }
      }
}

}  // namespace
}  // namespace tandem::native_tests
