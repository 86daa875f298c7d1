// Convolutions by oneDNN, and our own fast ones, in float against the native ones in double, forward and backward, in every
// layout offered.
#include "kernels/cpu/families.h"
#include "kernels/cpu/isa.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {
namespace {

struct Row {
  std::string name;
  Shape x, w;
  Ints strides, pads, dilations;
  std::int64_t group = 1;
  bool bias = true, relu = false;
  Ints output_padding = {};  // of a transposed convolution
};

const Row rows[] = {
    {"1-D", {2, 5, 17}, {7, 5, 3}, {1}, {1, 1}, {1}},
    {"1-D strided, uneven pads", {2, 16, 20}, {32, 16, 4}, {2}, {0, 3}, {1}},
    {"2-D 3x3", {2, 32, 9, 9}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
    {"2-D 3x3 with Relu", {2, 32, 9, 9}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, true, true},
    {"2-D 3x3 of 64 channels", {1, 64, 12, 12}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, false},
    {"2-D 1x1", {2, 64, 5, 5}, {96, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, false},
    {"2-D 1x1 of odd channels, with Relu", {3, 37, 5, 7}, {19, 37, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, true, true},
    {"1-D of one tap", {2, 24, 33}, {40, 24, 1}, {1}, {0, 0}, {1}},
    {"2-D 1x1 strided", {2, 64, 8, 8}, {32, 64, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1, false},
    {"stem: 3 channels, 7x7 strided", {1, 3, 18, 18}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 1, false},
    {"one channel", {3, 1, 12, 12}, {20, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 1, true, true},
    {"odd channels", {2, 13, 9, 11}, {19, 13, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
    {"20 to 50 channels", {2, 20, 7, 7}, {50, 20, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}},
    {"20 to 50 channels, nine samples, uneven", {9, 20, 6, 9}, {50, 20, 5, 2}, {1, 1}, {0, 1, 3, 0}, {1, 1}, 1, true, true},
    {"3 to 24 channels, strided and dilated", {3, 3, 13, 12}, {24, 3, 3, 3}, {3, 2}, {4, 1, 0, 3}, {1, 2}},
    {"24 to 40 channels, dilated", {5, 24, 7, 8}, {40, 24, 3, 2}, {1, 1}, {2, 2, 3, 1}, {2, 3}, 1, false},
    {"windows that see padding only", {2, 8, 2, 2}, {8, 8, 2, 2}, {2, 1}, {3, 0, 1, 2}, {1, 1}},
    {"uneven pads and strides", {2, 16, 11, 9}, {32, 16, 3, 2}, {2, 1}, {0, 1, 2, 0}, {1, 1}},
    {"dilated", {2, 16, 9, 9}, {32, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
    {"dilated, strided, uneven", {1, 16, 16, 13}, {16, 16, 3, 3}, {2, 1}, {1, 0, 3, 2}, {2, 3}},
    {"depthwise of 32", {2, 32, 14, 14}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 32},
    {"depthwise of 19, strided", {2, 19, 14, 14}, {19, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 19, false},
    {"depthwise with multiplier 2", {2, 16, 8, 8}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16},
    {"4 groups of 16 to 32", {1, 64, 5, 5}, {128, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 4},
    {"3 groups of odd sizes", {2, 9, 8, 8}, {15, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
    {"32 groups of 4", {1, 128, 5, 5}, {128, 4, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 32, false},
    {"3-D", {1, 8, 5, 6, 7}, {16, 8, 3, 3, 3}, {1, 2, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
    {"3-D of odd channels, uneven", {2, 3, 4, 6, 5}, {5, 3, 2, 3, 1}, {1, 1, 2}, {1, 0, 0, 0, 2, 0}, {1, 1, 1}},
};

const Row transposed_rows[] = {
    {"1-D", {2, 6, 9}, {6, 4, 3}, {2}, {1, 1}, {1}},
    {"2-D", {2, 32, 7, 7}, {32, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {"2-D with output padding and Relu", {2, 16, 5, 5}, {16, 32, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1, true, true, {1, 1}},
    {"odd channels, uneven", {1, 7, 6, 5}, {7, 9, 3, 2}, {1, 2}, {0, 1, 1, 0}, {1, 1}, 1, false},
    {"2 groups", {1, 32, 5, 5}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
    {"dilated", {1, 8, 6, 6}, {8, 8, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
    {"3-D", {1, 4, 3, 4, 5}, {4, 6, 2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}},
};

Attributes attributes_of(const Row& row) {
  Attributes a{{"kernel_shape", Ints(row.w.begin() + 2, row.w.end())}, {"strides", row.strides}, {"pads", row.pads},
               {"dilations", row.dilations}, {"group", row.group}};
  if (row.relu) a.set("activation", std::string("Relu"));
  return a;
}

Shape output_of(const Row& row, bool transposed) {
  Shape y{row.x[0], transposed ? row.w[1] * row.group : row.w[0]};
  const std::size_t rank = row.strides.size();
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const std::int64_t reach = (row.w[axis] - 1) * row.dilations[i] + 1, pads = row.pads[i] + row.pads[rank + i];
    const std::int64_t extra = row.output_padding.empty() ? 0 : row.output_padding[i];
    y.dims.push_back(transposed ? (row.x[axis] - 1) * row.strides[i] + reach - pads + extra
                                : (row.x[axis] + pads - reach) / row.strides[i] + 1);
  }
  return y;
}

// Winograd F(4,3) multiplies by transforms whose largest row sums are 10 (data) and 19 (result): rounding grows by their
// product in one dimension, and like a random walk again (its square root twice over) in two.
constexpr double winograd_growth = 190;

// One direction of a convolution: its operator, operands and both families.
struct Direction {
  std::string_view op;
  Describe onednn, native;
  std::vector<Shape> inputs, outputs;
  std::int64_t reduction;
  std::vector<Describe> fast = {};  // our own, where they want to
};

KernelRequest request_of(const Direction& d, const Attributes& attributes, DType dtype, LayoutPreference preference) {
  KernelRequest request{d.op, &attributes, {}, {}, {.threads = 2, .preference = preference}, {}};
  for (const Shape& s : d.inputs) request.inputs.push_back(operand(dtype, s));
  for (const Shape& s : d.outputs) request.outputs.push_back(operand(dtype, s));
  return request;
}

void check(const std::string& name, const Direction& d, const Attributes& attributes) {
  const auto inputs_in = [&](DType dtype) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < d.inputs.size(); ++i)
      buffers.emplace_back(operand(dtype, d.inputs[i], Layout::row_major(d.inputs[i].rank())),
                           random_values(d.inputs[i], static_cast<unsigned>(i + 1)));
    return buffers;
  };
  const KernelRequest oracle = request_of(d, attributes, DType::float64, LayoutPreference::blocked);
  const auto native = d.native(oracle);
  ASSERT_EQ(native.size(), 1u) << name;
  std::vector<Buffer> wanted = run(native[0], inputs_in(DType::float64));
  for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
    const KernelRequest request = request_of(d, attributes, DType::float32, preference);
    EXPECT_FALSE(d.onednn(request).empty()) << name << ": " << d.op;
    std::vector<Describe> all = d.fast;
    all.push_back(d.onednn);
    for (const Describe describe : all) {
      for (const KernelDescription& description : describe(request)) {
        const bool winograd = description.kernel.ends_with(".winograd");
        std::vector<Buffer> got = run(description, inputs_in(DType::float32));
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(error_of(got[i].values(), wanted[i].values()), tolerance(d.reduction) * (winograd ? winograd_growth : 1))
              << name << ": output " << i << " of " << describe_operands(description);
        expect_found_again(describe, request, description);
      }
    }
  }
  std::vector<Buffer> single =
      run(d.native(request_of(d, attributes, DType::float32, LayoutPreference::blocked))[0], inputs_in(DType::float32));
  for (std::size_t i = 0; i < single.size(); ++i)
    EXPECT_LE(error_of(single[i].values(), wanted[i].values()), tolerance(d.reduction)) << name << ": native in float";
}

TEST(Convolution, ForwardAgreesWithDouble) {
  for (const Row& row : rows) {
    const Shape y = output_of(row, false);
    Direction d{"Conv", onednn::describe_convolution, native::describe_convolution, {row.x, row.w}, {y}, row.w.elements() / row.w[0],
                {native::describe_channels_last_convolution, native::describe_pointwise_convolution}};
    if (row.bias) d.inputs.push_back({row.w[0]});
    check(row.name, d, attributes_of(row));
  }
}

TEST(Convolution, BackwardDataAgreesWithDouble) {
  for (const Row& row : rows) {
    Attributes attributes = attributes_of(row);
    attributes.erase("activation");
    attributes.set("input_shape", row.x.dims);
    check(row.name, {"ConvolutionBackwardData", onednn::describe_convolution_backward_data, native::describe_convolution_backward_data,
                     {output_of(row, false), row.w}, {row.x}, row.w.elements() / row.w[1], {native::describe_channels_last_convolution_backward_data, native::describe_pointwise_convolution_backward_data}}, attributes);
  }
}

TEST(Convolution, BackwardWeightsAgreesWithDouble) {
  for (const Row& row : rows) {
    const Shape y = output_of(row, false);
    Attributes attributes = attributes_of(row);
    attributes.erase("activation");
    attributes.set("weight_shape", row.w.dims);
    Direction d{"ConvolutionBackwardWeights", onednn::describe_convolution_backward_weights, native::describe_convolution_backward_weights,
                {row.x, y}, {row.w}, y.elements() / y[1], {native::describe_pointwise_convolution_backward_weights}};
    if (row.bias) d.outputs.push_back({row.w[0]});
    check(row.name, d, attributes);
  }
}

// Of numbers that are exact in 16 bits; what is given in 16 bits is rounded once. Enough samples that they are taken in several goes.
TEST(Convolution, WeightsByPairsOfSamplesAgreeWithDouble) {
  if (!dot_products()) GTEST_SKIP() << "the processor has no AVX512_BF16";
  std::vector<Row> all(std::begin(rows), std::end(rows));
  all.push_back({"many samples", {37, 40, 24, 24}, {72, 40, 3, 2}, {1, 2}, {1, 0, 1, 1}, {1, 1}});
  std::size_t tried = 0;
  for (const Row& row : all) {
    const Shape y = output_of(row, false);
    Attributes attributes = attributes_of(row);
    attributes.set("weight_shape", row.w.dims);
    Direction d{"ConvolutionBackwardWeights", nullptr, native::describe_convolution_backward_weights, {row.x, y}, {row.w},
                y.elements() / y[1]};
    if (row.bias) d.outputs.push_back({row.w[0]});
    const auto exact = [&](DType dtype) {
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < d.inputs.size(); ++i) {
        const Layout plain = Layout::row_major(d.inputs[i].rank());
        Buffer narrow(operand(DType::bfloat16, d.inputs[i], plain), random_values(d.inputs[i], static_cast<unsigned>(i + 1)));
        buffers.emplace_back(operand(dtype, d.inputs[i], plain), narrow.values());
      }
      return buffers;
    };
    std::vector<Buffer> wanted =
        run(d.native(request_of(d, attributes, DType::float64, LayoutPreference::blocked))[0], exact(DType::float64));
    for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last})
      for (const int threads : {1, 2, 3, 4}) {
        KernelRequest request = request_of(d, attributes, DType::bfloat16, preference);
        request.options.threads = threads;
        const auto descriptions = native::describe_paired_convolution_backward_weights(request);
        EXPECT_EQ(descriptions.size(), row.group == 1 && row.x.rank() < 5 ? 2u : 0u) << row.name;
        for (const KernelDescription& description : descriptions) {
          std::vector<Buffer> got = run(description, exact(DType::bfloat16));
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_LE(error_of(got[i].values(), wanted[i].values()), tolerance(d.reduction) + 0x1p-8)
                << row.name << ": output " << i << " of " << describe_operands(description) << " by " << threads;
          expect_found_again(native::describe_paired_convolution_backward_weights, request, description);
          ++tried;
        }
        }
  }
  EXPECT_GT(tried, 250u);
}

TEST(ConvolutionTranspose, AgreesWithDouble) {
  for (const Row& row : transposed_rows) {
    Direction d{"ConvTranspose", onednn::describe_convolution_transpose, native::describe_convolution_transpose, {row.x, row.w},
                {output_of(row, true)}, row.w.elements() / row.w[1]};
    if (row.bias) d.inputs.push_back({row.w[1] * row.group});
    check(row.name, d, attributes_of(row));
  }
}

// Worked by hand: two groups, uneven pads.
TEST(Convolution, NativeGivesWhatTheDefinitionGives) {
  const Attributes attributes{
      {"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"dilations", Ints{1}}, {"group", std::int64_t{2}}};
  const KernelRequest request{"Conv", &attributes,
                              {operand(DType::float64, {1, 2, 3}), operand(DType::float64, {2, 1, 2}), operand(DType::float64, {2})},
                              {operand(DType::float64, {1, 2, 2})}, {}, {}};
  const auto row = [](Shape s, Values v) { return Buffer(operand(DType::float64, s, Layout::row_major(s.rank())), v); };
  std::vector<Buffer> y = run(native::describe_convolution(request)[0],
                              {row({1, 2, 3}, {1, 2, 3, 4, 5, 6}), row({2, 1, 2}, {10, 1, 2, 3}), row({2}, {0, 100})});
  EXPECT_EQ(y[0].values(), (Values{1, 23, 112, 128}));
}

TEST(Convolution, BlocksOfEightAreOfferedWhereTheyWasteLess) {
  if (machine_isa() == Isa::baseline) GTEST_SKIP() << "the CPU has no AVX2";
  const auto offered = [](std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t group = 1) {
    const Attributes attributes{{"strides", Ints{stride, stride}}, {"group", group}};
    const Operand x = operand(DType::float32, {2, in, 9, 9}), w = operand(DType::float32, {out, in / group, 3, 3});
    const Operand y = operand(DType::float32, {2, out, (9 - 3) / stride + 1, (9 - 3) / stride + 1});
    const bool forward = !native::describe_channels_last_convolution({"Conv", &attributes, {x, w}, {y}, {}, {}}).empty();
    const bool data =
        !native::describe_channels_last_convolution_backward_data({"ConvolutionBackwardData", &attributes, {y, w}, {x}, {}, {}}).empty();
    return std::pair(forward, data);
  };
  using Offers = std::pair<bool, bool>;
  EXPECT_EQ(offered(20, 50, 1), Offers(true, true));
  EXPECT_EQ(offered(20, 50, 2), Offers(true, false));
  EXPECT_EQ(offered(32, 24, 1), Offers(true, false));
  EXPECT_EQ(offered(40, 64, 1), Offers(false, true));
  EXPECT_EQ(offered(16, 12, 1), Offers(false, false));
  EXPECT_EQ(offered(20, 50, 1, 2), Offers(false, false));
  // Not where the input is to be normalized, the output summed, or the gradient masked.
  const Operand x = operand(DType::float32, {2, 20, 9, 9}), w = operand(DType::float32, {20, 20, 3, 3}), c = operand(DType::float32, {20});
  const Attributes same{{"pads", Ints{1, 1, 1, 1}}};
  EXPECT_FALSE(native::describe_channels_last_convolution({"Conv", &same, {x, w, c}, {x}, {}, {}}).empty());
  EXPECT_TRUE(native::describe_channels_last_convolution({"Conv", &same, {x, w, {}, c, c}, {x}, {}, {}}).empty());
  EXPECT_TRUE(native::describe_channels_last_convolution({"Conv", &same, {x, w}, {x, c, c}, {}, {}}).empty());
  EXPECT_TRUE(native::describe_channels_last_convolution_backward_data({"ConvolutionBackwardData", &same, {x, w, x}, {x}, {}, {}}).empty());
}

TEST(Convolution, OfOneTapAreProductsOfPlaces) {
  const Attributes one{{"kernel_shape", Ints{1, 1}}}, strided{{"kernel_shape", Ints{1, 1}}, {"strides", Ints{2, 2}}},
      padded{{"kernel_shape", Ints{1, 1}}, {"pads", Ints{0, 1, 0, 0}}};
  const Attributes grouped{{"kernel_shape", Ints{1, 1}}, {"group", std::int64_t{2}}}, three{{"kernel_shape", Ints{3, 3}}};
  const auto offered = [](const Attributes& a, const Shape& w, DType type) {
    return !native::describe_pointwise_convolution(
                {"Conv", &a, {operand(type, {2, 8, 5, 5}), operand(type, w)}, {operand(type, {2, 6, 5, 5})}, {}, {}})
                .empty();
  };
  EXPECT_TRUE(offered(one, {6, 8, 1, 1}, DType::float32));
  EXPECT_TRUE(offered(one, {6, 8, 1, 1}, DType::bfloat16));
  EXPECT_FALSE(offered(one, {6, 8, 1, 1}, DType::float64));
  EXPECT_FALSE(offered(strided, {6, 8, 1, 1}, DType::float32));
  EXPECT_FALSE(offered(padded, {6, 8, 1, 1}, DType::float32));
  EXPECT_FALSE(offered(grouped, {6, 4, 1, 1}, DType::float32));
  EXPECT_FALSE(offered(three, {6, 8, 3, 3}, DType::float32));
}

TEST(Convolution, WinogradIsOfferedOnlyWhereAllowedAndFitting) {
  const Attributes attributes{{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"group", std::int64_t{1}}};
  const auto offered = [&](Shape x, Shape w, Shape y, bool allowed) {
    KernelRequest request{"Conv", &attributes, {operand(DType::float32, x), operand(DType::float32, w)}, {operand(DType::float32, y)},
                          {.threads = 1, .winograd = allowed}, {}};
    for (const KernelDescription& d : onednn::describe_convolution(request))
      if (d.kernel == "onednn.convolution.winograd") return true;
    return false;
  };
  EXPECT_FALSE(offered({1, 64, 28, 28}, {64, 64, 3, 3}, {1, 64, 28, 28}, false));
  EXPECT_FALSE(offered({1, 64, 28, 28}, {64, 64, 1, 1}, {1, 64, 30, 30}, true));
  EXPECT_FALSE(offered({1, 3, 28, 28}, {64, 3, 3, 3}, {1, 64, 28, 28}, true));
}

}  // namespace
}  // namespace tandem::dense_tests
