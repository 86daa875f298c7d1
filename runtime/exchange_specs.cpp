#include "runtime/exchange_specs.h"

#include <algorithm>

namespace tandem {

std::vector<ExchangeSpec> exchange_specs(const Plan& plan, int first_channel) {
  std::vector<ExchangeSpec> specs;
  for (const Exchange& e : plan.exchanges) {
    ExchangeSpec& spec = specs.emplace_back(e.kind, e.devices, e.elements, e.dtype);
    spec.channel = first_channel++;
    spec.streams.resize(e.devices.size());
    const bool swaps = e.kind == ExchangeKind::all_to_all;
    if (swaps || e.kind == ExchangeKind::all_gather || e.kind == ExchangeKind::reduce_scatter) spec.parts.resize(e.devices.size());
    if (swaps) spec.gets.resize(e.devices.size());
  }
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    for (const Step& s : device.steps) {
      const auto* step = s.as<ExchangeStep>();
      if (!step) continue;
      ExchangeSpec& spec = specs[static_cast<std::size_t>(step->exchange.index)];
      const auto member = static_cast<std::size_t>(std::find(spec.members.begin(), spec.members.end(), static_cast<int>(d)) - spec.members.begin());
      const auto elements = [&](BufferId b) { return device.buffers[b].operand.shape.elements(); };
      spec.streams[member] = s.stream;
      if (!spec.parts.empty()) spec.parts[member] = elements(spec.kind == ExchangeKind::reduce_scatter ? s.outputs[0] : s.inputs[0]);
      if (!spec.gets.empty()) spec.gets[member] = elements(s.outputs[0]);
    }
  }
  return specs;
}

}  // namespace tandem
