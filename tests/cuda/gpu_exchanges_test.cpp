// Every kind of exchange among logical devices of a GPU. Skipped where there is none; the same on the host's emulation of devices, which
// tries the test itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/cuda/host_backend.h"
#include "tests/cuda/where.h"
#include "tests/kernels/exchange_rows.h"

namespace tandem::cuda {
namespace {

using test::ExchangeRow;
using test::Values;

// Device memory with such values; null where there are none.
std::vector<std::byte*> on_device(Device& device, Stream& stream, const Values& values) {
  if (values.empty()) return {};
  const std::int64_t bytes = std::ssize(values) * 4;
  std::byte* const memory = device.allocate(bytes);
  stream.copy_in(memory, reinterpret_cast<const std::byte*>(values.data()), bytes);
  return {memory};
}

void take_part(const Backend& backend, CollectiveGroup& group, const ExchangeRow& row, std::size_t m) {
  const std::unique_ptr<Device> device = backend.open(0, {});
  device->activate();
  const std::unique_ptr<Stream> stream = device->create_stream(1);
  const std::unique_ptr<Kernel> kernel = group.make(row.spec, row.spec.members[m]);
  const bool in_place = is_in_place(row.spec.kind);
  const std::vector<std::byte*> gets = on_device(*device, *stream, in_place ? row.gives[m] : Values(row.gets[m].size(), -1.0F));
  const std::vector<std::byte*> gives = in_place ? gets : on_device(*device, *stream, row.gives[m]);
  kernel->bind(gives, gets, nullptr);
  stream->launch(*kernel);
  Values got(row.gets[m].size());
  if (!got.empty()) stream->copy_out(reinterpret_cast<std::byte*>(got.data()), gets[0], std::ssize(got) * 4);
  stream->synchronize();
  EXPECT_EQ(got, row.gets[m]) << "member " << m;
}

class GpuExchanges : public testing::TestWithParam<std::tuple<Where, ExchangeRow>> {};

TEST_P(GpuExchanges, GiveEachMemberItsValues) {
  const auto& [where, row] = GetParam();
  std::string reason;
  static HostCudaBackend host(false);
  const Backend* const backend = where == Where::gpu ? cuda_module(reason) : &host;
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const auto group = backend->create_group({.devices = std::vector<int>(test::exchange_ranks, 0), .timeout_seconds = 30});
  std::vector<std::jthread> threads;
  for (std::size_t m = 0; m < row.spec.members.size(); ++m)
    threads.emplace_back([&, m] {
      try {
        take_part(*backend, *group, row, m);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "member " << m << ": " << e.what();
        group->abort(e.what());
      }
    });
}
INSTANTIATE_TEST_SUITE_P(Rows, GpuExchanges,
                         testing::Combine(testing::Values(Where::host, Where::gpu), testing::ValuesIn(test::exchange_rows())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Where::gpu ? "gpu_" : "host_") + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace tandem::cuda
