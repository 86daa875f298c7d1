#include <algorithm>

#include "planner/plan/plan.h"

namespace tandem {

std::string_view name_of(MemoryClass c) {
  switch (c) {
    case MemoryClass::weights: return "weights";
    case MemoryClass::optimizer_state: return "optimizer state";
    case MemoryClass::gradients: return "gradients";
    case MemoryClass::activations: return "activations";
    case MemoryClass::inputs: return "inputs";
    case MemoryClass::workspace: return "workspace";
  }
  return "unknown";
}

std::string_view name_of(ArenaKind k) {
  switch (k) {
    case ArenaKind::parameters: return "parameters";
    case ArenaKind::optimizer: return "optimizer";
    case ArenaKind::gradients: return "gradients";
    case ArenaKind::scratch: return "scratch";
    case ArenaKind::constants: return "constants";
    case ArenaKind::staging: return "staging";
  }
  return "unknown";
}

std::string_view kind_of(const Plan& plan, const Step& step) {
  struct Kind {
    const Plan& plan;
    const Step& step;
    std::string_view operator()(const SliceStep&) const { return "slice"; }
    std::string_view operator()(const LaunchStep&) const { return "launch"; }
    std::string_view operator()(const ConcatStep&) const { return "concat"; }
    std::string_view operator()(const ExchangeStep& e) const {
      if (e.exchange.index < 0 || e.exchange.index >= static_cast<int>(plan.exchanges.size())) return "exchange";
      const ExchangeKind kind = plan.exchanges[e.exchange].kind;
      return kind == ExchangeKind::send && step.inputs.empty() ? "receive" : name_of(kind);
    }
  };
  return std::visit(Kind{plan, step}, step.what);
}

std::optional<std::size_t> Exchange::row_of(int device) const {
  const auto member = std::find(devices.begin(), devices.end(), device);
  if (member == devices.end()) return std::nullopt;
  return static_cast<std::size_t>(member - devices.begin()) / row_length();
}

const ProgramPart* PlanParameter::on(ProgramId program) const {
  const auto part =
      std::lower_bound(parts.begin(), parts.end(), program, [](const ProgramPart& p, ProgramId id) { return p.program < id; });
  return part == parts.end() || part->program != program ? nullptr : &*part;
}

std::vector<int> Plan::devices_of(ProgramId program) const {
  std::vector<int> list;
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (devices[d].program == program) list.push_back(static_cast<int>(d));
  return list;
}

ParameterPart Plan::part_of(const ProgramPart& part, int device) const {
  ParameterPart own{device, part.operand, part.offset, {}};
  for (const ProgramRange& range : part.ranges) own.ranges.push_back(range.from(range.unit * cuts[at(range.cut)].begins[at(device)]));
  return own;
}

std::optional<ParameterPart> Plan::part_of(const PlanParameter& parameter, int device) const {
  const ProgramPart* const part = parameter.on(devices[at(device)].program);
  return part ? std::optional(part_of(*part, device)) : std::nullopt;
}

std::vector<ParameterPart> Plan::parts_of(const PlanParameter& parameter) const {
  std::vector<ParameterPart> parts;
  for (int d = 0; d < std::ssize(devices); ++d)
    if (std::optional<ParameterPart> part = part_of(parameter, d)) parts.push_back(*std::move(part));
  return parts;
}

std::int64_t Plan::parts_before(int device, const Step& given) const {
  const int host = given.as<ConcatStep>()->host;
  IdVector<ProgramId, bool> gives;
  for (const DeviceProgram& program : programs)
    gives.add(std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& s) {
      const auto* concat = s.as<ConcatStep>();
      return concat && concat->host == host;
    }));
  const auto counts = [&](const PlanDevice& d) { return gives[d.program]; };
  const std::int64_t before = std::count_if(devices.begin(), devices.begin() + device, counts);
  return given.micro_batch == 0 ? before : before + given.micro_batch * std::count_if(devices.begin(), devices.end(), counts);
}

std::int64_t Plan::first_row(int device, int micro_batch) const {
  return devices[at(device)].slice_begin + micro_batch * (batch / std::max<std::int64_t>(1, micro_batches));
}

std::int64_t Plan::first_row(int device, const ConcatStep& rows, int micro_batch) const {
  const std::int64_t all = outputs[static_cast<std::size_t>(rows.host)].type.shape[0];
  return batch == 0 ? 0 : all / batch * first_row(device, micro_batch);
}

std::int64_t DeviceProgram::peak_bytes() const {
  std::int64_t sum = 0;
  for (const Arena& a : arenas) sum += a.bytes;
  return sum;
}

}  // namespace tandem
