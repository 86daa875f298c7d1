// Every kernel of the CUDA backend on a GPU, against the CPU backend in float64. Skipped where there is none.
#include "tests/cuda/cases.h"
#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

constexpr int rounds = 2;

class GpuKernels : public testing::TestWithParam<NamedCase> {};

TEST_P(GpuKernels, AgreeWithTheCpu) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const std::unique_ptr<Device> device = backend->open(0, {});
  device->activate();
  const CaseRow& row = GetParam().row;
  std::mt19937 random(4321);
  for (int round = 0; round < rounds; ++round) {
    const Comparison c = row.make(random);
    for (const DType dtype : row.dtypes)
      for (const std::string& layout : row.layouts)
        expect_same_on(*device, [&](const KernelRequest& r) { return backend->describe(r); }, c, dtype, Layout(layout));
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, GpuKernels, testing::ValuesIn(all_cases(false)), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::cuda
