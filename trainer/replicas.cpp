#include "trainer/replicas.h"

#include <algorithm>

namespace tandem {

void check_replicas(const Session& session, World* world, std::int64_t step) {
  const Plan& plan = session.plan();
  const std::size_t devices = plan.devices.size(), parameters = plan.parameters.size();
  if (devices == 1) return;
  const DeviceRange range = devices_of(world, static_cast<int>(devices));
  std::vector<std::uint32_t> sums(devices * parameters);  // by device and parameter
  const std::vector<std::vector<std::uint32_t>> own = session.parameter_checksums();
  for (std::size_t d = 0; d < own.size(); ++d)
    std::copy(own[d].begin(), own[d].end(), sums.begin() + static_cast<std::ptrdiff_t>((static_cast<std::size_t>(range.first) + d) * parameters));
  if (world) world->gather(std::as_writable_bytes(std::span(sums)));

  const auto name = [&](std::size_t d) {
    return concat(plan.devices[d].device, world ? concat(" of rank ", d / static_cast<std::size_t>(range.count)) : "");
  };
  for (std::size_t p = 0; p < parameters; ++p) {
    const auto sum = [&](std::size_t d) { return sums[d * parameters + p]; };
    const auto others_like = [&](std::size_t d) {
      std::size_t count = 0;
      for (std::size_t other = 0; other < devices; ++other) count += sum(other) == sum(d);
      return count;
    };
    std::size_t usual = 0;  // the first of those that most devices agree with
    for (std::size_t d = 1; d < devices; ++d)
      if (others_like(d) > others_like(usual)) usual = d;
    for (std::size_t d = 0; d < devices; ++d)
      if (sum(d) != sum(usual))
        fail(ExitCode::device, "the replicas differ after step ", step, ": parameter '", plan.parameters[p].name, "' of ", name(d),
             " is not that of ", name(usual), others_like(usual) > 1 ? concat(" and of ", others_like(usual) - 1, " more") : "",
             "; memory or a device is at fault. What checkpoints hold was compared: go on from the last by option resume");
  }
}

}  // namespace tandem
