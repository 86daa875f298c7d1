#include "trainer/checkpoint.h"

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "tests/trainer/flipped_bits.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/records/run_folder.h"

namespace tandem {
namespace {

Checkpoint sample() {
  return {.state = Json::Object{{"step", 12}, {"loss", 0.1}},
          .weights = {{"a/b c.w", Tensor::of<float>({2, 2}, {1, -2, 0.1f, 1e-30f})}, {"n", Tensor::of<std::int64_t>({1}, {7})}},
          .optimizer = {{"momentum/a/b c.w", Tensor::of<float>({2, 2}, {5, 6, 7, 8})}}};
}

TEST(CheckpointFile, RoundTripsBitByBit) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", sample());
  const Checkpoint back = read_checkpoint(folder / "c");
  EXPECT_EQ(back.state.at("step").integer(), 12);
  EXPECT_EQ(back.state.at("loss").number(), 0.1);
  ASSERT_EQ(back.weights.size(), 2u);
  ASSERT_EQ(back.optimizer.size(), 1u);
  EXPECT_EQ(back.weights[0].name, "a/b c.w");
  EXPECT_TRUE(std::ranges::equal(back.weights[0].tensor.values<float>(), sample().weights[0].tensor.values<float>()));
  EXPECT_EQ(back.optimizer[0].name, "momentum/a/b c.w");
}

TEST(CheckpointFile, DamageIsFoundAndNothingElseIsTaken) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", sample());
  std::string bytes = read_file(folder / "c");
  expect_error(ExitCode::data, "truncated", [&] { read_checkpoint(folder.write("cut", bytes.substr(0, bytes.size() - 30))); });
  bytes[bytes.find("a/b c.w") + 160] ^= 4;
  expect_error(ExitCode::data, "damaged", [&] { read_checkpoint(folder.write("flipped", bytes)); });
  expect_error(ExitCode::io, "cannot be read", [&] { read_checkpoint(folder / "missing"); });
}

// Any number may stand in a header: none of them overflows.
TEST(CheckpointFile, OffsetsFitTheirTensors) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", sample());
  const std::string good = read_file(folder / "c"), offsets = "\"data_offsets\":[16,24]";
  for (const char* wrong : {"[16,-9223372036854775808]", "[16,23]", "[16,16]", "[0,8]", "[-9223372036854775808,24]", "[16]"}) {
    std::string bytes = good;
    bytes.replace(bytes.find(offsets), offsets.size(), concat("\"data_offsets\":", wrong));
    const std::uint64_t added = bytes.size() - good.size();
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    length += added;
    std::memcpy(bytes.data(), &length, sizeof length);
    expect_error(ExitCode::data, "data_offsets do not fit its type and place", [&] { read_checkpoint(folder.write("wrong", bytes)); });
  }
}

TEST(CheckpointFile, NoBitCanChange) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", sample());
  for_each_flipped_bit(read_file(folder / "c"), [&](const std::string& bytes) {
    EXPECT_THROW(read_checkpoint(folder.write("flipped", bytes)), Error);
  });
}

// A quarter of a MiB is not held while nobody asks for it; bits that change behind it are found while it is not.
TEST(CheckpointFile, LargeValuesStayInTheFile) {
  const TemporaryFolder folder;
  Tensor large(TensorType{DType::float32, Shape{1 << 16}});
  large.write<float>()[(1 << 16) - 1] = 3;
  Checkpoint checkpoint = sample();
  checkpoint.weights.push_back({"large", large});
  write_checkpoint(folder / "c", checkpoint);
  const Checkpoint back = read_checkpoint(folder / "c");
  ASSERT_EQ(back.weights.size(), 3u);
  EXPECT_FALSE(back.weights[2].tensor.in_memory());
  EXPECT_TRUE(back.weights[2].tensor == large);
  EXPECT_TRUE(back.weights[0].tensor == checkpoint.weights[0].tensor);
  std::string bytes = read_file(folder / "c");
  bytes[bytes.size() - 1000] ^= 1;
  expect_error(ExitCode::data, "damaged", [&] { read_checkpoint(folder.write("flipped", bytes)); });
}

// It is read value by value long after it was opened, and may be replaced by the next meanwhile.
TEST(CheckpointFile, MayBeReplacedWhileItIsRead) {
  const TemporaryFolder folder;
  Checkpoint checkpoint = sample();
  checkpoint.weights.push_back({"large", Tensor(TensorType{DType::float32, Shape{1 << 16}})});
  write_checkpoint(folder / "c", checkpoint);
  const Checkpoint back = read_checkpoint(folder / "c");
  write_checkpoint(folder / "c", sample());
  EXPECT_TRUE(back.weights[2].tensor == checkpoint.weights[2].tensor);
}

TEST(CheckpointFile, AFailedWriteLeavesTheEarlierOne) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", sample());
  {
    const Json state = Json::Object{};
    int asked = 0;
    const EachTensor breaks = [&](const Session::Visit& visit) {
      if (++asked == 2) throw std::runtime_error("in the midst of writing");
      visit(sample().weights[0]);
    };
    EXPECT_THROW(write_checkpoint(folder / "c", state, breaks, [](const Session::Visit&) {}), std::runtime_error);
    EXPECT_EQ(asked, 2);
  }
  EXPECT_EQ(read_checkpoint(folder / "c").state.at("step").integer(), 12);
}

TEST(Metrics, CsvHasARowAnEpoch) {
  const std::vector<EpochReport> epochs{
      {.epoch = 1, .step = 10, .loss = 0.5, .learning_rate = 0.1, .seconds = 2, .samples_per_second = 100}};
  EXPECT_EQ(csv_of(epochs),
            "epoch,step,loss,accuracy,val_loss,val_accuracy,learning_rate,seconds,samples_per_second\n1,10,0.5,,,,0.1,2,100\n");
  const EpochReport back = epoch_report(json_of(epochs[0]));
  EXPECT_EQ(back.step, 10);
  EXPECT_EQ(back.loss, 0.5);
  EXPECT_TRUE(std::isnan(back.val_accuracy));
}

TEST(LossTraceOfALongRun, IsNotTakenWhereItsCountsCannotBe) {
  const auto with = [](std::int64_t window, std::size_t means, std::int64_t count) {
    return Json(Json::Object{{"window", window}, {"means", Json::Array(means, Json(0.5))}, {"sum", 0.0}, {"count", count}});
  };
  EXPECT_EQ(LossTrace::from(with(4, 399, 3)).points().size(), 399u);
  for (const Json& bad : {with(0, 1, 0), with(-1, 1, 0), with(INT64_MAX, 1, 0), with(4, 400, 0), with(4, 1, 4), with(4, 1, -1)})
    EXPECT_THROW(LossTrace::from(bad), Error) << bad.dump();
}

TEST(LossTraceOfALongRun, StaysSmallAndKeepsItsMean) {
  LossTrace trace;
  for (int i = 0; i < 10000; ++i) trace.add(i);
  const auto points = trace.points();
  EXPECT_LE(points.size(), 400u);
  EXPECT_GE(points.size(), 150u);
  for (const auto& [step, loss] : points) EXPECT_NEAR(loss, step - 0.5, 1e-6);  // the mean of its window's steps
  EXPECT_EQ(LossTrace::from(Json::parse(trace.json().dump())).points(), points);
}

}  // namespace
}  // namespace tandem
