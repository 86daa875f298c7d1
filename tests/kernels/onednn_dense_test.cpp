// Inner products, matrix products, pooling, normalisation, softmax and copies by oneDNN in float against the native ones
// in double, in several layouts.
#include "kernels/cpu/families.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {
namespace {

// One operator on given shapes. `layout` is that of the inputs named by `laid`, the others are left to the kernel.
struct Case {
  std::string name;
  std::string_view op;
  Attributes attributes;
  std::vector<Shape> inputs, outputs;
  std::int64_t reduction;
  std::vector<int> laid = {0};
};

KernelRequest request_of(const Case& c, DType dtype, const Layout& layout) {
  KernelRequest request{c.op, &c.attributes, {}, {}, {.threads = 2}, {}};
  for (const Shape& s : c.inputs) request.inputs.push_back(operand(dtype, s));
  for (const Shape& s : c.outputs) request.outputs.push_back(operand(dtype, s));
  for (const int i : c.laid) request.inputs[static_cast<std::size_t>(i)].layout = layout;
  return request;
}

std::vector<Buffer> values_for(const Case& c, DType dtype) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    buffers.emplace_back(operand(dtype, c.inputs[i], Layout::row_major(c.inputs[i].rank())), random_values(c.inputs[i], static_cast<unsigned>(i + 1)));
  return buffers;
}

void check(const Case& c, Describe onednn, Describe native, const std::vector<Layout>& layouts) {
  const auto oracle = native(request_of(c, DType::float64, {}));
  ASSERT_EQ(oracle.size(), 1u) << c.name;
  std::vector<Buffer> wanted = run(oracle[0], values_for(c, DType::float64));
  const auto compare = [&](const KernelDescription& d) {
    std::vector<Buffer> got = run(d, values_for(c, DType::float32));
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(error_of(got[i].values(), wanted[i].values()), tolerance(c.reduction)) << c.name << ": output " << i << " of " << describe_operands(d);
  };
  for (const Layout& layout : layouts) {
    const KernelRequest request = request_of(c, DType::float32, layout);
    const auto descriptions = onednn(request);
    EXPECT_FALSE(descriptions.empty()) << c.name << ": " << c.op << " in " << layout;
    for (const KernelDescription& d : descriptions) {
      compare(d);
      expect_found_again(onednn, request, d);
    }
  }
  for (const Layout& layout : layouts) {
    const KernelRequest request = request_of(c, DType::float32, layout);
    for (const KernelDescription& d : native(request)) {
      compare(d);
      expect_found_again(native, request, d);
    }
  }
}

// Products of 16-bit numbers: of operands that are exact in 16 bits (eight of them significant), rounded once.
void check_bfloat16(const Case& c, Describe native) {
  const auto values = [&](DType dtype) {
    std::vector<Buffer> buffers;
    for (Buffer& b : values_for(c, DType::bfloat16)) buffers.emplace_back(operand(dtype, b.operand().shape, b.operand().layout), b.values());
    return buffers;
  };
  const auto narrow = native(request_of(c, DType::bfloat16, {}));
  ASSERT_EQ(narrow.size(), 1u) << c.name;
  std::vector<Buffer> wanted = run(native(request_of(c, DType::float64, {}))[0], values(DType::float64));
  std::vector<Buffer> got = run(narrow[0], values(DType::bfloat16));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LE(error_of(got[i].values(), wanted[i].values()), 0x1p-8 + tolerance(c.reduction)) << c.name << ": output " << i << " of " << describe_operands(narrow[0]);
}

const Layout any, ab("ab"), abcd("abcd"), acdb("acdb"), blocks("aBcd16b");

