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

const ParameterPart* PlanParameter::on(int device) const {
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const ParameterPart& p) { return p.device == device; });
  return part == parts.end() ? nullptr : &*part;
}

std::int64_t DevicePlan::peak_bytes() const {
  std::int64_t sum = 0;
  for (const Arena& a : arenas) sum += a.bytes;
  return sum;
}

}  // namespace tandem
