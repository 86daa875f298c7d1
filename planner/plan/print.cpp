#include "planner/plan/print.h"

#include <algorithm>

#include "base/units.h"

namespace tandem {

std::string target_of(const Plan& plan, const Step& step) {
  const auto name = [](const auto& list, int index) {
    return index >= 0 && index < static_cast<int>(list.size()) ? shorten(list[static_cast<std::size_t>(index)].name, 32) : std::string();
  };
  if (const auto* s = step.as<SliceStep>()) return name(plan.inputs, s->host);
  if (const auto* s = step.as<ConcatStep>()) return name(plan.outputs, s->host);
  if (const auto* s = step.as<ExchangeStep>()) return name(plan.exchanges, s->exchange.index);
  return "";
}

std::string names_of(const std::vector<DeviceId>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    const DeviceId& first = devices[i];
    const auto run = [&](int step) {  // how many follow one another by this step
      std::size_t n = 1;
      while (i + n < devices.size() && devices[i + n].backend == first.backend &&
             devices[i + n].index == first.index + step * static_cast<int>(n))
        ++n;
      return n;
    };
    const std::size_t range = run(1), alike = run(0);
    text += concat(i > 0 ? ", " : "", first,
                   range > 1   ? concat("-", first.index + static_cast<int>(range) - 1)
                   : alike > 1 ? concat("*", alike)
                               : "");
    i += std::max(range, alike);
  }
  return text;
}

std::string names_of(const Plan& plan, ProgramId program) {
  std::vector<DeviceId> devices;
  for (const PlanDevice& d : plan.devices)
    if (d.program == program) devices.push_back(d.device);
  return names_of(devices);
}

std::string label_of(const Plan& plan, const Step& step) {
  const auto* launch = step.as<LaunchStep>();
  return launch ? launch->op : concat(kind_of(plan, step), " ", target_of(plan, step));
}

}  // namespace tandem
