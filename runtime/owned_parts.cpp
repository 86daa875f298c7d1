#include "runtime/owned_parts.h"

#include <algorithm>

namespace tandem {

std::vector<OwnedPart> owned_parts(const Plan& plan, int ranks) {
  const int devices_of_a_rank = static_cast<int>(std::ssize(plan.devices)) / ranks;
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks));
  std::vector<OwnedPart> owned;
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != ValueRole::plain && p.role != ValueRole::optimizer_state) continue;
    const std::vector<ParameterPart> parts = plan.parts_of(p);
    const bool whole = std::ranges::any_of(parts, &ParameterPart::is_whole);  // then no part of it is wanted
    const std::size_t first = owned.size();
    for (const ParameterPart& part : parts) {
      if (part.is_whole() != whole || (part.operand.shape.elements() == 0 && p.type.shape.elements() > 0)) continue;
      const int rank = part.device / devices_of_a_rank;
      const auto same = [&](const OwnedPart& o) { return o.part.same_ranges(part); };
      const auto found = std::find_if(owned.begin() + static_cast<std::ptrdiff_t>(first), owned.end(), same);
      if (found == owned.end())
        owned.push_back({&p, part, rank});
      else if (bytes[static_cast<std::size_t>(rank)] < bytes[static_cast<std::size_t>(found->rank)])
        *found = {&p, part, rank};
    }
    for (std::size_t i = first; i < owned.size(); ++i) bytes[static_cast<std::size_t>(owned[i].rank)] += owned[i].part.operand.bytes();
  }
  return owned;
}

}  // namespace tandem