TEST(InnerProduct, AgreesWithDouble) {
  struct Row {
    std::string name;
    Shape x, w;
    bool bias, relu;
    std::vector<Layout> layouts;
  };
  const Row rows[] = {
      {"rows of 784 to 64", {32, 784}, {64, 784}, true, true, {any, ab}},
      {"odd sizes", {7, 33}, {5, 33}, true, false, {any, ab}},
      {"one sample, no bias", {1, 64}, {10, 64}, false, false, {ab}},
      {"a sum in two parts", {70, 1500}, {37, 1500}, true, true, {any, ab}},
      {"more outputs than a chunk of panels holds", {60, 1000}, {600, 1000}, true, false, {any, ab}},
      {"few samples, many outputs", {3, 300}, {130, 300}, true, true, {any, ab}},
      {"many samples, few outputs", {1100, 40}, {3, 40}, true, true, {any, ab}},
      {"images of 64 channels", {4, 64, 5, 5}, {40, 64, 5, 5}, true, true, {any, abcd, acdb, blocks}},
      {"images of 50 channels", {4, 50, 5, 5}, {33, 50, 5, 5}, true, false, {any, abcd, acdb, blocks}},
  };
  for (const Row& row : rows) {
    const Shape y{row.x[0], row.w[0]};
    const Attributes attributes = row.relu ? Attributes{{"activation", std::string("Relu")}} : Attributes{};
    Case forward{row.name, "InnerProduct", attributes, {row.x, row.w}, {y}, row.w.elements() / row.w[0]};
    if (row.bias) forward.inputs.push_back({row.w[0]});
    check(forward, onednn::describe_inner_product, native::describe_inner_product, row.layouts);
    check_bfloat16(forward, native::describe_inner_product);
    const Attributes shape{{"input_shape", row.x.dims}};
    check({row.name, "InnerProductBackwardData", shape, {y, row.w}, {row.x}, row.w[0], {}}, onednn::describe_inner_product_backward_data,
          native::describe_inner_product_backward_data, {any});
    const int rank = row.w.rank();
    std::string outputs_inside;
    for (int axis = rank; axis-- > 0;) outputs_inside += static_cast<char>('a' + axis);
    check({row.name, "InnerProductBackwardData", shape, {y, row.w}, {row.x}, row.w[0], {1}}, onednn::describe_inner_product_backward_data,
          native::describe_inner_product_backward_data, {Layout(outputs_inside)});
    Case weights{row.name, "InnerProductBackwardWeights", {}, {row.x, y}, {row.w}, row.x[0]};
    if (row.bias) weights.outputs.push_back({row.w[0]});
    check(weights, onednn::describe_inner_product_backward_weights, native::describe_inner_product_backward_weights, row.layouts);
    check_bfloat16(weights, native::describe_inner_product_backward_weights);
    check_bfloat16({row.name, "InnerProductBackwardData", shape, {y, row.w}, {row.x}, row.w[0], {}}, native::describe_inner_product_backward_data);
  }
}

TEST(MatMul, AgreesWithDouble) {
  struct Row {
    std::string name;
    Shape a, b, y;
    std::int64_t trans_a = 0, trans_b = 0;
  };
  const Row rows[] = {
      {"matrices", {33, 65}, {65, 17}, {33, 17}},
      {"left transposed", {65, 33}, {65, 17}, {33, 17}, 1, 0},
      {"right transposed", {33, 65}, {17, 65}, {33, 17}, 0, 1},
      {"both transposed", {65, 33}, {17, 65}, {33, 17}, 1, 1},
      {"large, right transposed", {70, 1100}, {65, 1100}, {70, 65}, 0, 1},
      {"large, left transposed", {1100, 70}, {1100, 65}, {70, 65}, 1, 0},
      {"batches", {3, 2, 8, 16}, {3, 2, 16, 9}, {3, 2, 8, 9}},
      {"batches, right transposed", {3, 2, 8, 16}, {3, 2, 9, 16}, {3, 2, 8, 9}, 0, 1},
      {"batch by matrix", {5, 8, 16}, {16, 9}, {5, 8, 9}},
      {"matrix by batch", {8, 16}, {5, 16, 9}, {5, 8, 9}},
      {"broadcast both ways", {4, 1, 8, 16}, {3, 16, 9}, {4, 3, 8, 9}},
      {"vector by matrix", {16}, {16, 9}, {9}},
      {"matrix by vector", {8, 16}, {16}, {8}},
      {"batch by vector", {5, 8, 16}, {16}, {5, 8}},
      {"vector by batch", {16}, {5, 16, 9}, {5, 9}},
      {"vectors", {16}, {16}, {}},
  };
  for (const Row& row : rows) {
    const Case c{row.name, "MatMul", {{"transA", row.trans_a}, {"transB", row.trans_b}}, {row.a, row.b}, {row.y}, row.a.elements(), {}};
    check(c, onednn::describe_matmul, native::describe_matmul, {any});
    check_bfloat16(c, native::describe_matmul);
  }
}

