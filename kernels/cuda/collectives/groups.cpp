// Chooses who sums: NCCL where each rank has a GPU of its own, our own kernel where ranks of this process share one.
#include "kernels/cuda/collectives/groups.h"

#include <set>

#include "kernels/cuda/collectives/local_group.h"
#include "kernels/cuda/collectives/nccl_group.h"

namespace tandem::cuda {

std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) {
  const std::set<int> gpus(spec.devices.begin(), spec.devices.end());
  const int here = static_cast<int>(spec.devices.size());
  const bool several_processes = spec.ranks > here;
  if (!several_processes && gpus.size() == 1 && here > 1) return local_group(here, spec.timeout_seconds);
  // NCCL refuses several ranks of one process on a GPU.
  if (static_cast<int>(gpus.size()) != here)
    fail(ExitCode::device, "several ranks of a process share a GPU, and not all of them: give each its own, or all the same");
  return nccl_group(spec);
}

}  // namespace tandem::cuda
