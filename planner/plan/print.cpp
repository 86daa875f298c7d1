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

namespace {

// `takers`: words for those with samples; `others`: for those without, by their number.
template <class Takers, class Others>
std::string devices_of_batch(const Plan& plan, const Takers& takers, const Others& others) {
  std::vector<DeviceId> with, without;
  for (const PlanDevice& d : plan.devices) (d.slice_size > 0 ? with : without).push_back(d.device);
  return concat(takers(with), without.empty() ? "" : concat(" (", others(without), without.size() == 1 ? " has" : " have", " no samples)"));
}

}  // namespace

std::string counted_devices(const Plan& plan) {
  return devices_of_batch(
      plan, [](const auto& with) { return with.size() == 1 ? std::string("on 1 device") : concat("over ", with.size(), " devices"); },
      [](const auto& without) { return concat(without.size(), " more"); });
}

std::string named_devices(const Plan& plan) {
  const auto names = [](const auto& list) { return names_of(list); };
  return devices_of_batch(plan, names, names);
}

std::string label_of(const Plan& plan, const Step& step) {
  const auto* launch = step.as<LaunchStep>();
  return launch ? launch->op : concat(kind_of(plan, step), " ", target_of(plan, step));
}

}  // namespace tandem
