// Inner products, matrix products, softmax and copies by oneDNN in float against the native ones in double, in several layouts.
#include "tests/kernels/dense_cases.h"

namespace tandem::dense_tests {
namespace {

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
    check_bfloat16({row.name, "InnerProductBackwardData", shape, {y, row.w}, {row.x}, row.w[0], {}},
                   native::describe_inner_product_backward_data);
  }
}

// Strides of axes of one say nothing of where a matrix lies, and the library's cache does not look at them: whatever was made before,
// a product needs what it is described with.
TEST(MatMul, OfOneRowOrColumnNeedsWhatItIsDescribedWith) {
  struct Row {
    Shape a, b;
    std::int64_t trans_a, trans_b;
  };
  std::vector<Row> rows;
  for (const std::int64_t m : {1, 10})
    for (const std::int64_t k : {1, 10})
      for (const std::int64_t n : {1, 10})
        for (const std::int64_t trans_a : {1, 0})
          for (const std::int64_t trans_b : {0, 1})
            rows.push_back({trans_a ? Shape{k, m} : Shape{m, k}, trans_b ? Shape{n, k} : Shape{k, n}, trans_a, trans_b});
  const auto described = [](const Row& row) {
    const Attributes attributes{{"transA", row.trans_a}, {"transB", row.trans_b}};
    const Shape y{row.a[row.trans_a ? 1 : 0], row.b[row.trans_b ? 0 : 1]};
    return onednn::describe_matmul(
               {"MatMul", &attributes, {{DType::float32, row.a, ab}, {DType::float32, row.b, ab}}, {{DType::float32, y, ab}}, {}, {}})
        .at(0);
  };
  std::vector<KernelDescription> first;
  for (const Row& row : rows) first.push_back(described(row));
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NO_THROW(first[i].make()) << i;
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(described(rows[i]).workspace, first[i].workspace)
        << concat(rows[i].a, " by ", rows[i].b, ", transposed ", rows[i].trans_a, rows[i].trans_b);
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

TEST(Softmax, AgreesWithDouble) {
  const Case cases[] = {
      {"rows", "Softmax", {{"axis", std::int64_t{-1}}}, {{8, 10}}, {{8, 10}}, 10},
      {"1000 classes", "Softmax", {{"axis", std::int64_t{1}}}, {{4, 1000}}, {{4, 1000}}, 1000},
      {"first axis", "Softmax", {{"axis", std::int64_t{0}}}, {{7, 3}}, {{7, 3}}, 7},
  };
  for (const Case& c : cases) check(c, native::describe_softmax, native::describe_softmax, {any, ab});
  check({"many columns", "Softmax", {{"axis", std::int64_t{1}}}, {{2, 9, 10, 13}}, {{2, 9, 10, 13}}, 9}, native::describe_softmax,
        native::describe_softmax, {abcd});
  check({"channels", "Softmax", {{"axis", std::int64_t{1}}}, {{2, 32, 5, 5}}, {{2, 32, 5, 5}}, 32}, native::describe_softmax,
        native::describe_softmax, {abcd});
}

TEST(LogSoftmax, NativeIsTheLogarithmOfSoftmaxAlsoForLargeInputs) {
  const Attributes attributes{{"axis", std::int64_t{0}}};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Operand x = operand(dtype, {2, 2}, ab);
    std::vector<Buffer> y =
        run(native::describe_softmax({"LogSoftmax", &attributes, {x}, {x}, {}, {}})[0], {Buffer(x, {1000, 0, 1001, 0})});
    const Values wanted{-1.3132616875182228, -std::log(2.0), -0.31326168751822286, -std::log(2.0)};
    EXPECT_LE(error_of(y[0].values(), wanted), dtype == DType::float32 ? tolerance(2) : 1e-15);
  }
}

TEST(OneDnn, DeclinesOtherTypesAndEmptyTensors) {
  const Attributes pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  for (const DType dtype : {DType::uint8, DType::float64})
    EXPECT_TRUE(onednn::describe_max_pool({"MaxPool", &pool, {operand(dtype, {1, 1, 4, 4}, abcd)}, {operand(dtype, {1, 1, 2, 2})}, {}, {}})
                    .empty());
  EXPECT_TRUE(onednn::describe_max_pool(
                  {"MaxPool", &pool, {operand(DType::float32, {0, 1, 4, 4}, abcd)}, {operand(DType::float32, {0, 1, 2, 2})}, {}, {}})
                  .empty());
}

// A device without samples still gives gradients: zeros.
TEST(Native, GradientsOfNoSamplesAreZero) {
  const Attributes conv{{"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}}, none;
  const auto empty = [](Shape s) { return operand(DType::float32, s, Layout::row_major(s.rank())); };
  const KernelRequest convolution{"ConvolutionBackwardWeights",      &conv, {empty({0, 3, 4, 4}), empty({0, 5, 2, 2})},
                                  {empty({5, 3, 3, 3}), empty({5})}, {},    {}};
  const KernelRequest product{"InnerProductBackwardWeights", &none, {empty({0, 6}), empty({0, 4})}, {empty({4, 6}), empty({4})}, {}, {}};
  for (const KernelDescription& d :
       {native::describe_convolution_backward_weights(convolution)[0], native::describe_inner_product_backward_weights(product)[0]})
    for (Buffer& b : run(d, {Buffer(d.inputs[0]), Buffer(d.inputs[1])}))
      for (const double v : b.values()) EXPECT_EQ(v, 0) << d.kernel;
}

TEST(Copies, ConcatSliceAndReorderMoveTheRightElements) {
  const Shape a{2, 32, 3, 3}, b{2, 16, 3, 3}, whole{2, 48, 3, 3};
  for (const Layout& layout : {abcd, acdb, blocks}) {
    const Attributes axis{{"axis", std::int64_t{1}}};
    const KernelRequest join{
        "Concat", &axis, {operand(DType::float32, a, layout), operand(DType::float32, b, layout)}, {operand(DType::float32, whole)},
        {},       {}};
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
  EXPECT_TRUE(
      onednn::describe_slice({"Slice", &cut, {operand(DType::float32, whole, blocks)}, {operand(DType::float32, {2, 16, 3, 3})}, {}, {}})
          .empty())
      << "cuts blocks";
  for (const Layout& from : {abcd, acdb, blocks, Layout("ABcd16b16a"), Layout("Acdb32a")})
    for (const Layout& to : {abcd, acdb, blocks, Layout("BAcd16a16b"), Layout("aBcd8b")}) {
      const Shape shape{20, 9, 3, 2};
      const auto d = onednn::describe_reorder(
          {"Reorder", &none, {operand(DType::float32, shape, from)}, {operand(DType::float32, shape, to)}, {}, {}});
      ASSERT_EQ(d.size(), 1u) << from << " to " << to;
      EXPECT_EQ(run(d[0], {Buffer(d[0].inputs[0], random_values(shape, 1))})[0].values(), random_values(shape, 1)) << from << " to " << to;
    }
}

}  // namespace

}  // namespace tandem::dense_tests
