// Each kernel of our own, run on the host, against the CPU backend's kernel on random shapes.
#include "tests/cuda/cases.h"

namespace tandem::cuda {
namespace {

constexpr int rounds = 3;  // random cases of each row

class NativeKernels : public testing::TestWithParam<NamedCase> {};

TEST_P(NativeKernels, AgreeWithTheCpu) {
  const CaseRow& row = GetParam().row;
  std::mt19937 random(1234);
  for (int round = 0; round < rounds; ++round) {
    const Comparison c = row.make(random);
    for (const DType dtype : row.dtypes)
      for (const std::string& layout : row.layouts) expect_same(c, dtype, Layout(layout));
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, NativeKernels, testing::ValuesIn(all_cases(true)), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::cuda
