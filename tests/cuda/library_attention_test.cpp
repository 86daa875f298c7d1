// Which attention cuDNN's fused engines take, for an H200 that is not here, and that what they do not compute is left to our own kernel.
#include <gtest/gtest.h>

#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t samples = 4, heads = 6, queries = 256, keys = 320, width = 64;

struct Row {
  const char* name;
  bool taken;
  Attributes attributes = {};
  Shape mask = {};
  DType mask_type = DType::float32;
  std::int64_t key_heads = heads, head_width = width;
  bool random = false;
  DType dtype = DType::bfloat16;
};
const Attributes causal{{"causal", std::int64_t{1}}};
const Row rows[] = {
    {"plain", true},
    {"in_float16", true, {}, {}, DType::float32, heads, width, false, DType::float16},
    {"causal", true, causal},
    {"padded_by_numbers", true, {}, {samples, 1, 1, keys}},
    {"biased_by_heads", true, {}, {1, heads, queries, keys}},
    {"causal_and_padded", true, causal, {samples, 1, 1, keys}},
    {"of_wide_heads", true, {}, {}, DType::float32, heads, 128},
    {"masked_by_booleans", false, {}, {1, 1, queries, keys}, DType::boolean},
    {"guarded", false, {{"guarded", std::int64_t{1}}}, {samples, 1, 1, keys}},
    {"causal_from_an_offset", false, {{"causal", std::int64_t{1}}, {"offset", std::int64_t{64}}}},
    {"with_shared_keys", false, {}, {}, DType::float32, heads / 2},
    {"of_odd_heads", false, {}, {}, DType::float32, heads, 60},
    {"dropped", false, {{"ratio", 0.1F}}, {}, DType::float32, heads, width, true},
    {"in_float32", false, {}, {}, DType::float32, heads, width, false, DType::float32},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class LibraryAttention : public testing::TestWithParam<Row> {};

TEST_P(LibraryAttention, IsWhatCudnnComputesAlike) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const Row& row = GetParam();
  Attributes a = row.attributes;
  a.set("scale", 0.125F);
  const Operand q{row.dtype, {samples, heads, queries, row.head_width}, Layout("acbd")},
      k{row.dtype, {samples, row.key_heads, keys, row.head_width}, Layout("acbd")}, log_sum{DType::float32, {samples, heads, queries}, {}};
  std::vector<Operand> more;  // mask and random numbers
  if (row.mask.rank() > 0) more.push_back({row.mask_type, row.mask, {}});
  if (row.random) more = {{}, {DType::int64, {4}, {}}};
  const auto with = [&](std::vector<Operand> inputs) {
    inputs.insert(inputs.end(), more.begin(), more.end());
    return inputs;
  };
  const KernelRequest requests[] = {{"AttentionTraining", &a, with({q, k, k}), {q, log_sum}, {}, {}},
                                    {"AttentionTraining", &a, with({q, k, k}), {q}, {}, {}},
                                    {"AttentionBackward", &a, with({q, k, k, q, log_sum, q}), {q, k, k}, {}, {}}};
  for (const KernelRequest& request : requests) {
    const std::vector<KernelDescription> found = backend->describe(request);
    // cuDNN's gradient is wrong where numbers mask what is causal.
    const bool taken = row.taken && !(request.op == "AttentionBackward" && row.mask.rank() > 0 && a.has("causal"));
    ASSERT_EQ(found.size(), taken ? 2U : 1U) << request.op << ' ' << request.outputs.size();
    EXPECT_TRUE(found.back().kernel.starts_with("native.attention")) << found.back().kernel;
    if (!taken) continue;
    EXPECT_TRUE(found[0].kernel.starts_with("cudnn.attention")) << found[0].kernel;
    // Either pass may run on either kernel.
    EXPECT_EQ(found[0].inputs, found[1].inputs);
    EXPECT_EQ(found[0].outputs, found[1].outputs);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, LibraryAttention, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
