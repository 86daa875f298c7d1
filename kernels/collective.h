// Sums over devices. A group is made once for all ranks of a plan; each rank takes its kernels from it and runs them
// on its own communication stream, all ranks in the same order.
#pragma once
#include <memory>

#include "kernels/kernel.h"

namespace tandem {

class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;
  // In place: afterwards every rank's buffer holds the element-wise sum over all ranks, bitwise the same on each.
  // `channel` numbers the plan's all-reduces. bind() takes the buffer as input 0 and output 0.
  virtual std::unique_ptr<Kernel> all_reduce(int rank, int channel, std::int64_t elements, DType dtype) = 0;
  // Whether its kernels may be part of a recorded step: they wait on the device alone, and the group learns from the two
  // calls when a step of a rank is under way. Both fail (communication) where the group has stopped.
  virtual bool captures() const { return false; }
  virtual void begin_step(int) {}
  virtual void end_step(int) {}
  // Wakes every rank that waits, which then fail (communication) with this reason.
  virtual void abort(const std::string& reason) = 0;
};

// Ranks are threads of this process whose buffers are host memory. Deterministic: every element is summed once, in
// rank order. Waits longer than the timeout fail naming the rank that is missing.
std::unique_ptr<CollectiveGroup> in_process_group(int ranks, double timeout_seconds);

}  // namespace tandem
