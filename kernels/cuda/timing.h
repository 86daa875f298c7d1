// How long a kernel takes in the middle of a step.
#pragma once
#include <map>

#include "kernels/device.h"
#include "kernels/timed_operands.h"

namespace tandem::cuda {

// Times kernels of one device, one after another. Its stream, its memory and its noise stay from kernel to kernel.
class KernelTimer {
 public:
  KernelTimer(std::unique_ptr<Device> device, std::int64_t cache_bytes);
  ~KernelTimer();
  // Seconds of one run: on noise (numbers that are all alike take less power, and so less time; of integers see timed_integers; others are
  // zeros), started by a graph with nothing in
  // between, over copies of the operands so many that twice the cache's bytes lie between two uses of one, 16 at most: operands
  // smaller than that come from the cache in a step, too. Infinite where the kernel cannot be captured: no step with it could be.
  // Fails (device) where it cannot be run.
  Timing time(const KernelDescription& description);

 private:
  struct Set;
  struct Block {
    std::byte* memory = nullptr;
    std::int64_t bytes = 0, used = 0;
  };
  Set set_of(const KernelDescription& description);
  std::byte* take(std::int64_t bytes);
  std::byte* filled(const Operand& operand, const TimedIntegers& integers);
  const Block& noise(DType dtype, const TimedIntegers& integers);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::int64_t cache_bytes_;
  std::vector<Block> blocks_;
  std::map<std::pair<DType, TimedIntegers>, Block> noise_;
};

}  // namespace tandem::cuda