struct PoolRow {
  std::string name;
  Shape x;
  Ints kernel, strides, pads;
  Ints dilations = {};
  std::int64_t ceil_mode = 0;
  std::vector<Layout> layouts = {abcd, acdb, blocks};
};

const PoolRow pool_rows[] = {
    {"2x2 of 32 channels", {2, 32, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
    {"3x3 overlapping, padded", {2, 64, 15, 15}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
    {"odd channels, uneven", {2, 7, 9, 11}, {3, 2}, {2, 1}, {0, 1, 1, 0}},
    {"ceil_mode", {1, 16, 6, 6}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {}, 1},
    {"whole planes", {2, 48, 7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}},
    {"dilated", {2, 16, 10, 10}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, 0, {abcd}},
    {"1-D", {2, 8, 17}, {4}, {2}, {1, 1}, {}, 0, {Layout("abc"), Layout("acb")}},
    {"3-D", {2, 16, 5, 6, 7}, {2, 3, 2}, {2, 2, 1}, {0, 1, 0, 1, 1, 0}, {}, 0, {Layout("abcde"), Layout("aBcde16b")}},
};

Attributes attributes_of(const PoolRow& row) {
  Attributes a{{"kernel_shape", row.kernel}, {"strides", row.strides}, {"pads", row.pads}, {"ceil_mode", row.ceil_mode}, {"input_shape", row.x.dims}};
  if (!row.dilations.empty()) a.set("dilations", row.dilations);
  return a;
}

Shape output_of(const PoolRow& row) {
  Shape y{row.x[0], row.x[1]};
  const std::size_t rank = row.kernel.size();
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t reach = (row.kernel[i] - 1) * (row.dilations.empty() ? 1 : row.dilations[i]) + 1;
    const std::int64_t room = row.x[static_cast<int>(i) + 2] + row.pads[i] + row.pads[rank + i] - reach;
    y.dims.push_back((room + (row.ceil_mode ? row.strides[i] - 1 : 0)) / row.strides[i] + 1);
  }
  return y;
}

std::int64_t taps(const PoolRow& row) {
  std::int64_t n = 1;
  for (const auto k : row.kernel) n *= k;
  return n;
}

TEST(AveragePool, AgreesWithDouble) {
  for (const PoolRow& row : pool_rows)
    for (const std::int64_t include : {0, 1}) {
      if (include && row.ceil_mode) continue;  // declined: see below
      Attributes attributes = attributes_of(row);
      attributes.set("count_include_pad", include);
      check({row.name, "AveragePool", attributes, {row.x}, {output_of(row)}, taps(row)}, onednn::describe_average_pool, native::describe_average_pool, row.layouts);
      check({row.name, "AveragePoolBackward", attributes, {output_of(row)}, {row.x}, taps(row)}, onednn::describe_average_pool_backward,
            native::describe_average_pool_backward, row.layouts);
    }
}

TEST(AveragePool, CountingPaddingBeyondTheInputIsLeftToTheNativeKernel) {
  const Attributes attributes{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"ceil_mode", std::int64_t{1}},
                              {"count_include_pad", std::int64_t{1}}};
  const KernelRequest request{"AveragePool", &attributes, {operand(DType::float32, {1, 1, 4}, Layout("abc"))}, {operand(DType::float32, {1, 1, 3})}, {}, {}};
  EXPECT_TRUE(onednn::describe_average_pool(request).empty());
  std::vector<Buffer> y = run(native::describe_average_pool(request)[0], {Buffer(request.inputs[0], {2, 4, 6, 8})});
  EXPECT_EQ(y[0].values(), (Values{1, 5, 8}));  // [pad 2] [4 6] [8]
}

// The gradient of a whole plane's average lies in every layout alike, so that it can go on in the one before it.
TEST(AveragePool, BackwardOfWholePlanesOffersThePreferredLayoutFirst) {
  const Attributes attributes{{"kernel_shape", Ints{7, 7}}};
  for (const auto& [preference, wanted] : {std::pair(LayoutPreference::blocked, "aBcd"), std::pair(LayoutPreference::channels_last, "acdb")}) {
    const auto d = onednn::describe_average_pool_backward({"AveragePoolBackward", &attributes, {operand(DType::float32, {2, 64, 1, 1}, abcd)},
                                                           {operand(DType::float32, {2, 64, 7, 7})}, {.threads = 1, .preference = preference}, {}});
    ASSERT_EQ(d.size(), 2u);
    EXPECT_TRUE(d[0].outputs[0].layout.tag().starts_with(wanted)) << d[0].outputs[0].layout;
    EXPECT_EQ(d[1].outputs[0].layout, abcd);
  }
}

TEST(MaxPool, AgreesWithDouble) {
  for (const PoolRow& row : pool_rows)
    check({row.name, "MaxPool", attributes_of(row), {row.x}, {output_of(row)}, 1}, onednn::describe_max_pool, native::describe_max_pool, row.layouts);
}

TEST(MaxPool, TrainingAndBackwardAgreeWithDouble) {
  for (const PoolRow& row : pool_rows) {
    const Attributes attributes = attributes_of(row);
    const Shape y = output_of(row);
    // Forward, then backward on what it gave.
    const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) -> Values {
      const KernelRequest request{"MaxPoolTraining", &attributes, {operand(dtype, row.x, layout)}, {operand(dtype, y), operand(DType::uint8, {0})}, {.threads = 2}, {}};
      const auto f = forward(request);
      EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
      if (f.empty()) return {};
      expect_found_again(forward, request, f[0]);
      std::vector<Buffer> outputs = run(f[0], {Buffer(f[0].inputs[0], random_values(row.x, 1))});
      const KernelRequest back{"MaxPoolBackward", &attributes, {operand(dtype, y), outputs[1].operand()}, {operand(dtype, row.x)}, {.threads = 2}, {}};
      const auto b = backward(back);
      EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
      if (b.empty()) return {};
      expect_found_again(backward, back, b[0]);
      return run(b[0], {Buffer(b[0].inputs[0], random_values(y, 2)), outputs[1]})[0].values();
    };
    const Values wanted = both(DType::float64, any, native::describe_max_pool, native::describe_max_pool_backward);
    for (const Layout& layout : row.layouts)
      EXPECT_LE(error_of(both(DType::float32, layout, onednn::describe_max_pool, onednn::describe_max_pool_backward), wanted), tolerance(taps(row)))
          << row.name << " in " << layout;
  }
}

