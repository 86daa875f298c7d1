// Whether a plan fits on its devices, and what would.
#include "planner/memory_limit.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/option.h"
#include "planner/check_sizes.h"

namespace tandem {
namespace {

// A device's memory, with all that the plan puts there: logical devices share one's.
struct Load {
  const PlanDevice* device;
  const DeviceProgram* program;
  std::vector<std::size_t> replicas{};  // numbers of Plan::devices
  std::int64_t bytes = 0, room = 0;  // room: also of what is free, where that is known
  std::int64_t most = 0;             // what the plan may put there, where that is said
  bool bounded() const { return program->model.memory > 0 || most > 0; }
  bool exceeded() const { return bounded() && bytes > room; }
};

std::vector<Load> loads_of(const Plan& plan, const CompileOptions& o) {
  std::vector<Load> loads;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const PlanDevice& device = plan.devices[d];
    const DeviceProgram& program = plan.programs[device.program];
    const auto shared = std::find_if(loads.rbegin(), loads.rend(),
                                     [&](const Load& l) { return o.devices[d].logical > 0 && l.device->device == device.device; });
    Load& load = shared == loads.rend() ? loads.emplace_back(Load{&device, &program, {}, 0, program.model.memory}) : *shared;
    load.replicas.push_back(d);
    load.bytes += program.peak_bytes();
    if (!o.memory.most.empty()) load.most += o.memory.most[o.memory.most.size() == 1 ? 0 : d];
    if (!o.memory.free.empty() && o.memory.free[d] >= 0) load.room = std::min(load.room, o.memory.free[d]);
  }
  for (Load& load : loads)
    if (load.most > 0 && (load.program->model.memory == 0 || load.most < load.room)) load.room = load.most;
  return loads;
}

// The first device whose memory the plan exceeds.
std::optional<Load> too_large(const Plan& plan, const CompileOptions& o) {
  for (const Load& load : loads_of(plan, o))
    if (load.exceeded()) return load;
  return std::nullopt;
}

std::string mebibytes(std::int64_t bytes) { return concat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

// What would take less memory on each device.
std::string smaller_by_parts(const CompileOptions& o) {
  const bool parts = o.mode == PlanMode::training && o.devices.size() > 1 && o.parallel.zero < 3 && o.parallel.tensor == 1 &&
                     o.parallel.places.empty() && !o.configuration && !o.placement;
  return parts ? concat("; with ", option("parallel"), " zero=3 parameters and the optimizer's states lie in parts on the ",
                        o.devices.size(), " devices")
               : "";
}

// What the plan would take with activations computed again, where it fits so.
std::string smaller_by_recompute(CompileOptions o, const Compile& compile) {
  if (o.mode != PlanMode::training || o.memory.budget || !o.memory.recompute.empty()) return "";
  o.memory.budget = MemoryBudget{.fit = true};
  o.tuning.autotune = false;
  o.passes.on_placement = {};
  const Plan plan = compile(o);
  if (too_large(plan, o)) return "";
  std::int64_t most = 0;
  for (const DeviceProgram& p : plan.programs) most = std::max(most, p.peak_bytes());
  return concat("; with ", option("memory_budget"), " fit activations are computed again: ", mebibytes(most), " for a batch of ", o.batch,
                " (", plan.recompute, ")");
}

}  // namespace

std::vector<std::int64_t> room_for(const Plan& plan, const CompileOptions& o) {
  if (!too_large(plan, o)) return {};
  std::vector<std::int64_t> room(plan.devices.size(), std::numeric_limits<std::int64_t>::max());
  for (const Load& load : loads_of(plan, o))
    if (load.bounded())
      for (const std::size_t d : load.replicas) room[d] = load.room / std::ssize(load.replicas);
  return room;
}

void check_memory(const Plan& plan, CompileOptions o, const Compile& compile) {
  const std::optional<Load> load = too_large(plan, o);
  if (!load) return;
  std::string where;
  for (const auto& [c, bytes] : load->program->memory) where += concat(where.empty() ? "" : ", ", name_of(c), ' ', mebibytes(bytes));
  const std::string each = load->replicas.size() == 1 ? "" : concat(" for each of ", load->replicas.size(), " logical devices");
  const std::string message = concat("device ", load->device->device, " needs ", mebibytes(load->bytes), " for a batch of ", o.batch,
                                     " but has ", mebibytes(load->room), " (", where, each, ")");
  o.layout = plan.options.preference;
  const std::string help = smaller_by_recompute(o, compile);
  refuse_batch(message, std::move(o), compile, help);
}

void refuse_batch(const std::string& message, CompileOptions o, const Compile& compile, const std::string& help) {
  o.tuning.autotune = false;
  o.passes.on_placement = {};
  const auto fit = [&] {
    try {
      return !too_large(compile(o), o);
    } catch (const ValueTooLarge&) {
      return false;
    }
  };
  const std::int64_t parts = o.parallel.micro_batches;
  std::int64_t fits = 0, fails = o.batch / parts;
  while (fails - fits > 1) {
    const std::int64_t rows = fits + (fails - fits) / 2;
    o.batch = rows * parts;
    (fit() ? fits : fails) = rows;
  }
  fits *= parts;
  if (fits == 0) fail(ExitCode::device, message, ": not even a batch of ", parts, " fits", smaller_by_parts(o), help);
  throw BatchTooLarge(concat(message, ": the largest batch that fits is ", fits, help), fits);
}

}  // namespace tandem
