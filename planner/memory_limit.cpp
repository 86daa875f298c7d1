// Whether a plan fits on its devices, and what would.
#include "planner/memory_limit.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/option.h"
#include "planner/check_sizes.h"
#include "planner/compile.h"
#include "planner/recompute/offload.h"

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

// Another way to train the same batch.
struct Way {
  std::string words;
  CompileOptions options;
  bool more = false;  // of what the way before it has, if that is such a way, too
};

// On the host's own memory no limit is known.
void offload_optimizer(CompileOptions& o) {
  if (o.memory.most.size() == 1) o.memory.most.resize(o.devices.size(), o.memory.most[0]);
  if (!o.memory.most.empty()) o.memory.most.push_back(0);
  if (!o.memory.free.empty()) o.memory.free.push_back(-1);
  o.parallel.data = o.parallel.zero = 0;
  o.parallel.weights_on = static_cast<int>(o.devices.size());
  o.devices.push_back({.id = {"cpu", 0}, .weight = 0});
}

// Each device's are kept by a CPU device of its own. Less memory is asked for than there is, as much as has to be.
void offload_activations(CompileOptions& o) {
  const auto senders = static_cast<int>(o.devices.size());
  o.memory.activations_on.assign(o.devices.size(), -1);
  for (int d = 0; d < senders; ++d) {
    insert_cpu_device(o, senders + d);
    o.memory.activations_on[at(d)] = senders + d;
  }
  o.memory.budget = MemoryBudget{.fit = true};
}

std::vector<Way> ways_of(const CompileOptions& o) {
  std::vector<Way> ways;
  const auto add = [&](std::string words, const auto& change) {
    CompileOptions options = o;
    options.tuning.autotune = false;
    options.passes.on_placement = {};
    change(options);
    ways.push_back({std::move(words), std::move(options)});
  };
  const bool gpus = std::ranges::all_of(o.devices, [](const DeviceSpec& d) { return d.id.backend != "cpu"; });
  if (!o.memory.budget && o.memory.recompute.empty())
    add(concat(option("memory_budget"), " fit activations are computed again"),
        [](CompileOptions& w) { w.memory.budget = MemoryBudget{.fit = true}; });
  if (gpus && !o.memory.budget && o.memory.recompute.empty() && o.memory.activations_on.empty() && !o.placement)
    add(concat(option("offload"), " activations and ", option("memory_budget"), " fit activations are in host memory between the passes"),
        offload_activations);
  const std::int64_t replicas =
      std::max<std::int64_t>(1, std::ranges::count_if(o.devices, [](const DeviceSpec& d) { return d.weight > 0; }));
  for (std::int64_t parts = 2 * o.parallel.micro_batches; parts <= o.batch / replicas && o.batch % parts == 0; parts *= 2)
    add(concat(option("micro_batches"), ' ', parts), [&](CompileOptions& w) { w.parallel.micro_batches = parts; }), ways.back().more = true;
  const bool data_alone = o.parallel.tensor == 1 && o.parallel.pipeline == 1 && o.parallel.places.empty() && !o.configuration &&
                          !o.placement && o.parallel.weights_on < 0;
  if (data_alone && gpus)
    add(concat(option("offload"), " optimizer trained weights and the optimizer's states are in host memory"), offload_optimizer);
  if (data_alone && o.devices.size() > 1 && o.parallel.zero < 3)
    add(concat(option("parallel"), " zero=3 parameters and the optimizer's states lie in parts on the ", o.devices.size(), " devices"),
        [](CompileOptions& w) { w.parallel.zero = 3; });
  return ways;
}

// The ways that fit, each with what it takes on a device; of those that differ in a number alone the first.
std::string help_for(const CompileOptions& o, const Compile& compile) {
  std::string text;
  bool told = false;
  if (o.mode != PlanMode::training) return text;
  for (const Way& way : ways_of(o)) {
    if (way.more && told) continue;
    try {
      const Plan plan = compile(way.options);
      const bool nothing_moves = !way.options.memory.activations_on.empty() && std::ranges::none_of(plan.exchanges, moves_activations);
      if (too_large(plan, way.options) || nothing_moves) continue;
      std::int64_t most = 0;
      for (const PlanDevice& d : plan.devices)
        if (d.weight > 0) most = std::max(most, plan.programs[d.program].peak_bytes());
      text += concat("; with ", way.words, ": ", mebibytes(most), " for a batch of ", o.batch);
      for (const std::string& how : {plan.recompute, plan.offload})
        if (!how.empty()) text += concat(" (", how, ")");
      told = told || way.more;
    } catch (const Stopped&) {
      throw;
    } catch (const Error&) {  // it is no way for this model
    }
  }
  return text;
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
  const std::string help = help_for(o, compile);
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
  if (fits == 0) fail(ExitCode::device, message, ": not even a batch of ", parts, " fits", help);
  throw BatchTooLarge(concat(message, ": the largest batch that fits is ", fits, help), fits);
}

}  // namespace tandem
