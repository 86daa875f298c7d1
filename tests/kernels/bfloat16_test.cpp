// Every kernel that runs in bfloat16 against the native one in double on the same, rounded, inputs. What a kernel may be
// off by: its float32 sums' error, and half a unit in the last place of bfloat16's 8 digits for every time it rounds.
#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn/primitive.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {
namespace {

constexpr double rounding = 0x1p-8;

struct Case {
  std::string name;
  std::string_view op;
  Attributes attributes;
  std::vector<Shape> inputs, outputs;
  std::int64_t reduction;                      // products summed into one result
  Describe kernel, oracle;
  std::vector<std::size_t> wide = {};          // inputs that stay float32
  int roundings = 1;
  std::vector<LayoutPreference> preferences = {LayoutPreference::blocked, LayoutPreference::channels_last};
};

class BFloat16Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!onednn::has_bf16()) GTEST_SKIP() << "this CPU has neither AVX512_BF16 nor AMX-BF16, or oneDNN may not use it";
  }
};

Values rounded(Values values) {
  for (double& v : values) v = number_as<double>(to_bfloat16(static_cast<float>(v)));
  return values;
}

bool is_wide(const Case& c, std::size_t i) { return std::find(c.wide.begin(), c.wide.end(), i) != c.wide.end(); }

KernelRequest request_of(const Case& c, DType dtype, LayoutPreference preference) {
  KernelRequest request{c.op, &c.attributes, {}, {}, {.threads = 2, .preference = preference}, {}};
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    request.inputs.push_back(operand(is_wide(c, i) && dtype == DType::bfloat16 ? DType::float32 : dtype, c.inputs[i]));
  for (const Shape& s : c.outputs) request.outputs.push_back(operand(dtype, s));
  return request;
}

std::vector<Buffer> values_for(const Case& c, const std::vector<Operand>& operands) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Values v = random_values(c.inputs[i], static_cast<unsigned>(i + 1));
    buffers.emplace_back(operand(operands[i].dtype, c.inputs[i], Layout::row_major(c.inputs[i].rank())), is_wide(c, i) ? v : rounded(v));
  }
  return buffers;
}

void check(const Case& c) {
  const KernelRequest exact = request_of(c, DType::float64, LayoutPreference::blocked);
  const auto oracle = c.oracle(exact);
  ASSERT_EQ(oracle.size(), 1u) << c.name;
  std::vector<Buffer> wanted = run(oracle[0], values_for(c, exact.inputs));
  for (const LayoutPreference preference : c.preferences) {
    const KernelRequest request = request_of(c, DType::bfloat16, preference);
    const auto descriptions = c.kernel(request);
    EXPECT_FALSE(descriptions.empty()) << c.name << ": " << c.op;
    for (const KernelDescription& d : descriptions) {
      std::vector<Buffer> got = run(d, values_for(c, request.inputs));
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(error_of(got[i].values(), wanted[i].values()), c.roundings * rounding + tolerance(c.reduction))
            << c.name << ": output " << i << " of " << describe_operands(d);
      expect_found_again(c.kernel, request, d);
    }
  }
}