TEST(MaxPool, NativeIndicesFollowStorageOrder) {
  for (const std::int64_t storage_order : {0, 1}) {
    const Attributes attributes{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"storage_order", storage_order}};
    const KernelRequest request{"MaxPool", &attributes, {operand(DType::float64, {1, 1, 2, 4})},
                                {operand(DType::float64, {1, 1, 1, 2}), operand(DType::int64, {1, 1, 1, 2})}, {}, {}};
    EXPECT_TRUE(onednn::describe_max_pool(request).empty());
    std::vector<Buffer> y = run(native::describe_max_pool(request)[0], {Buffer(operand(DType::float64, {1, 1, 2, 4}, abcd), {0, 9, 1, 2, 3, 4, 7, 5})});
    EXPECT_EQ(y[0].values(), (Values{9, 7}));
    EXPECT_EQ(y[1].values(), storage_order ? (Values{2, 5}) : (Values{1, 6}));
  }
}

struct NormRow {
  std::string name;
  Shape x;
  std::vector<Layout> layouts;
};
const NormRow norm_rows[] = {
    {"32 channels", {4, 32, 9, 9}, {abcd, acdb, blocks}},
    {"odd channels", {3, 13, 5, 7}, {abcd, acdb, blocks}},
    {"rows", {16, 24}, {ab}},
    {"3-D", {2, 16, 3, 4, 5}, {Layout("abcde"), Layout("aBcde16b")}},
};

