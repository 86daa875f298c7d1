// What backends share that need nothing of their own: sums over devices whose buffers are host memory.
#include "kernels/device.h"

#include "kernels/host_group.h"

namespace tandem {

std::unique_ptr<CollectiveGroup> Backend::create_group(const GroupSpec& spec) const {
  if (spec.world) return host_group(spec);
  return in_process_group(static_cast<int>(spec.devices.size()), spec.timeout_seconds);
}

}  // namespace tandem
