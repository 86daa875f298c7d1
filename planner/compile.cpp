// From a graph to a plan: the planner's table of contents.
#include "planner/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "graph/memory.h"
#include "planner/check_options.h"
#include "planner/memory/assemble.h"
#include "planner/passes/graph_copy.h"
#include "planner/passes/optimizer.h"
#include "planner/passes/passes.h"
#include "planner/warnings.h"

namespace tandem {
namespace {

// What one size of slice needs, whichever device runs it.
struct Prepared {
  Graph graph;
  std::map<std::string, ValueId> reduced;
  std::vector<std::string> outputs;
  std::vector<std::string> warnings;
};

// Numbers that return are those of other machines: what one machine shares out are the different ones.
int devices_of_a_machine(const std::vector<DeviceSpec>& devices) {
  std::set<std::pair<int, int>> different;
  for (const DeviceSpec& d : devices) different.insert({d.id.index, d.logical});
  return static_cast<int>(different.size());
}

Prepared prepare_training(const Graph& model, const Labels& labels, const CompileOptions& options, std::int64_t samples, bool collective, const Fusions& fusions) {
  Training t = build_training(model, labels, options, samples, collective, fusions);
  Prepared p{std::move(t.graph), {}, std::move(t.outputs), model.warnings};
  p.warnings.insert(p.warnings.end(), t.warnings.begin(), t.warnings.end());
  for (const Reduced& r : t.reduced) p.reduced[r.parameter] = r.value;
  return p;
}

Prepared prepare_inference(const Graph& model, Precision precision, const Plan* parameters_of) {
  Prepared p;
  for (const ValueId out : model.outputs) p.outputs.push_back(model[out].name);
  p.graph = fuse_elementwise(mixed_precision(fuse_layers(simplify(expand(model, false))), precision));
  if (parameters_of) p.graph = keep_parameters(p.graph, *parameters_of);
  verify(p.graph);
  return p;
}

// A device without samples adds zeros to every sum and updates its replica like the others: what is left are the
// sums and what the updates compute from them.
Prepared prepare_idle(const Prepared& busy) {
  Prepared p{.outputs = busy.outputs};
  GraphCopy copy(busy.graph);
  GraphBuilder builder(copy.to, "idle", {});
  const auto zeros = [&](ValueId v) {
    const TensorType& t = busy.graph[v].type;
    const ValueId z = builder.emit("Fill", {}, {{"value", 0.0F}, {"shape", t.shape.dims}, {"dtype", static_cast<std::int64_t>(t.dtype)}});
    copy.to[z].name = busy.graph[v].name;
    copy.set(v, z);
    return z;
  };
  std::vector<bool> needed(busy.graph.values.size()), summed(busy.graph.values.size());
  for (const auto& [name, value] : busy.reduced) {
    p.reduced[name] = zeros(value);
    summed[static_cast<std::size_t>(value.index)] = true;
  }
  std::vector<bool> kept(busy.graph.nodes.size());
  for (std::size_t n = kept.size(); n-- > 0;) {
    const Node& node = busy.graph.nodes[n];
    const bool all_reduce = node.op->name == "AllReduce";
    kept[n] = all_reduce || !node.op->in_place.empty();
    for (const ValueId out : node.outputs) kept[n] = kept[n] || (out.present() && needed[static_cast<std::size_t>(out.index)] && !summed[static_cast<std::size_t>(out.index)]);
    if (!kept[n] || all_reduce) continue;
    for (const ValueId in : node.inputs)
      if (in.present()) needed[static_cast<std::size_t>(in.index)] = true;
  }
  for (std::size_t n = 0; n < kept.size(); ++n) {
    if (!kept[n]) continue;
    const Node& node = busy.graph.nodes[n];
    if (node.op->name == "AllReduce") zeros(node.inputs[0]);
    copy.copy(node);
  }
  for (const ValueId out : busy.graph.outputs) copy.to.outputs.push_back(copy.map(out).present() && !busy.graph[out].producer.present() ? copy.map(out) : zeros(out));
  p.graph = std::move(copy.to);
  verify(p.graph);
  return p;
}

struct Candidate {
  std::vector<std::unique_ptr<LoweredGraph>> programs;  // by distinct (backend, slice)
  double seconds = 0;                              // of the slowest
};

FixedParameters fixed_by(const Plan& plan) {
  FixedParameters fixed;
  for (const PlanParameter& p : plan.parameters) fixed[p.name] = p.operand;
  return fixed;
}

FixedParameters fixed_by(const LoweredGraph& program) {
  FixedParameters fixed;
  for (const LoweredParameter& p : program.parameters) fixed[p.name] = program.buffers[static_cast<std::size_t>(p.buffer.index)].operand;
  return fixed;
}

}  // namespace

const Backend& find_backend(Backends backends, std::string_view name) {
  std::string known;
  for (const Backend* b : backends) {
    if (b->name() == name) return *b;
    known += concat(known.empty() ? "" : ", ", b->name());
  }
  fail(ExitCode::device, "there is no backend '", name, "' in this program: it has ", known);
}

namespace {

Plan compile_unchecked(const GraphSource& source, const CompileOptions& o, Backends backends, const Plan* parameters_of) {
  check_options(source, o, backends);
  std::vector<double> weights;
  for (const DeviceSpec& d : o.devices) weights.push_back(d.weight);
  const std::vector<std::int64_t> sizes = slice_sizes(o.batch, weights);
  const bool training = o.mode == PlanMode::training, collective = training && o.devices.size() > 1;

  Plan plan{.mode = o.mode, .batch = o.batch, .precision = o.precision, .options = o.kernel};
  plan.options.tf32 = o.precision == Precision::tf32;
  if (training) {
    plan.loss = o.loss_on.empty() ? o.loss : concat(o.loss, " on ", o.loss_on);
    plan.optimizer = to_string(o.optimizer);
    if (const auto scaling = loss_scaling_of(o)) plan.optimizer += concat(", loss scale from ", scaling->start);
  }

  Fusions fusions = find_backend(backends, o.devices[0].id.backend).fusions(o.precision);
  for (const DeviceSpec& d : o.devices) fusions = fusions & find_backend(backends, d.id.backend).fusions(o.precision);

  // 1. One training or inference graph for each size of slice, the largest first: it leads.
  std::map<std::int64_t, Prepared, std::greater<>> prepared;
  Graph model;
  const std::optional<Labels> labels = training ? std::optional(labels_of(source, o)) : std::nullopt;
  for (const std::int64_t n : sizes) {
    if (n == 0 || prepared.count(n)) continue;
    model = source(n);
    plan.model = model.name;
    prepared.emplace(n, training ? prepare_training(model, *labels, o, n, collective, fusions) : prepare_inference(model, o.precision, parameters_of));
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    if (training)
      prepared.emplace(0, prepare_idle(prepared.begin()->second));
    else
      prepared.emplace(0, Prepared{.outputs = prepared.begin()->second.outputs});
  }
  const std::vector<std::string> outputs = prepared.begin()->second.outputs;
  plan.warnings = prepared.begin()->second.warnings;

  // 2. Kernels and layouts, for each layout preference that is open; the estimated faster one is kept. A plan that
  //    shares another's parameters keeps their layouts.
  const auto ask = [&o] {
    if (o.stop && o.stop()) throw Stopped();
  };
  std::map<std::string, std::unique_ptr<Tuner>, std::less<>> tuners;
  for (const DeviceSpec& d : o.devices) {
    auto& tuner = tuners[d.id.backend];
    if (!tuner) tuner = std::make_unique<Tuner>(find_backend(backends, d.id.backend), chooses_by_time(o), o.tuning_cache, o.retune, ask);
  }
  struct Unit {  // devices that run the same program
    std::string backend;
    std::int64_t samples;
    DeviceModel model;
  };
  std::vector<Unit> units;
  std::vector<std::size_t> unit_of(o.devices.size());
  std::vector<DeviceModel> models;
  const int device_count = devices_of_a_machine(o.devices);
  for (std::size_t d = 0; d < o.devices.size(); ++d) {
    const DeviceId& id = o.devices[d].id;
    models.push_back(tuners.at(id.backend)->backend().model(id.index, device_count));
    const auto same = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.backend == id.backend && u.samples == sizes[d] && u.model.threads == models[d].threads; });
    unit_of[d] = static_cast<std::size_t>(same - units.begin());
    if (same == units.end()) units.push_back({id.backend, sizes[d], models[d]});
  }
  std::vector<std::size_t> order(units.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return units[a].samples > units[b].samples; });

  std::vector<LayoutPreference> preferences;
  if (o.layout)
    preferences = {*o.layout};
  else if (parameters_of)
    preferences = {parameters_of->options.preference};
  else
    preferences = {LayoutPreference::blocked, LayoutPreference::channels_last};
  Candidate best;
  for (const LayoutPreference preference : preferences) {
    Candidate c;
    c.programs.resize(units.size());
    FixedParameters fixed = parameters_of ? fixed_by(*parameters_of) : FixedParameters{};
    KernelOptions kernel = plan.options;
    kernel.preference = preference;
    for (const std::size_t u : order) {
      const Prepared& p = prepared.at(units[u].samples);
      kernel.threads = units[u].model.threads;
      const SelectOptions select{.kernel = kernel, .device = &units[u].model, .fixed = &fixed};
      Tuner& tuner = *tuners.at(units[u].backend);
      c.programs[u] = std::make_unique<LoweredGraph>(select_kernels(p.graph, p.reduced, tuner.backend(), select, tuner));
      if (fixed.empty()) fixed = fixed_by(*c.programs[u]);
      c.seconds = std::max(c.seconds, c.programs[u]->seconds);
    }
    if (best.programs.empty() || c.seconds < best.seconds) {
      best = std::move(c);
      plan.options.preference = preference;
    }
  }
  plan.options.threads = models[0].threads;
  ask();

  for (const auto& program : best.programs)
    for (const std::string& warning : program->warnings)
      if (std::find(plan.warnings.begin(), plan.warnings.end(), warning) == plan.warnings.end()) plan.warnings.push_back(warning);

  // 3. Order of updates, memory shared in place, then slices, all-reduces, concats and offsets.
  for (const auto& program : best.programs) {
    if (!collective) schedule_updates(*program);
    share_in_place(*program);
  }
  std::vector<Replica> replicas;
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < o.devices.size(); ++d) {
    replicas.push_back({o.devices[d], models[d], begin, sizes[d], best.programs[unit_of[d]].get(), &prepared.at(sizes[d]).graph, tuners.at(o.devices[d].id.backend)->backend().stages_inputs()});
    begin += sizes[d];
  }
  const std::int64_t largest = *std::max_element(sizes.begin(), sizes.end());
  assemble(plan, replicas, outputs, training ? std::vector<std::int64_t>(outputs.size()) : output_rows(source, source(largest), largest), o, parameters_of);
  for (std::string& warning : warnings_of(plan, o, model)) plan.warnings.push_back(std::move(warning));
  if (labels && !labels->assumed.empty()) plan.warnings.push_back(labels->assumed);
  return plan;
}