TEST(BatchNormalization, InferenceAgreesWithDouble) {
  for (const NormRow& row : norm_rows)
    for (const bool relu : {false, true}) {
      Attributes attributes{{"epsilon", 1.5f}};  // keeps random variances positive
      if (relu) attributes.set("activation", std::string("Relu"));
      const Shape c{row.x[1]};
      check({row.name, "BatchNormalization", attributes, {row.x, c, c, c, c}, {row.x}, 4}, onednn::describe_batch_normalization,
            native::describe_batch_normalization, row.layouts);
    }
}

TEST(BatchNormalization, TrainingAndBackwardAgreeWithDouble) {
  for (const NormRow& row : norm_rows)
    for (const bool relu : {false, true}) {
      Attributes attributes{{"epsilon", 1e-3f}};
      if (relu) attributes.set("activation", std::string("Relu"));
      const Shape c{row.x[1]};
      const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) {
        const Operand channel = operand(dtype, c, Layout("a"));
        const KernelRequest request{"BatchNormalizationTraining", &attributes, {operand(dtype, row.x, layout), channel, channel},
                                    {operand(dtype, row.x), channel, channel, operand(DType::uint8, {0})}, {.threads = 2}, {}};
        std::vector<Values> results;
        const auto f = forward(request);
        EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
        if (f.empty()) return results;
        expect_found_again(forward, request, f[0]);
        const Buffer x(f[0].inputs[0], random_values(row.x, 1)), scale(channel, random_values(c, 2)), bias(channel, random_values(c, 3));
        std::vector<Buffer> y = run(f[0], {x, scale, bias});
        for (std::size_t i = 0; i < 3; ++i) results.push_back(y[i].values());
        const KernelRequest back{"BatchNormalizationBackward", &attributes,
                                 {operand(dtype, row.x, layout), operand(dtype, row.x), channel, channel, channel, channel, y[3].operand()},
                                 {operand(dtype, row.x), channel, channel}, {.threads = 2}, {}};
        const auto b = backward(back);
        EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
        if (b.empty()) return results;
        expect_found_again(backward, back, b[0]);
        for (Buffer& d : run(b[0], {x, Buffer(b[0].inputs[1], random_values(row.x, 4)), scale, bias, y[1], y[2], y[3]})) results.push_back(d.values());
        return results;
      };
      const auto wanted = both(DType::float64, any, native::describe_batch_normalization_training, native::describe_batch_normalization_backward);
      for (const Layout& layout : row.layouts) {
        const auto got = both(DType::float32, layout, onednn::describe_batch_normalization_training, onednn::describe_batch_normalization_backward);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(error_of(got[i], wanted[i]), tolerance(row.x.elements() / row.x[1])) << row.name << " in " << layout << (relu ? " with Relu" : "") << ": result " << i;
      }
    }
}

