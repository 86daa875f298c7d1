// How many blocks share a sum goes by the device that a plan is for, and by nothing else; what 32-bit indexes do not count is declined.
#include <gtest/gtest.h>

#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/reduce.h"
#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

TEST(Grids, GoByTheMultiprocessorsOfThePlansDevice) {
  const Shape x{64, 8, 100, 100}, c{8};
  const Operand like_x{DType::bfloat16, x, Layout::channels_last(4)}, like_c{DType::float32, c, Layout::row_major(1)};
  const Attributes sum{{"axes", Ints{0, 2, 3}}, {"keepdims", std::int64_t{0}}}, epsilon{{"epsilon", 1e-5F}},
      of_rows{{"axis", std::int64_t{1}}, {"epsilon", 1e-5F}};
  const Operand rows{DType::bfloat16, {4000, 64}, Layout::row_major(2)}, row{DType::float32, {64}, Layout::row_major(1)},
      statistic{DType::float32, {4000, 1}, Layout::row_major(2)};
  const KernelRequest requests[] = {
      {.op = "ReduceSum", .attributes = &sum, .inputs = {like_x}, .outputs = {{DType::bfloat16, c, {}}}},
      {.op = "BatchNormalizationTraining", .attributes = &epsilon, .inputs = {like_x, like_c, like_c}, .outputs = {like_x, like_c, like_c, {DType::uint8, Shape{0}, {}}}},
      {.op = "RowNormalizationBackward", .attributes = &of_rows, .inputs = {rows, rows, row, statistic, statistic}, .outputs = {rows, row, row}},
  };
  for (KernelRequest request : requests) {
    const auto workspace = [&](int multiprocessors) {
      request.options.multiprocessors = multiprocessors;
      return describe_emulated(request).at(0).workspace;
    };
    EXPECT_EQ(workspace(0), workspace(132)) << request.op << ": an H200's where nothing is said";
    EXPECT_LT(workspace(132), workspace(148)) << request.op;
  }
}

// Each block leaves a sum of every column of scale and bias, and a warp a row leaves its multiprocessor one block.
TEST(Grids, RowsOfAWarpAreSummedByABlockOfEachMultiprocessor) {
  const Attributes of_rows{{"axis", std::int64_t{1}}, {"epsilon", 1e-5F}};
  for (const std::int64_t n : {64, 512, 768, 1024}) {
    const Operand rows{DType::float32, {32768, n}, Layout::row_major(2)}, row{DType::float32, {n}, Layout::row_major(1)},
        statistic{DType::float32, {32768, 1}, Layout::row_major(2)}, dy{DType::bfloat16, {32768, n}, Layout::row_major(2)};
    KernelRequest request{.op = "RowNormalizationBackward",
                          .attributes = &of_rows,
                          .inputs = {dy, rows, row, statistic, statistic, rows},
                          .outputs = {rows, row, row}};
    request.options.multiprocessors = 132;
    EXPECT_EQ(describe_emulated(request).at(0).workspace, 132 * 2 * n * 4) << n;
  }
}

// A split without rows would begin behind the last row, and whatever reads its first row would read behind the tensor.
TEST(Grids, EverySplitOfAChannelHasRows) {
  for (const std::int64_t batch : {1, 3, 64, 104, 208, 256, 416})
    for (const std::int64_t channels : {8, 40, 64, 128, 256, 512, 2048})
      for (const std::int64_t pixels : {1, 49, 196, 784, 1320, 3136})
        for (const int multiprocessors : {108, 132, 148}) {
          const ChannelTiles tiles = tiles_of({1, batch * pixels, channels, multiprocessors}, 8);
          EXPECT_GT(tiles.rows_of(tiles.splits - 1), 0) << batch << " samples, " << channels << " channels, " << pixels << " pixels";
        }
}

TEST(Grids, SumsOfMoreThanIndexesCountAreDeclined) {
  const auto dy = [](std::int64_t samples) { return Operand{DType::bfloat16, {samples, 64, 32, 32}, Layout::channels_last(4)}; };
  EXPECT_TRUE(plan_channel_sum(dy(32767), {}));
  EXPECT_FALSE(plan_channel_sum(dy(32768), {})) << "2^31 elements";
}

// How often BatchNormalization moves its operands, of numbers of one channels-last shape: what it reads, writes and reads again.
TEST(Grids, NormalizationsSayHowOftenTheyMoveTheirOperands) {
  const Shape x{64, 8, 10, 10}, c{8};
  const Operand like_x{DType::bfloat16, x, Layout::channels_last(4)}, like_c{DType::float32, c, Layout::row_major(1)},
      kept{DType::float32, c, Layout("opaque:inverse_deviation")}, opaque{DType::uint8, Shape{0}, {}};
  const Attributes plain{{"epsilon", 1e-5F}}, relu{{"epsilon", 1e-5F}, {"activation", std::string("Relu")}};
  const auto passes = [](std::string_view op, const Attributes& a, std::vector<Operand> inputs, std::vector<Operand> outputs) {
    return describe_emulated({.op = op, .attributes = &a, .inputs = std::move(inputs), .outputs = std::move(outputs)}).at(0).passes;
  };
  const std::vector<Operand> y{like_x, like_c, like_c, opaque}, dx{like_x, like_c, like_c}, dx_and_addend{like_x, like_c, like_c, like_x};
  const std::string_view forward = "BatchNormalizationTraining", backward = "BatchNormalizationBackward";
  EXPECT_DOUBLE_EQ(passes(forward, plain, {like_x, like_c, like_c}, y), 3.0 / 2);
  EXPECT_DOUBLE_EQ(passes(forward, plain, {like_x, like_c, like_c, like_x}, y), 4.0 / 3);
  EXPECT_DOUBLE_EQ(passes(forward, plain, {like_x, like_c, like_c, {}, like_c, like_c}, y), 1);
  EXPECT_DOUBLE_EQ(passes(backward, relu, {like_x, like_x, like_c, like_c, like_c, {}, kept}, dx), 5.0 / 3);
  EXPECT_DOUBLE_EQ(passes(backward, relu, {like_x, like_x, like_c, like_c, like_c, {}, kept, like_x}, dx_and_addend), 7.0 / 5);
}

}  // namespace
}  // namespace tandem::cuda
