#include "planner/plan/modules.h"

#include <algorithm>
#include <set>

#include "base/spec.h"

namespace tandem {
namespace {

// Whether a step writes what persists from step to step.
bool updates(const DeviceProgram& program, const Step& step) {
  return std::ranges::any_of(step.outputs, [&](BufferId id) {
    if (!id.present()) return false;
    const ArenaKind arena = program.buffers[id].arena;
    return arena == ArenaKind::parameters || arena == ArenaKind::optimizer;
  });
}

}  // namespace

std::vector<std::string> parts_of_name(std::string_view name) {
  const char separator = name.find('/') != std::string_view::npos ? '/' : '.';
  std::vector<std::string> parts;
  std::string before;  // exporters repeat the part before in the next: layer1/layer1.0
  for (std::string& part : split(name, separator)) {
    if (part.empty()) continue;
    const bool repeats = !before.empty() && part.size() > before.size() + 1 && part.starts_with(before + '.');
    parts.push_back(repeats ? part.substr(before.size() + 1) : part);
    before = std::move(part);
  }
  if (parts.empty()) parts.emplace_back(name);
  return parts;
}

std::vector<std::string> module_of(const DeviceProgram& program, const Step& step) {
  if (!step.as<LaunchStep>()) return {};
  if (!step.origin.empty()) return parts_of_name(step.origin.front());
  return {updates(program, step) ? "updates" : "other"};
}

IdVector<ExchangeId, bool> carry_gradients(const Plan& plan) {
  std::set<std::string_view> names;
  for (const PlanParameter& p : plan.parameters) names.insert(p.name);
  IdVector<ExchangeId, bool> carry;
  for (const Exchange& e : plan.exchanges) carry.add(!e.values.empty() && names.contains(e.values[0]));
  return carry;
}

}  // namespace tandem
