// The group of logical devices of one GPU, over the stand-in for the CUDA runtime, whose streams do at once what is queued.
#include "kernels/cuda/collectives/local_group.h"

#include <gtest/gtest.h>

#include "tests/cuda/nccl/stand_in.h"
#include "tests/kernels/exchange_rows.h"

namespace tandem::cuda {
namespace {

using namespace test;

class LocalExchanges : public testing::TestWithParam<ExchangeRow> {};

TEST_P(LocalExchanges, GiveEachMemberItsValues) {
  expect_values(*local_group(exchange_ranks, 30), GetParam(), 3, [](Kernel& kernel) {
    CUstream_st stream;
    kernel.run({&stream});
  });
}
INSTANTIATE_TEST_SUITE_P(Rows, LocalExchanges, testing::ValuesIn(exchange_rows()), [](const auto& info) { return info.param.name; });

// The group is ended by a thread that used no device.
TEST(LocalGroup, EndsOnTheDeviceThatItUsed) {
  nccl::reset();
  cudaSetDevice(1);
  auto group = local_group(2, 30);
  group->make({ExchangeKind::all_reduce, {0, 1}, 4}, 0);
  cudaSetDevice(0);
  group.reset();
  EXPECT_EQ(nccl::misuses(), 0) << nccl::misuse();
  cudaSetDevice(0);
}

TEST(LocalGroup, SaysWhatIsWrong) {
  const auto group = local_group(3, 30);
  const auto reason = [&](const ExchangeSpec& spec, int rank) -> std::string {
    try {
      group->make(spec, rank);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      return e.what();
    }
  };
  EXPECT_EQ(reason({ExchangeKind::reduce, {0, 2}, 4}, 1), "reduce among 2 logical devices: rank 1 is no member");
  EXPECT_EQ(reason({ExchangeKind::all_reduce, {0, 2}, 4, DType::int64}, 0),
            "all_reduce among 2 logical devices: expected a floating-point type, got int64");
  EXPECT_EQ(reason({ExchangeKind::reduce, {0, 2}, 4, DType::float32, {}, 7}, 0), "");
  EXPECT_EQ(reason({ExchangeKind::reduce, {0, 2}, 5, DType::float32, {}, 7}, 2),
            "reduce among 2 logical devices: ranks make different exchanges of one channel");
}

}  // namespace
}  // namespace tandem::cuda
