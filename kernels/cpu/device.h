// A CPU device: a share of the machine's cores. Stream 0 runs its work in the thread that queues it; every other
// stream has a thread of its own and a ring of commands, so that communication overlaps computation.
#pragma once
#include <utility>
#include <vector>

#include "kernels/cpu/numa.h"
#include "kernels/device.h"

namespace tandem {

class CpuDevice final : public Device {
 public:
  CpuDevice(int index, const KernelOptions& options);
  ~CpuDevice() override;
  void activate() override;
  std::byte* allocate(std::int64_t bytes) override;
  std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Stream> create_stream(int index) override;
  std::unique_ptr<Event> create_event() override;

 private:
  int index_;
  int threads_;
  std::vector<int> cores_;  // empty: not pinned, there are too few for every device to have its own
  std::vector<NumaNode> nodes_;  // of these cores, or of all; empty where the machine has one
  std::vector<std::pair<void*, std::size_t>> mappings_;
};

}  // namespace tandem
