// A GPU as the runtime drives it, over a stand-in for the CUDA runtime: what it asks for, and what it does where that is refused.
#include "kernels/cuda/device.h"

#include <gtest/gtest.h>

#include "tests/cuda/device/stand_in.h"

namespace tandem::cuda {
namespace {

using test::runtime::calls;

class CudaDevices : public testing::Test {
 protected:
  std::unique_ptr<CapturedGraph> capture() {
    device->begin_capture(*stream);
    return device->end_capture(*stream);
  }
  const bool fresh = (calls() = {}, true);
  std::unique_ptr<Device> device = open_device(0);
  std::unique_ptr<Stream> stream = device->create_stream(0);
};

// Machines that do not let NCCL map memory (containers) sum through NCCL's own buffers.
TEST_F(CudaDevices, SumInAnyMemoryWhereNcclHasNone) {
  EXPECT_NE(device->allocate_summed(100), nullptr);
  EXPECT_EQ(calls().summed, 1);
  calls().registrable = false;
  std::byte* const memory = device->allocate_summed(100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  EXPECT_EQ(memory[99], std::byte{0});
  EXPECT_EQ(calls().allocated, 1);
  calls().memory_left = false;
  EXPECT_THROW(device->allocate_summed(100), Error);
}

// A graph has the priority of the stream that starts it unless its nodes have their own: sums would lose theirs.
TEST_F(CudaDevices, ReplayKernelsWithTheirStreamsPriorities) {
  device->create_stream(1);
  EXPECT_EQ(calls().priorities, (std::vector<int>{0, -5}));
  const std::unique_ptr<CapturedGraph> graph = capture();
  EXPECT_EQ(calls().capture_mode, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(calls().graph_flags, static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority));
  graph->launch(*stream);
  EXPECT_EQ(calls().launches, 1);
}

// A thread that spins for each GPU leaves nobody a core where there are as many GPUs as cores.
TEST_F(CudaDevices, SleepWhileTheyWaitWhereCoresAreFew) {
  constexpr unsigned spins = cudaEventDisableTiming, sleeps = spins | cudaEventBlockingSync;
  for (const auto& [devices, flags] : {std::pair{0, spins}, {100000, sleeps}}) {
    calls().devices = devices;
    open_device(0)->create_event();
    EXPECT_EQ(calls().event_flags, flags) << devices;
  }
}

TEST_F(CudaDevices, RunAheadAndTellOfWorkThatFailed) {
  EXPECT_TRUE(device->runs_ahead());
  const std::unique_ptr<Event> event = device->create_event();
  stream->record(*event);
  event->synchronize();
  calls().device_lost = true;
  EXPECT_THROW(event->synchronize(), Error);
}

}  // namespace
}  // namespace tandem::cuda
