// Every kind of exchange between GPUs and devices whose memory is the host's: the GPUs copy what they give and get. Over the stand-in for
// the CUDA runtime.
#include "kernels/cuda/collectives/staged_exchange.h"

#include <gtest/gtest.h>

#include "kernels/mixed_group.h"
#include "tests/cuda/nccl/stand_in.h"
#include "tests/kernels/exchange_rows.h"

namespace tandem::cuda {
namespace {

using namespace test;

// A device of one kind or the other, as far as a group asks.
class SomeBackend final : public Backend {
 public:
  explicit SomeBackend(bool gpu) : gpu_(gpu) {}
  std::string name() const override { return gpu_ ? "cuda" : "cpu"; }
  std::string version() const override { return ""; }
  std::string unusable() const override { return ""; }
  int device_count() const override { return 8; }
  DeviceModel model(int, int) const override { return {}; }
  std::vector<KernelRow> rows() const override { return {}; }
  std::vector<KernelDescription> describe(const KernelRequest&) const override { return {}; }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<Device> open(int, const KernelOptions&) const override { return nullptr; }
  std::unique_ptr<Kernel> staged(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes) const override {
    return gpu_ ? staged_exchange(std::move(exchange), bytes) : std::move(exchange);
  }

 private:
  const bool gpu_;
};

class StagedExchanges : public testing::TestWithParam<ExchangeRow> {};

TEST_P(StagedExchanges, GiveEachMemberItsValues) {
  const SomeBackend gpu(true), host(false);
  std::vector<const Backend*> backends;
  for (int r = 0; r < exchange_ranks; ++r) backends.push_back(r % 2 == 0 ? &gpu : &host);
  const auto group = mixed_group({.devices = std::vector<int>(exchange_ranks, 0), .timeout_seconds = 30}, backends);
  EXPECT_FALSE(group->captures());
  expect_values(*group, GetParam(), 3, [](Kernel& kernel) {
    CUstream_st stream;
    kernel.run({&stream});
  });
}
INSTANTIATE_TEST_SUITE_P(Rows, StagedExchanges, testing::ValuesIn(exchange_rows()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::cuda
