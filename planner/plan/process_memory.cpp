// What a step and the program take beside the arenas is what a few models were seen to take on a CPU of two cores.
#include "planner/plan/process_memory.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t batches_ahead = 3;  // one that is trained on, one that waits, one that is being read
constexpr std::int64_t bytes_a_step = std::int64_t{96} << 10, bytes_a_thread = std::int64_t{512} << 10,
                       bytes_at_least = std::int64_t{20} << 20;

bool is_host(const PlanDevice& d) { return d.device.backend == "cpu"; }

}  // namespace

std::int64_t copied_bytes(const Plan& plan) {
  constexpr std::int64_t small = std::int64_t{64} << 20;
  if (plan.mode != PlanMode::training) return 0;
  std::int64_t bytes = 0, most = small;
  bool in_parts = false;
  for (const PlanParameter& p : plan.parameters) {
    bytes += bytes_of(p.type);
    const std::vector<ParameterPart> parts = plan.parts_of(p);
    in_parts = in_parts || std::ranges::none_of(parts, [](const ParameterPart& part) { return part.is_whole(); });
  }
  for (const DeviceProgram& program : plan.programs)
    if (!in_parts) most = std::max(most, program.peak_bytes() / 32);
  return bytes <= most ? bytes : 0;
}

ProcessMemory process_memory(const Plan& plan) {
  ProcessMemory m{.copy = copied_bytes(plan), .program = bytes_at_least};
  for (const PlanDevice& d : plan.devices) {
    const DeviceProgram& program = plan.programs[d.program];
    if (is_host(d)) m.arenas += program.peak_bytes();
    m.program += bytes_a_step * std::ssize(program.steps) + bytes_a_thread * std::max(1, program.model.threads);
  }
  for (const HostInput& input : plan.inputs)
    if (input.role != ValueRole::step_state) m.batches += batches_ahead * bytes_of(input.type);
  for (const HostOutput& output : plan.outputs) m.batches += output.bytes();
  return m;
}

}  // namespace tandem
