#include "runtime/exchange_specs.h"

namespace tandem {

std::vector<ExchangeSpec> exchange_specs(const Plan& plan, int first_channel) {
  IdVector<ProgramId, IdVector<ExchangeId, const Step*>> entered;
  for (const DeviceProgram& program : plan.programs) {
    auto& steps = entered.emplace_back(plan.exchanges.size(), nullptr);
    for (const Step& s : program.steps)
      if (const auto* step = s.as<ExchangeStep>()) steps[step->exchange] = &s;
  }
  std::vector<ExchangeSpec> specs;
  for (ExchangeId id{0}; id.index < std::ssize(plan.exchanges); ++id.index) {
    const Exchange& e = plan.exchanges[id];
    const bool swaps = e.kind == ExchangeKind::all_to_all, scatters = e.kind == ExchangeKind::reduce_scatter;
    for (std::size_t r = 0; r < at(e.rows); ++r) {
      ExchangeSpec& spec = specs.emplace_back(e.kind, std::vector<int>(e.row(r).begin(), e.row(r).end()), e.elements, e.dtype);
      spec.channel = first_channel++;
      for (const int d : spec.members) {
        const Step& s = *entered[plan.devices[at(d)].program][id];
        const auto elements = [&](BufferId b) { return plan.program_of(at(d)).buffers[b].operand.shape.elements(); };
        spec.streams.push_back(s.stream);
        if (swaps || scatters || e.kind == ExchangeKind::all_gather) spec.parts.push_back(elements(scatters ? s.outputs[0] : s.inputs[0]));
        if (swaps) spec.gets.push_back(elements(s.outputs[0]));
      }
    }
  }
  return specs;
}

std::vector<const ExchangeSpec*> specs_of(const Plan& plan, std::span<const ExchangeSpec> all, int device) {
  std::vector<const ExchangeSpec*> own;
  std::size_t first = 0;
  for (const Exchange& e : plan.exchanges) {
    const std::optional<std::size_t> row = e.row_of(device);
    own.push_back(row ? &all[first + *row] : nullptr);
    first += at(e.rows);
  }
  return own;
}

}  // namespace tandem