// A device's memory, with all that the plan puts there: logical devices share one's.
struct Load {
  const DevicePlan* device;
  int replicas = 0;
  std::int64_t bytes = 0, room = 0;  // room: also of what is free, where that is known
};

// The first device whose memory the plan exceeds.
std::optional<Load> too_large(const Plan& plan, const CompileOptions& o) {
  std::vector<Load> loads;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    const auto shared = std::find_if(loads.rbegin(), loads.rend(), [&](const Load& l) { return o.devices[d].logical > 0 && l.device->device == device.device; });
    Load& load = shared == loads.rend() ? loads.emplace_back(Load{&device, 0, 0, device.model.memory}) : *shared;
    ++load.replicas;
    load.bytes += device.peak_bytes();
    if (!o.free_memory.empty() && o.free_memory[d] >= 0) load.room = std::min(load.room, o.free_memory[d]);
  }
  for (const Load& load : loads)
    if (load.device->model.memory > 0 && load.bytes > load.room) return load;
  return std::nullopt;
}

std::string mebibytes(std::int64_t bytes) { return concat((bytes + (1 << 20) - 1) >> 20, " MiB"); }

// Refuses a plan that does not fit, with where the memory goes and the batch that would fit.
void check_memory(const Plan& plan, const GraphSource& source, CompileOptions o, Backends backends, const Plan* parameters_of) {
  // A plan with parameters of its own needs memory that is free now.
  if (parameters_of)
    o.free_memory.clear();
  else if (o.free_memory.empty())
    o.free_memory = free_memory(o.devices, {0, static_cast<int>(o.devices.size())}, backends);
  const std::optional<Load> load = too_large(plan, o);
  if (!load) return;
  std::string where;
  for (const auto& [c, bytes] : load->device->memory) where += concat(where.empty() ? "" : ", ", name_of(c), ' ', mebibytes(bytes));
  const std::string each = load->replicas == 1 ? "" : concat(" for each of ", load->replicas, " logical devices");
  const std::string message = concat("device ", load->device->device, " needs ", mebibytes(load->bytes), " for a batch of ", o.batch, " but has ", mebibytes(load->room), " (", where, each, ")");
  o.autotune = false;
  o.layout = plan.options.preference;
  std::int64_t fits = 0, fails = o.batch;
  while (fails - fits > 1) {
    o.batch = fits + (fails - fits) / 2;
    (too_large(compile_unchecked(source, o, backends, parameters_of), o) ? fails : fits) = o.batch;
  }
  if (fits == 0) fail(ExitCode::device, message, ": not even a batch of 1 fits");
  fail(ExitCode::device, message, ": the largest batch that fits is ", fits);
}

}  // namespace

std::vector<std::int64_t> free_memory(const std::vector<DeviceSpec>& devices, DeviceRange own, Backends backends) {
  std::vector<std::int64_t> free(devices.size());
  for (std::size_t d = static_cast<std::size_t>(own.first); d < static_cast<std::size_t>(own.first + own.count); ++d)
    free[d] = find_backend(backends, devices[d].id.backend).free_memory(devices[d].id.index, devices_of_a_machine(devices));
  return free;
}

Plan compile(const GraphSource& source, const CompileOptions& o, Backends backends, const Plan* parameters_of) {
  Plan plan = within_memory([&] { return compile_unchecked(source, o, backends, parameters_of); }, "planning for a batch of ", o.batch);
  check_memory(plan, source, o, backends, parameters_of);
  verify(plan);
  return plan;
}

}  // namespace tandem
