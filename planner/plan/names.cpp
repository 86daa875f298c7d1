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

std::string_view name_of(StepKind k) {
  switch (k) {
    case StepKind::slice: return "slice";
    case StepKind::launch: return "launch";
    case StepKind::all_reduce: return "all_reduce";
    case StepKind::concat: return "concat";
  }
  return "unknown";
}

std::int64_t DevicePlan::peak_bytes() const {
  std::int64_t sum = 0;
  for (const Arena& a : arenas) sum += a.bytes;
  return sum;
}

}  // namespace tandem
