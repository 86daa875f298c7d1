#include "planner/lower_programs.h"

#include <algorithm>

namespace tandem {
namespace {

FixedParameters fixed_by(const Plan& plan) {
  FixedParameters fixed;
  for (const PlanParameter& p : plan.parameters)
    for (const ProgramPart& part : p.parts) fixed.emplace(std::pair(p.key(), part.operand.shape.dims), part.operand);
  return fixed;
}

FixedParameters fixed_by(const LoweredGraph& program) {
  FixedParameters fixed;
  for (const LoweredParameter& p : program.parameters) {
    const Operand& operand = program.buffers[p.buffer].operand;
    fixed.emplace(std::pair(p.key(), operand.shape.dims), operand);
  }
  return fixed;
}

double seconds_to_compute(const LoweredGraph& program) {
  double seconds = program.seconds - program.turned_seconds;
  for (const Step& s : program.steps)
    if (is_update(program, s)) seconds -= s.seconds;
  return seconds;
}

// Of parameters that the program holds in part: which.
void name_parts(LoweredGraph& program, const Programs& graphs, const Graph& graph) {
  for (LoweredParameter& p : program.parameters) {
    const auto part =
        std::find_if(graph.parts.begin(), graph.parts.end(), [&](const PartOfParameter& part) { return part.parameter == p.key(); });
    if (part == graph.parts.end()) continue;
    p.type.shape = part->whole;
    const std::vector<std::vector<std::int64_t>>& begins = graphs.begins.at(p.key());
    for (std::size_t i = 0; i < part->ranges.size(); ++i) p.ranges.push_back({part->ranges[i], begins[i]});
  }
}

}  // namespace

LoweredPrograms lower_programs(const Programs& graphs, std::span<const Unit> units, KernelOptions kernel, const Tuners& tuners,
                               bool training, const Plan* parameters_of) {
  LoweredPrograms lowered{.graphs = &graphs, .programs = UnitPrograms(units.size())};
  FixedParameters fixed = parameters_of ? fixed_by(*parameters_of) : FixedParameters{};
  ChosenKernels chosen;
  std::vector<std::size_t> order(units.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return units[a].samples > units[b].samples; });
  for (const std::size_t u : order) {
    const Unit& unit = units[u];
    kernel.threads = unit.model.threads;
    kernel.multiprocessors = unit.model.multiprocessors;
    kernel.device = unit.device;
    ChosenKernels* const shared = units.size() > 1 ? &chosen : nullptr;
    const SelectOptions select{.kernel = kernel, .device = &unit.model, .fixed = &fixed, .chosen = shared, .training = training};
    Tuner& tuner = *tuners.at(unit.backend);
    LoweredGraph program = select_kernels(graphs.graphs[unit.graph], tuner.backend(), select, tuner);
    name_parts(program, graphs, graphs.graphs[unit.graph]);
    for (auto& [key, operand] : fixed_by(program)) fixed.emplace(key, std::move(operand));
    lowered.seconds = std::max(lowered.seconds, seconds_to_compute(program));
    lowered.programs[u] = std::make_unique<LoweredGraph>(std::move(program));
  }
  return lowered;
}

}  // namespace tandem
