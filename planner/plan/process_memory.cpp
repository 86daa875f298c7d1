// What the program takes beside the arenas is what a few models were seen to take on a CPU of two cores (scripts/process-memory).
#include "planner/plan/process_memory.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t batches_ahead = 3;  // one that is worked on, one that waits, one that is being read
// Of kernels and of the plan; of libraries, of which training needs more: it also measures, keeps checkpoints and writes a model.
constexpr std::int64_t bytes_a_step = std::int64_t{32} << 10, bytes_a_thread = std::int64_t{512} << 10,
                       bytes_to_run = std::int64_t{14} << 20, bytes_to_train = std::int64_t{22} << 20;

// The most that a parameter takes on its way between a device and a file: pieces of it in both orders, or, of one in blocks, all of it.
std::int64_t moved_bytes(const Plan& plan) {
  constexpr std::int64_t piece = std::int64_t{4} << 20;
  std::int64_t most = 0;
  for (const PlanParameter& p : plan.parameters)
    for (const ParameterPart& part : plan.parts_of(p))
      most = std::max(most, part.operand.layout.plain() ? std::min(piece, part.operand.bytes()) : part.operand.bytes());
  return 2 * most;
}

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
  const bool trains = plan.mode == PlanMode::training;
  ProcessMemory m{.copy = trains ? std::max(copied_bytes(plan), moved_bytes(plan)) : 0, .program = trains ? bytes_to_train : bytes_to_run};
  for (const PlanDevice& d : plan.devices) {
    const DeviceProgram& program = plan.programs[d.program];
    if (is_host(d)) m.arenas += program.peak_bytes();
    m.program += bytes_a_step * std::ssize(program.steps) + bytes_a_thread * std::max(1, program.model.threads);
  }
  for (const HostInput& input : plan.inputs)
    if (input.role != ValueRole::step_state) m.batches += (trains ? 2 : 1) * batches_ahead * bytes_of(input.type);
  for (const HostOutput& output : plan.outputs) m.batches += output.bytes();
  return m;
}

}  // namespace tandem