struct Convolution {
  std::string name;
  Shape x, w, y;
  Ints strides, pads;
  std::int64_t group = 1;
  bool bias = false;
};
const Convolution convolutions[] = {
    {"3x3", {2, 32, 9, 9}, {48, 32, 3, 3}, {2, 48, 9, 9}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {"1x1 strided", {2, 64, 8, 8}, {32, 64, 1, 1}, {2, 32, 4, 4}, {2, 2}, {0, 0, 0, 0}},
    {"stem", {1, 3, 18, 18}, {64, 3, 7, 7}, {1, 64, 9, 9}, {2, 2}, {3, 3, 3, 3}},
    {"one channel", {3, 1, 12, 12}, {20, 1, 5, 5}, {3, 20, 12, 12}, {1, 1}, {2, 2, 2, 2}, 1, true},
    {"odd channels", {2, 13, 9, 11}, {19, 13, 3, 3}, {2, 19, 9, 11}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {"depthwise", {2, 32, 14, 14}, {32, 1, 3, 3}, {2, 32, 14, 14}, {1, 1}, {1, 1, 1, 1}, 32},
};

Attributes attributes_of(const Convolution& c) {
  return {{"kernel_shape", Ints(c.w.begin() + 2, c.w.end())},
          {"strides", c.strides},
          {"pads", c.pads},
          {"dilations", Ints{1, 1}},
          {"group", c.group}};
}

TEST_F(BFloat16Kernels, Convolution) {
  for (const Convolution& c : convolutions) {
    Attributes attributes = attributes_of(c);
    Case forward{
        c.name, "Conv", attributes, {c.x, c.w}, {c.y}, c.w.elements() / c.w[0], onednn::describe_convolution, native::describe_convolution};
    if (c.bias) {
      forward.inputs.push_back({c.w[0]});
      forward.attributes.set("activation", std::string("Relu"));
    }
    check(forward);
    attributes.set("input_shape", c.x.dims);
    check({c.name,
           "ConvolutionBackwardData",
           attributes,
           {c.y, c.w},
           {c.x},
           c.w.elements() / c.w[1],
           onednn::describe_convolution_backward_data,
           native::describe_convolution_backward_data});
    attributes.erase("input_shape");
    attributes.set("weight_shape", c.w.dims);
    Case weights{c.name,
                 "ConvolutionBackwardWeights",
                 attributes,
                 {c.x, c.y},
                 {c.w},
                 c.y.elements() / c.y[1],
                 onednn::describe_convolution_backward_weights,
                 native::describe_convolution_backward_weights};
    if (c.bias) weights.outputs.push_back({c.w[0]});
    check(weights);
  }
}

TEST_F(BFloat16Kernels, InnerProduct) {
  const std::pair<Shape, Shape> rows[] = {{{32, 784}, {64, 784}}, {{7, 33}, {5, 33}}, {{4, 50, 5, 5}, {33, 50, 5, 5}}};
  for (const auto& [x, w] : rows) {
    const Shape y{x[0], w[0]};
    check({"forward",
           "InnerProduct",
           {{"activation", std::string("Relu")}},
           {x, w, {w[0]}},
           {y},
           w.elements() / w[0],
           onednn::describe_inner_product,
           native::describe_inner_product});
    check({"data",
           "InnerProductBackwardData",
           {{"input_shape", x.dims}},
           {y, w},
           {x},
           w[0],
           onednn::describe_inner_product_backward_data,
           native::describe_inner_product_backward_data});
    check({"weights",
           "InnerProductBackwardWeights",
           {},
           {x, y},
           {w, {w[0]}},
           x[0],
           onednn::describe_inner_product_backward_weights,
           native::describe_inner_product_backward_weights});
  }
}

TEST_F(BFloat16Kernels, MatMul) {
  check({"matrices", "MatMul", {}, {{33, 65}, {65, 17}}, {{33, 17}}, 65, onednn::describe_matmul, native::describe_matmul});
  check({"batches, right transposed",
         "MatMul",
         {{"transB", std::int64_t{1}}},
         {{3, 2, 8, 16}, {3, 2, 9, 16}},
         {{3, 2, 8, 9}},
         16,
         onednn::describe_matmul,
         native::describe_matmul});
}

TEST_F(BFloat16Kernels, Pooling) {
  const Attributes window{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
  const Shape x{2, 32, 15, 15}, y{2, 32, 8, 8};
  check({"maximum", "MaxPool", window, {x}, {y}, 1, onednn::describe_max_pool, native::describe_max_pool});
  check({"average", "AveragePool", window, {x}, {y}, 9, onednn::describe_average_pool, native::describe_average_pool});
  Attributes backward = window;
  backward.set("input_shape", x.dims);
  // Up to four windows add into one element.
  check({"average backward",
         "AveragePoolBackward",
         backward,
         {y},
         {x},
         4,
         onednn::describe_average_pool_backward,
         native::describe_average_pool_backward,
         {},
         4});
}

// Forward, then backward on what it gave: the mask is the kernel's own.
TEST_F(BFloat16Kernels, MaxPoolBackward) {
  const Attributes window{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
  const Shape x{2, 32, 15, 15}, y{2, 32, 8, 8};
  const auto both = [&](DType dtype, LayoutPreference preference, Describe forward, Describe backward) -> Values {
    const KernelOptions options{.threads = 2, .preference = preference};
    const auto f = forward({"MaxPoolTraining", &window, {operand(dtype, x)}, {operand(dtype, y), operand(DType::uint8, {0})}, options, {}});
    if (f.size() != 1) return {};
    std::vector<Buffer> outputs = run(f[0], {Buffer(f[0].inputs[0], rounded(random_values(x, 1)))});
    const auto b = backward({"MaxPoolBackward", &window, {operand(dtype, y), outputs[1].operand()}, {operand(dtype, x)}, options, {}});
    if (b.size() != 1) return {};
    return run(b[0], {Buffer(b[0].inputs[0], rounded(random_values(y, 2))), outputs[1]})[0].values();
  };
  const Values wanted = both(DType::float64, LayoutPreference::blocked, native::describe_max_pool, native::describe_max_pool_backward);
  for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
    const Values got = both(DType::bfloat16, preference, onednn::describe_max_pool, onednn::describe_max_pool_backward);
    ASSERT_EQ(got.size(), wanted.size()) << "no kernel";
    EXPECT_LE(error_of(got, wanted), 4 * rounding);
  }
}

TEST_F(BFloat16Kernels, BatchNormalization) {
  const Shape x{4, 32, 9, 9}, c{32};
  for (const bool relu : {false, true}) {
    Attributes attributes{{"epsilon", 1.5f}};  // keeps random variances positive
    if (relu) attributes.set("activation", std::string("Relu"));
    check({"inference",
           "BatchNormalization",
           attributes,
           {x, c, c, c, c},
           {x},
           4,
           onednn::describe_batch_normalization,
           native::describe_batch_normalization,
           {1, 2, 3, 4}});
    attributes.set("epsilon", 1e-3f);
    const auto both = [&](DType dtype, LayoutPreference preference, Describe forward, Describe backward) {
      const KernelOptions options{.threads = 2, .preference = preference};
      const Operand channel = operand(dtype == DType::bfloat16 ? DType::float32 : dtype, c, Layout("a"));
      std::vector<Values> results;
      const auto f = forward({"BatchNormalizationTraining",
                              &attributes,
                              {operand(dtype, x), channel, channel},
                              {operand(dtype, x), channel, channel, operand(DType::uint8, {0})},
                              options,
                              {}});
      if (f.size() != 1) return results;
      const Buffer data(f[0].inputs[0], rounded(random_values(x, 1))), scale(channel, random_values(c, 2)),
          bias(channel, random_values(c, 3));
      std::vector<Buffer> y = run(f[0], {data, scale, bias});
      for (std::size_t i = 0; i < 3; ++i) results.push_back(y[i].values());
      const auto b = backward({"BatchNormalizationBackward",
                               &attributes,
                               {f[0].inputs[0], operand(dtype, x), channel, channel, channel, channel, y[3].operand()},
                               {operand(dtype, x), channel, channel},
                               options,
                               {}});
      if (b.size() != 1) return results;
      for (Buffer& d : run(b[0], {data, Buffer(b[0].inputs[1], rounded(random_values(x, 4))), scale, bias, y[1], y[2], y[3]}))
        results.push_back(d.values());
      return results;
    };
    const auto wanted = both(DType::float64, LayoutPreference::blocked, native::describe_batch_normalization_training,
                             native::describe_batch_normalization_backward);
    for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
      const auto got =
          both(DType::bfloat16, preference, onednn::describe_batch_normalization_training, onednn::describe_batch_normalization_backward);
      ASSERT_EQ(got.size(), wanted.size()) << "no kernel";
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(error_of(got[i], wanted[i]), rounding + tolerance(x.elements() / x[1])) << (relu ? "with Relu: " : "") << "result " << i;
    }
  }
}

TEST_F(BFloat16Kernels, Lrn) {
  const Shape x{2, 32, 9, 9};
  check({"forward",
         "LRN",
         {{"size", std::int64_t{5}}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 1.25f}},
         {x},
         {x},
         5,
         onednn::describe_lrn,
         native::describe_lrn});
}

// The whole program runs in float32 and rounds once: chained operators lose no more than one.
TEST_F(BFloat16Kernels, Elementwise) {
  const Shape x{3, 20, 5, 7};
  const Attributes program{
      {"ops", Strings{"Mul", "Tanh", "Add"}}, {"args", Ints{0, 1, -1, 3, -1, -1, 4, 2, -1}}, {"params", Floats(6)}, {"results", Ints{5}}};
  check({"program", "Elementwise", program, {x, x, {20, 1, 1}}, {x}, 4, native::describe_elementwise, native::describe_elementwise});
  check({"one operator", "Relu", {}, {x}, {x}, 1, native::describe_elementwise, native::describe_elementwise});
  for (const std::string tag : {"aBcd16b", "acdb"}) {
    const Operand full = operand(DType::bfloat16, x, Layout(tag)), wide = operand(DType::float32, x, Layout(tag));
    const Buffer values(full, rounded(random_values(x, 5)));
    const Attributes to_wide{{"to", static_cast<std::int64_t>(DType::float32)}},
        to_narrow{{"to", static_cast<std::int64_t>(DType::bfloat16)}};
    std::vector<Buffer> widened = run(native::describe_elementwise({"Cast", &to_wide, {full}, {wide}, {}, {}})[0], {values});
    EXPECT_EQ(widened[0].values(), rounded(random_values(x, 5)));
    std::vector<Buffer> back =
        run(native::describe_elementwise({"Cast", &to_narrow, {wide}, {full}, {}, {}})[0], {Buffer(wide, random_values(x, 5))});
    EXPECT_EQ(back[0].values(), rounded(random_values(x, 5)));
  }
}

// The same elements are dropped as in float32, the others scaled and rounded once.
TEST_F(BFloat16Kernels, Dropout) {
  const Shape x{3, 20, 5, 7};
  const Attributes attributes{{"ratio", 0.25f}, {"layer", std::int64_t{3}}};
  const Buffer random(operand(DType::int64, {4}, Layout("a")), {11, 5, 0, 0});
  for (const std::string tag : {"abcd", "aBcd16b"}) {
    const auto of = [&](DType dtype) {
      const Operand o = operand(dtype, x, Layout(tag));
      return run(native::describe_dropout_training({"DropoutTraining", &attributes, {o, random.operand()}, {o}, {.threads = 2}, {}})[0],
                 {Buffer(o, rounded(random_values(x, 1))), random})[0]
          .values();
    };
    const Values y = of(DType::float32);
    EXPECT_EQ(of(DType::bfloat16), rounded(y));
    EXPECT_GT(std::count(y.begin(), y.end(), 0.0), 300);
  }
}

TEST_F(BFloat16Kernels, CopiesAreExact) {
  const Shape a{2, 16, 3, 3}, b{2, 32, 3, 3}, y{2, 48, 3, 3};
  const Attributes axis{{"axis", std::int64_t{1}}};
  const auto of = [](const Shape& s, unsigned seed) {
    return Buffer(operand(DType::bfloat16, s, Layout("aBcd16b")), rounded(random_values(s, seed)));
  };
  for (const Describe describe : {onednn::describe_concat, native::describe_concat}) {
    const auto d = describe({"Concat", &axis, {of(a, 1).operand(), of(b, 2).operand()}, {operand(DType::bfloat16, y)}, {.threads = 2}, {}});
    ASSERT_FALSE(d.empty());
    const Values got = run(d[0], {of(a, 1), of(b, 2)})[0].values();
    const Values first = of(a, 1).values(), second = of(b, 2).values();
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t i = 0; i < 48 * 9; ++i)
        ASSERT_EQ(got[static_cast<std::size_t>(n * 48 * 9 + i)],
                  i < 16 * 9 ? first[static_cast<std::size_t>(n * 16 * 9 + i)] : second[static_cast<std::size_t>(n * 32 * 9 + i - 16 * 9)]);
  }
  const Attributes none;
  const Attributes to_wide{{"to", static_cast<std::int64_t>(DType::float32)}};
  const auto cast =
      onednn::describe_cast({"Cast", &to_wide, {of(b, 3).operand()}, {operand(DType::float32, b, Layout("abcd"))}, {.threads = 2}, {}});
  ASSERT_FALSE(cast.empty());
  EXPECT_EQ(run(cast[0], {of(b, 3)})[0].values(), of(b, 3).values());
  const auto d =
      onednn::describe_reorder({"Reorder", &none, {of(b, 3).operand()}, {operand(DType::bfloat16, b, Layout("abcd"))}, {.threads = 2}, {}});
  ASSERT_FALSE(d.empty());
  EXPECT_EQ(run(d[0], {of(b, 3)})[0].values(), of(b, 3).values());
}

}  // namespace
}  // namespace tandem::dense_tests
