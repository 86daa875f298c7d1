// CUDA's plans of images that are given as bytes, run on the host: the same losses and weights to the bit, in every precision, and a
// quarter of the batch is copied.
#include "tests/cuda/host_backend.h"
#include "tests/planner/given_bytes.h"

namespace tandem::cuda {
namespace {

using namespace small_models;

struct Row {
  const char* name;
  Precision precision;
  bool channels_last;
  int devices = 1;
  bool captures = false;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {
    {"fp32", Precision::fp32, true},         {"fp32_channels_first", Precision::fp32, false}, {"bf16", Precision::bf16, true}, {"bf16_channels_first", Precision::bf16, false},
    {"fp16", Precision::fp16, true},         {"captured", Precision::bf16, true, 1, true},    {"two_devices", Precision::bf16, true, 2},
};

class GivenBytesOnHost : public testing::TestWithParam<Row> {};

TEST_P(GivenBytesOnHost, TrainTheSameToTheBit) {
  const Row& row = GetParam();
  constexpr int steps = 3;
  constexpr std::int64_t batch = 6, image = channels_of_x * 64;
  CompileOptions o = options_for(batch, {});
  for (int d = 0; d < row.devices; ++d) o.devices.push_back({.id = {"cuda", 0}, .logical = d});
  o.precision = row.precision;
  o.layout = LayoutPreference::channels_last;
  const auto run = [&](std::int64_t& copied) {
    HostCudaBackend backend(false);
    backend.devices.captures = row.captures;
    const Trained trained = train_on_images(backend, normalized, o, steps, 0.05);
    copied = backend.devices.bytes_in;
    EXPECT_TRUE(backend.devices.guards_whole());
    return trained;
  };
  std::int64_t numbers = 0, bytes = 0;
  const Trained wanted = run(numbers);
  o.given_bytes["x"] = bytes_of_x(row.channels_last);
  const Trained got = run(bytes);
  EXPECT_EQ(got.losses, wanted.losses);
  expect_same_bits(got.replicas[0], wanted.replicas[0]);
  const std::int64_t tables = row.devices * channels_of_x * 256 * (row.precision == Precision::fp32 ? 4 : 2);
  EXPECT_EQ(numbers - bytes, steps * batch * image * 3 - tables);

  // From the batch to the convolution there is one kernel.
  std::vector<std::string> before;
  for (const Step& s : got.plan.program_of(0).steps) {
    if (s.op() == "Conv") break;
    const bool reads_weights = std::ranges::any_of(
        s.inputs, [&](BufferId b) { return b.present() && got.plan.program_of(0).buffers[b].arena == ArenaKind::parameters; });
    if (!s.op().empty() && !reads_weights) before.emplace_back(s.op());
  }
  EXPECT_EQ(before, (std::vector<std::string>{"LookUp"}));
}
INSTANTIATE_TEST_SUITE_P(Rows, GivenBytesOnHost, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
