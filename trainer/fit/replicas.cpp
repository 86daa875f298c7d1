#include "trainer/fit/replicas.h"

#include "base/option.h"

#include <algorithm>

namespace tandem {
namespace {

// Devices that keep the same of a parameter.
std::vector<std::vector<std::size_t>> replicas_of(const Plan& plan, const PlanParameter& parameter) {
  std::vector<std::vector<std::size_t>> groups;
  const std::vector<ParameterPart> all = plan.parts_of(parameter);
  std::vector<const ParameterPart*> parts;  // of each group
  for (const ParameterPart& part : all) {
    const auto like = std::find_if(parts.begin(), parts.end(), [&](const ParameterPart* other) { return other->alike(part); });
    const auto group = static_cast<std::size_t>(like - parts.begin());
    if (like == parts.end()) {
      parts.push_back(&part);
      groups.emplace_back();
    }
    groups[group].push_back(static_cast<std::size_t>(part.device));
  }
  return groups;
}

}  // namespace

void check_replicas(const Session& session, World* world, std::int64_t step) {
  const Plan& plan = session.plan();
  const std::size_t devices = plan.devices.size(), parameters = plan.parameters.size();
  if (devices == 1) return;
  const DeviceRange range = devices_of(world, static_cast<int>(devices));
  std::vector<std::uint32_t> sums(devices * parameters);  // by device and parameter
  const std::vector<std::vector<std::uint32_t>> own = session.parameter_checksums();
  for (std::size_t d = 0; d < own.size(); ++d)
    std::copy(own[d].begin(), own[d].end(),
              sums.begin() + static_cast<std::ptrdiff_t>((static_cast<std::size_t>(range.first) + d) * parameters));
  if (world) world->gather(std::as_writable_bytes(std::span(sums)));

  const auto name = [&](std::size_t d) {
    return concat(plan.devices[d].device, world ? concat(" of rank ", d / static_cast<std::size_t>(range.count)) : "");
  };
  for (std::size_t p = 0; p < parameters; ++p) {
    const auto sum = [&](std::size_t d) { return sums[d * parameters + p]; };
    for (const std::vector<std::size_t>& replicas : replicas_of(plan, plan.parameters[p])) {
      const auto others_like = [&](std::size_t d) {
        return std::count_if(replicas.begin(), replicas.end(), [&](std::size_t other) { return sum(other) == sum(d); });
      };
      std::size_t usual = replicas[0];  // the first of those that most devices agree with
      for (const std::size_t d : replicas)
        if (others_like(d) > others_like(usual)) usual = d;
      for (const std::size_t d : replicas) {
        if (sum(d) == sum(usual)) continue;
        fail(ExitCode::device, "the replicas differ after step ", step, ": parameter '", plan.parameters[p].name, "' of ", name(d),
             " is not that of ", name(usual), others_like(usual) > 1 ? concat(" and of ", others_like(usual) - 1, " more") : "",
             "; memory or a device is at fault. What checkpoints hold was compared: go on from the last by ", option("resume"));
      }
    }
  }
}

}  // namespace tandem
