// Pooling by oneDNN and by our kernels of channels in float against the native kernels in double, in several layouts.
#include "kernels/cpu/isa.h"
#include "tests/kernels/dense_cases.h"

namespace tandem::dense_tests {
namespace {

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

// Where channels lie side by side, at least a vector of them. Rows of fewer channels are padded by the blocks.
const PoolRow channel_rows[] = {
    {"2x2 of 20 channels", {2, 20, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {}, 0, {acdb, blocks}},
    {"3x3 overlapping, padded", {2, 50, 15, 15}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 0, {acdb, blocks}},
    {"3x3 in place", {1, 33, 5, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {}, 0, {acdb, blocks}},
    {"odd channels, uneven", {2, 7, 9, 11}, {3, 2}, {2, 1}, {0, 1, 1, 0}, {}, 0, {blocks}},
    {"places that no window meets", {2, 16, 9, 9}, {1, 2}, {3, 3}, {0, 0, 0, 0}, {}, 0, {acdb, blocks}},
    {"ceil_mode", {1, 16, 6, 6}, {3, 3}, {2, 2}, {0, 0, 0, 0}, {}, 1, {acdb, blocks}},
    {"dilated", {2, 16, 10, 10}, {3, 3}, {2, 1}, {2, 1, 1, 2}, {2, 3}, 0, {acdb, blocks}},
    {"1-D", {2, 24, 17}, {4}, {2}, {1, 1}, {}, 0, {Layout("acb"), Layout("aBc16b")}},
    {"3-D", {2, 16, 5, 6, 7}, {2, 3, 2}, {2, 2, 1}, {0, 1, 0, 1, 1, 0}, {}, 0, {Layout("acdeb"), Layout("aBcde16b")}},
};

Attributes attributes_of(const PoolRow& row) {
  Attributes a{{"kernel_shape", row.kernel},
               {"strides", row.strides},
               {"pads", row.pads},
               {"ceil_mode", row.ceil_mode},
               {"input_shape", row.x.dims}};
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
      check({row.name, "AveragePool", attributes, {row.x}, {output_of(row)}, taps(row)}, onednn::describe_average_pool,
            native::describe_average_pool, row.layouts);
      check({row.name, "AveragePoolBackward", attributes, {output_of(row)}, {row.x}, taps(row)}, onednn::describe_average_pool_backward,
            native::describe_average_pool_backward, row.layouts);
    }
}

TEST(AveragePool, CountingPaddingBeyondTheInputIsLeftToTheNativeKernel) {
  const Attributes attributes{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"ceil_mode", std::int64_t{1}},
                              {"count_include_pad", std::int64_t{1}}};
  const KernelRequest request{
      "AveragePool", &attributes, {operand(DType::float32, {1, 1, 4}, Layout("abc"))}, {operand(DType::float32, {1, 1, 3})}, {}, {}};
  EXPECT_TRUE(onednn::describe_average_pool(request).empty());
  std::vector<Buffer> y = run(native::describe_average_pool(request)[0], {Buffer(request.inputs[0], {2, 4, 6, 8})});
  EXPECT_EQ(y[0].values(), (Values{1, 5, 8}));  // [pad 2] [4 6] [8]
}

// The gradient of a whole plane's average lies in every layout alike, so that it can go on in the one before it.
TEST(AveragePool, BackwardOfWholePlanesOffersThePreferredLayoutFirst) {
  const Attributes attributes{{"kernel_shape", Ints{7, 7}}};
  for (const auto& [preference, wanted] :
       {std::pair(LayoutPreference::blocked, "aBcd"), std::pair(LayoutPreference::channels_last, "acdb")}) {
    const auto d = onednn::describe_average_pool_backward({"AveragePoolBackward",
                                                           &attributes,
                                                           {operand(DType::float32, {2, 64, 1, 1}, abcd)},
                                                           {operand(DType::float32, {2, 64, 7, 7})},
                                                           {.threads = 1, .preference = preference},
                                                           {}});
    ASSERT_EQ(d.size(), 2u);
    EXPECT_TRUE(d[0].outputs[0].layout.tag().starts_with(wanted)) << d[0].outputs[0].layout;
    EXPECT_EQ(d[1].outputs[0].layout, abcd);
  }
}

TEST(MaxPool, AgreesWithDouble) {
  for (const PoolRow& row : pool_rows)
    check({row.name, "MaxPool", attributes_of(row), {row.x}, {output_of(row)}, 1}, onednn::describe_max_pool, native::describe_max_pool,
          row.layouts);
  for (const PoolRow& row : channel_rows)
    check({row.name, "MaxPool", attributes_of(row), {row.x}, {output_of(row)}, 1}, native::describe_max_pool_of_channels,
          native::describe_max_pool, row.layouts);
}

void expect_gradients_of_double(std::span<const PoolRow> rows, Describe training, Describe training_backward) {
  for (const PoolRow& row : rows) {
    const Attributes attributes = attributes_of(row);
    const Shape y = output_of(row);
    // Forward, then backward on what it gave.
    const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) -> Values {
      const KernelRequest request{
          "MaxPoolTraining", &attributes, {operand(dtype, row.x, layout)}, {operand(dtype, y), operand(DType::uint8, {0})},
          {.threads = 2},    {}};
      const auto f = forward(request);
      EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
      if (f.empty()) return {};
      expect_found_again(forward, request, f[0]);
      std::vector<Buffer> outputs = run(f[0], {Buffer(f[0].inputs[0], random_values(row.x, 1))});
      const KernelRequest back{"MaxPoolBackward",       &attributes,    {operand(dtype, y), outputs[1].operand()},
                               {operand(dtype, row.x)}, {.threads = 2}, {}};
      const auto b = backward(back);
      EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
      if (b.empty()) return {};
      expect_found_again(backward, back, b[0]);
      return run(b[0], {Buffer(b[0].inputs[0], random_values(y, 2)), outputs[1]})[0].values();
    };
    const Values wanted = both(DType::float64, any, native::describe_max_pool, native::describe_max_pool_backward);
    for (const Layout& layout : row.layouts)
      EXPECT_LE(error_of(both(DType::float32, layout, training, training_backward), wanted), tolerance(taps(row)))
          << row.name << " in " << layout;
  }
}
TEST(MaxPool, TrainingAndBackwardAgreeWithDouble) {
  expect_gradients_of_double(pool_rows, onednn::describe_max_pool, onednn::describe_max_pool_backward);
}
TEST(MaxPool, TrainingAndBackwardOfChannelsAgreeWithDouble) {
  expect_gradients_of_double(channel_rows, native::describe_max_pool_of_channels, native::describe_max_pool_of_channels_backward);
}

// The first of equals has the gradient, bfloat16 is as its numbers are, padding of a block stays zero.
TEST(MaxPool, OfChannelsTakesTheFirstOfEquals) {
  const Attributes attributes{{"kernel_shape", Ints{2}}, {"strides", Ints{1}}, {"input_shape", Ints{1, 3, 4}}};
  const Layout block("aBc16b");
  const Values x{1, 1, 0, 1, -1, -2, -3, -1, 5, 5, 5, 5}, dy{1, 2, 4, 1, 2, 4, 1, 2, 4};
  const auto f = native::describe_max_pool_of_channels({"MaxPoolTraining",
                                                        &attributes,
                                                        {operand(DType::bfloat16, {1, 3, 4}, block)},
                                                        {operand(DType::bfloat16, {1, 3, 3}), operand(DType::uint8, {0})},
                                                        {.threads = 2},
                                                        {}});
  ASSERT_EQ(f.size(), 1u);
  std::vector<Buffer> y = run(f[0], {Buffer(f[0].inputs[0], x)});
  EXPECT_EQ(y[0].values(), (Values{1, 1, 1, -1, -2, -1, 5, 5, 5}));
  const auto b = native::describe_max_pool_of_channels_backward({"MaxPoolBackward",
                                                                 &attributes,
                                                                 {operand(DType::bfloat16, {1, 3, 3}), y[1].operand()},
                                                                 {operand(DType::bfloat16, {1, 3, 4})},
                                                                 {.threads = 2},
                                                                 {}});
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(run(b[0], {Buffer(b[0].inputs[0], dy), y[1]})[0].values(), (Values{1, 2, 0, 4, 1, 2, 0, 4, 1, 2, 4, 0}));
}

TEST(MaxPool, OfChannelsDeclinesFewOnesOtherOrdersAndWindowsInThePadding) {
  const Attributes window{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
      padded{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{2, 2, 0, 0}}};
  const auto found = [](const Attributes& a, std::int64_t channels, const Layout& layout, std::int64_t size) {
    return native::describe_max_pool_of_channels({"MaxPool",
                                                  &a,
                                                  {operand(DType::float32, {1, channels, 4, 4}, layout)},
                                                  {operand(DType::float32, {1, channels, size, size})},
                                                  {},
                                                  {}})
        .size();
  };
  EXPECT_EQ(found(window, 16, acdb, 2), 1u);
  EXPECT_EQ(found(window, vector_table().pooling->lanes - 1, acdb, 2), 0u);
  EXPECT_EQ(found(window, 16, abcd, 2), 0u);
  EXPECT_EQ(found(padded, 16, acdb, 3), 0u);
}

TEST(MaxPool, NativeIndicesFollowStorageOrder) {
  for (const std::int64_t storage_order : {0, 1}) {
    const Attributes attributes{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"storage_order", storage_order}};
    const KernelRequest request{"MaxPool", &attributes, {operand(DType::float64, {1, 1, 2, 4})},
                                {operand(DType::float64, {1, 1, 1, 2}), operand(DType::int64, {1, 1, 1, 2})}, {}, {}};
    EXPECT_TRUE(onednn::describe_max_pool(request).empty());
    std::vector<Buffer> y =
        run(native::describe_max_pool(request)[0], {Buffer(operand(DType::float64, {1, 1, 2, 4}, abcd), {0, 9, 1, 2, 3, 4, 7, 5})});
    EXPECT_EQ(y[0].values(), (Values{9, 7}));
    EXPECT_EQ(y[1].values(), storage_order ? (Values{2, 5}) : (Values{1, 6}));
  }
}

}  // namespace

}  // namespace tandem::dense_tests