TEST(Lrn, AgreesWithDouble) {
  for (const NormRow& row : norm_rows) {
    if (row.x.rank() != 4) continue;
    const Attributes attributes{{"size", std::int64_t{5}}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 1.25f}};
    check({row.name, "LRN", attributes, {row.x}, {row.x}, 5}, onednn::describe_lrn, native::describe_lrn, row.layouts);
    const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) -> Values {
      const auto f = forward({"LRNTraining", &attributes, {operand(dtype, row.x, layout)}, {operand(dtype, row.x), operand(DType::uint8, {0})}, {.threads = 2}, {}});
      EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
      if (f.empty()) return {};
      const Buffer x(f[0].inputs[0], random_values(row.x, 1));
      std::vector<Buffer> y = run(f[0], {x});
      const auto b = backward({"LRNBackward", &attributes, {x.operand(), y[0].operand(), operand(dtype, row.x), y[1].operand()}, {operand(dtype, row.x)}, {.threads = 2}, {}});
      EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
      if (b.empty()) return {};
      return run(b[0], {x, y[0], Buffer(b[0].inputs[2], random_values(row.x, 2)), y[1]})[0].values();
    };
    const Values wanted = both(DType::float64, any, native::describe_lrn, native::describe_lrn_backward);
    for (const Layout& layout : row.layouts)
      EXPECT_LE(error_of(both(DType::float32, layout, onednn::describe_lrn, onednn::describe_lrn_backward), wanted), tolerance(25)) << row.name << " in " << layout;
  }
}

TEST(Softmax, AgreesWithDouble) {
  const Case cases[] = {
      {"rows", "Softmax", {{"axis", std::int64_t{-1}}}, {{8, 10}}, {{8, 10}}, 10},
      {"1000 classes", "Softmax", {{"axis", std::int64_t{1}}}, {{4, 1000}}, {{4, 1000}}, 1000},
      {"first axis", "Softmax", {{"axis", std::int64_t{0}}}, {{7, 3}}, {{7, 3}}, 7},
  };
  for (const Case& c : cases) check(c, onednn::describe_softmax, native::describe_softmax, {any, ab});
  check({"many columns", "Softmax", {{"axis", std::int64_t{1}}}, {{2, 9, 10, 13}}, {{2, 9, 10, 13}}, 9}, onednn::describe_softmax, native::describe_softmax, {abcd});
  check({"channels", "Softmax", {{"axis", std::int64_t{1}}}, {{2, 32, 5, 5}}, {{2, 32, 5, 5}}, 32}, onednn::describe_softmax, native::describe_softmax, {abcd, acdb});
}

TEST(LogSoftmax, NativeIsTheLogarithmOfSoftmaxAlsoForLargeInputs) {
  const Attributes attributes{{"axis", std::int64_t{0}}};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Operand x = operand(dtype, {2, 2}, ab);
    std::vector<Buffer> y = run(native::describe_softmax({"LogSoftmax", &attributes, {x}, {x}, {}, {}})[0], {Buffer(x, {1000, 0, 1001, 0})});
    const Values wanted{-1.3132616875182228, -std::log(2.0), -0.31326168751822286, -std::log(2.0)};
    EXPECT_LE(error_of(y[0].values(), wanted), dtype == DType::float32 ? tolerance(2) : 1e-15);
  }
}

TEST(OneDnn, DeclinesOtherTypesAndEmptyTensors) {
  const Attributes pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  for (const DType dtype : {DType::uint8, DType::float64})
    EXPECT_TRUE(onednn::describe_max_pool({"MaxPool", &pool, {operand(dtype, {1, 1, 4, 4}, abcd)}, {operand(dtype, {1, 1, 2, 2})}, {}, {}}).empty());
  EXPECT_TRUE(onednn::describe_max_pool({"MaxPool", &pool, {operand(DType::float32, {0, 1, 4, 4}, abcd)}, {operand(DType::float32, {0, 1, 2, 2})}, {}, {}}).empty());
}

