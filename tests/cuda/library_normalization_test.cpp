// Which normalizations of rows cuDNN takes, for an H200 that is not here, beside our own kernels.
#include <gtest/gtest.h>

#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

constexpr DType wide = DType::float32, narrow = DType::bfloat16;

struct Row {
  const char* name;
  bool forward, backward;  // whether cuDNN takes them
  DType x = narrow, y = narrow;
  bool added = false, scaled = true, rms = false;
};
const Row rows[] = {
    {"layers", true, true},
    {"layers_of_float32", true, true, wide, wide},
    {"layers_of_float32_into_16_bits", true, true, wide, narrow},
    {"layers_behind_a_sum", true, false, wide, narrow, true},
    {"layers_behind_a_sum_in_16_bits", false, false, narrow, narrow, true},  // no engine
    {"layers_without_scale", false, false, narrow, narrow, false, false},
    {"mean_squares", true, true, narrow, narrow, false, true, true},
    {"mean_squares_behind_a_sum", true, false, wide, narrow, true, true, true},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class LibraryNormalization : public testing::TestWithParam<Row> {};

TEST_P(LibraryNormalization, IsOfferedBesideOurOwn) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const Row& row = GetParam();
  const Attributes a{{"axis", std::int64_t{2}}, {"epsilon", 1e-5F}, {"rms", std::int64_t{row.rms}}};
  const Operand x{row.x, {16, 128, 768}, {}}, y{row.y, {16, 128, 768}, {}}, each{wide, {16, 128, 1}, {}}, of_row{wide, {768}, {}}, absent;
  const Operand scale = row.scaled ? of_row : absent, bias = row.scaled && !row.rms ? of_row : absent;
  std::vector<Operand> inputs{x, scale, bias}, outputs{y, each, each}, gradient{y, x, scale, each, each}, gradients{x, scale};
  if (row.added) inputs.push_back(y), outputs.push_back(x), gradient.push_back(x);
  if (bias.present()) gradients.push_back(bias);
  for (const auto& [request, taken] : {std::pair{KernelRequest{"RowNormalization", &a, inputs, outputs, {}, {}}, row.forward},
                                       {KernelRequest{"RowNormalizationBackward", &a, gradient, gradients, {}, {}}, row.backward}}) {
    const std::vector<KernelDescription> found = backend->describe(request);
    ASSERT_EQ(found.size(), taken ? 2U : 1U) << request.op;
    EXPECT_TRUE(found.back().kernel.starts_with("native.")) << found.back().kernel;
    EXPECT_TRUE(!taken || found[0].kernel.starts_with("cudnn.row_normalization")) << found[0].kernel;
    EXPECT_EQ(found[0].inputs, found.back().inputs);
    EXPECT_EQ(found[0].outputs, found.back().outputs);
    EXPECT_TRUE(!taken || found[0].efficiency < 0.2) << "the estimate is bound by arithmetic, not by memory as ours";
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, LibraryNormalization, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