// A device without samples still gives gradients: zeros.
TEST(Native, GradientsOfNoSamplesAreZero) {
  const Attributes conv{{"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}}, none;
  const auto empty = [](Shape s) { return operand(DType::float32, s, Layout::row_major(s.rank())); };
  const KernelRequest convolution{"ConvolutionBackwardWeights", &conv, {empty({0, 3, 4, 4}), empty({0, 5, 2, 2})}, {empty({5, 3, 3, 3}), empty({5})}, {}, {}};
  const KernelRequest product{"InnerProductBackwardWeights", &none, {empty({0, 6}), empty({0, 4})}, {empty({4, 6}), empty({4})}, {}, {}};
  for (const KernelDescription& d : {native::describe_convolution_backward_weights(convolution)[0], native::describe_inner_product_backward_weights(product)[0]})
    for (Buffer& b : run(d, {Buffer(d.inputs[0]), Buffer(d.inputs[1])}))
      for (const double v : b.values()) EXPECT_EQ(v, 0) << d.kernel;
}

TEST(Copies, ConcatSliceAndReorderMoveTheRightElements) {
  const Shape a{2, 32, 3, 3}, b{2, 16, 3, 3}, whole{2, 48, 3, 3};
  for (const Layout& layout : {abcd, acdb, blocks}) {
    const Attributes axis{{"axis", std::int64_t{1}}};
    const KernelRequest join{"Concat", &axis, {operand(DType::float32, a, layout), operand(DType::float32, b, layout)}, {operand(DType::float32, whole)}, {}, {}};
    const auto joins = onednn::describe_concat(join);
    ASSERT_FALSE(joins.empty());
    EXPECT_EQ(joins[0].outputs[0].layout, layout) << "in the inputs' layout first";
    for (const KernelDescription& d : joins) {
      expect_found_again(onednn::describe_concat, join, d);
      const Values va = random_values(a, 1), vb = random_values(b, 2);
      const std::vector<Buffer> y = run(d, {Buffer(d.inputs[0], va), Buffer(d.inputs[1], vb)});
      const auto part = [&](const Shape& shape, std::int64_t start) {
        const Attributes slice{{"starts", Ints{start}}, {"ends", Ints{start + shape[1]}}, {"axes", Ints{1}}, {"steps", Ints{1}}};
        const KernelRequest cut{"Slice", &slice, {y[0].operand()}, {operand(DType::float32, shape)}, {}, {}};
        const auto cuts = onednn::describe_slice(cut);
        EXPECT_EQ(cuts.size(), 1u);
        return cuts.empty() ? Values{} : run(cuts[0], {y[0]})[0].values();
      };
      EXPECT_EQ(part(a, 0), va);
      EXPECT_EQ(part(b, 32), vb);
    }
  }
  const Attributes none, cut{{"starts", Ints{8}}, {"ends", Ints{24}}, {"axes", Ints{1}}, {"steps", Ints{1}}};
  EXPECT_TRUE(onednn::describe_slice({"Slice", &cut, {operand(DType::float32, whole, blocks)}, {operand(DType::float32, {2, 16, 3, 3})}, {}, {}}).empty())
      << "cuts blocks";
  for (const Layout& from : {abcd, acdb, blocks, Layout("ABcd16b16a"), Layout("Acdb32a")})
    for (const Layout& to : {abcd, acdb, blocks, Layout("BAcd16a16b"), Layout("aBcd8b")}) {
      const Shape shape{20, 9, 3, 2};
      const auto d = onednn::describe_reorder({"Reorder", &none, {operand(DType::float32, shape, from)}, {operand(DType::float32, shape, to)}, {}, {}});
      ASSERT_EQ(d.size(), 1u) << from << " to " << to;
      EXPECT_EQ(run(d[0], {Buffer(d[0].inputs[0], random_values(shape, 1))})[0].values(), random_values(shape, 1)) << from << " to " << to;
    }
}

}  // namespace

}  // namespace tandem::dense_tests
