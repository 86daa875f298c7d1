#include "planner/memory/assemble.h"

#include <algorithm>
#include <map>
#include <set>

#include "planner/memory/place.h"
#include "planner/plan/format.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

Arena& arena(DevicePlan& d, ArenaKind kind) { return d.arenas[static_cast<std::size_t>(kind)]; }
Buffer& at(DevicePlan& d, BufferId id) { return d.buffers[static_cast<std::size_t>(id.index)]; }
bool has_batch(const TensorType& t, std::int64_t samples) { return t.shape.rank() > 0 && t.shape[0] == samples; }
bool is_state(const LoweredInput& in) { return in.role == ValueRole::step_state; }

class DeviceAssembler {
 public:
  DeviceAssembler(Plan& plan, const Replica& replica, const CompileOptions& options)
      : plan_(plan), replica_(replica), program_(*replica.program), options_(options) {}

  DevicePlan run() {
    device_ = {.device = replica_.spec.id, .model = replica_.model, .weight = replica_.spec.weight, .slice_begin = replica_.slice_begin, .slice_size = replica_.slice_size};
    for (const ArenaKind kind : arena_kinds) device_.arenas.push_back({kind, 0, 0});
    device_.buffers = program_.buffers;
    place_persistent();
    add_slices();
    add_steps();
    add_concats();
    drop_unused_buffers();
    find_lives();
    place_scratch();
    return std::move(device_);
  }

 private:
  StepId last_step() const { return {static_cast<int>(device_.steps.size()) - 1}; }

  void place_persistent() {
    std::int64_t sizes[std::size(arena_kinds)] = {};
    for (const PlanParameter& p : plan_.parameters) {
      auto& end = sizes[static_cast<std::size_t>(p.arena)];
      end = std::max(end, p.offset + aligned(p.operand.bytes()));
    }
    std::map<std::string_view, const PlanParameter*> by_name;
    for (const PlanParameter& p : plan_.parameters) by_name[p.name] = &p;
    for (const LoweredParameter& p : program_.parameters) at(device_, p.buffer).offset = by_name.at(p.name)->offset;
    auto& constants = sizes[static_cast<std::size_t>(ArenaKind::constants)];
    for (Buffer& b : device_.buffers)
      if (b.arena == ArenaKind::constants && !b.alias.present()) {
        b.offset = constants;
        constants += b.bytes;
      }
    auto& gradients = sizes[static_cast<std::size_t>(ArenaKind::gradients)];
    for (const Step& s : program_.steps)
      if (s.kind == StepKind::all_reduce) {
        at(device_, s.outputs[0]).offset = gradients;
        gradients += at(device_, s.outputs[0]).bytes;
      }
    for (const ArenaKind kind : {ArenaKind::parameters, ArenaKind::optimizer, ArenaKind::gradients, ArenaKind::constants})
      arena(device_, kind).bytes = arena(device_, kind).lower_bound = sizes[static_cast<std::size_t>(kind)];
  }

  void add_slices() {
    std::set<int> read;
    for (const Step& s : program_.steps)
      for (const BufferId in : s.inputs)
        if (in.present()) read.insert(root_of(program_.buffers, in).index);
    for (const BufferId out : program_.outputs) read.insert(root_of(program_.buffers, out).index);
    for (const LoweredInput& in : program_.inputs) {
      if (!read.count(in.buffer.index)) continue;
      const auto host = std::find_if(plan_.inputs.begin(), plan_.inputs.end(), [&](const HostInput& h) { return h.name == in.name; });
      Step s{.kind = StepKind::slice, .outputs = {in.buffer}, .host = static_cast<int>(host - plan_.inputs.begin())};
      s.bytes = static_cast<double>(at(device_, in.buffer).operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      if (replica_.stages_inputs && !is_state(in)) s.workspace = add_staging(in.buffer);
      device_.steps.push_back(std::move(s));
    }
    Arena& staging = arena(device_, ArenaKind::staging);
    staging.lower_bound = staging.bytes;
  }

  BufferId add_staging(BufferId input) {
    Buffer b = at(device_, input);
    if (b.bytes == 0) return {};
    b.name += "/staging";
    b.arena = ArenaKind::staging;
    b.offset = arena(device_, ArenaKind::staging).bytes;
    arena(device_, ArenaKind::staging).bytes += b.bytes;
    device_.buffers.push_back(std::move(b));
    return {static_cast<int>(device_.buffers.size()) - 1};
  }

  // A sum waits for the last step that writes into its bucket, and the first step that reads from that waits for the sum.
  void add_steps() {
    const std::size_t buckets = program_.buckets.size();
    IdVector<BufferId, int> bucket_of(program_.buffers.size(), -1);  // by the buffer of all
    for (const Step& s : program_.steps)
      if (s.kind == StepKind::all_reduce) bucket_of[s.outputs[0]] = s.bucket;
    const auto carried = [&](BufferId id) { return id.present() ? bucket_of[root_of(program_.buffers, id)] : -1; };
    std::vector<StepId> written(buckets, StepId{-1}), summed(buckets, StepId{-1});
    waited_.assign(buckets, false);
    for (Step s : program_.steps) {
      if (s.kind == StepKind::all_reduce) {
        const auto bucket = static_cast<std::size_t>(s.bucket);
        if (written[bucket].index >= 0) s.waits = {written[bucket]};
        s.bytes = static_cast<double>(at(device_, s.outputs[0]).operand.bytes());
        s.seconds = plan_.buckets[bucket].seconds;
        device_.steps.push_back(std::move(s));
        summed[bucket] = last_step();
        continue;
      }
      for (const BufferId in : s.inputs) {
        const int bucket = carried(in);
        if (bucket < 0 || waited_[static_cast<std::size_t>(bucket)] || summed[static_cast<std::size_t>(bucket)].index < 0) continue;
        s.waits.push_back(summed[static_cast<std::size_t>(bucket)]);
        waited_[static_cast<std::size_t>(bucket)] = true;
      }
      device_.steps.push_back(std::move(s));
      for (const BufferId out : device_.steps.back().outputs)
        if (const int bucket = carried(out); bucket >= 0) written[static_cast<std::size_t>(bucket)] = last_step();
    }
  }

  void add_concats() {
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      Step s{.kind = StepKind::concat, .inputs = {program_.outputs[i]}, .host = static_cast<int>(i)};
      s.bytes = static_cast<double>(at(device_, program_.outputs[i]).operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      device_.steps.push_back(std::move(s));
    }
  }

  void drop_unused_buffers() {
    IdVector<BufferId, bool> used(device_.buffers.size());
    for (const Step& s : device_.steps)
      for (const auto* list : {&s.inputs, &s.outputs})
        for (BufferId id : *list)
          for (; id.present(); id = at(device_, id).alias) used[id] = true;
    for (const Step& s : device_.steps)
      if (s.workspace.present()) used[s.workspace] = true;
    IdVector<BufferId, BufferId> now(used.size());
    std::vector<Buffer> kept;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      now[i] = {static_cast<int>(kept.size())};
      kept.push_back(std::move(device_.buffers[i]));
    }
    device_.buffers = std::move(kept);
    const auto renumber = [&](BufferId& id) {
      if (id.present()) id = now[id];
    };
    for (Buffer& b : device_.buffers) renumber(b.alias);
    for (Step& s : device_.steps) {
      for (BufferId& id : s.inputs) renumber(id);
      for (BufferId& id : s.outputs) renumber(id);
      renumber(s.workspace);
    }
  }

  void find_lives() {
    const int steps = static_cast<int>(device_.steps.size());
    IdVector<BufferId, int> first(device_.buffers.size(), steps), last(device_.buffers.size(), -1);
    const auto use = [&](BufferId id, int s) {
      for (; id.present(); id = at(device_, id).alias) {
        first[id] = std::min(first[id], s);
        last[id] = std::max(last[id], s);
      }
    };
    for (int s = 0; s < steps; ++s) {
      const Step& step = device_.steps[static_cast<std::size_t>(s)];
      for (const BufferId id : step.inputs) use(id, s);
      for (const BufferId id : step.outputs) use(id, s);
      use(step.workspace, s);
      // A sum that no step waits for may run until the end.
      if (step.kind == StepKind::all_reduce && !waited_[static_cast<std::size_t>(step.bucket)]) use(step.outputs[0], steps - 1);
    }
    for (std::size_t i = 0; i < device_.buffers.size(); ++i) {
      Buffer& b = device_.buffers[i];
      const bool whole = b.arena != ArenaKind::scratch;
      b.first = {whole ? 0 : first[i]};
      b.last = {whole ? std::max(0, steps - 1) : last[i]};
    }
  }

  void place_scratch() {
    std::vector<Interval> intervals;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < device_.buffers.size(); ++i) {
      const Buffer& b = device_.buffers[i];
      if (b.arena != ArenaKind::scratch || b.alias.present()) continue;
      intervals.push_back({b.bytes, b.first.index, b.last.index});
      owner.push_back(i);
    }
    const Packing placed = place(intervals, options_.memory_order);
    for (std::size_t i = 0; i < owner.size(); ++i) device_.buffers[owner[i]].offset = placed.offsets[i];
    arena(device_, ArenaKind::scratch) = {ArenaKind::scratch, placed.bytes, placed.lower_bound};
    place_aliases();
    sum_memory(owner);
  }

  // An alias's offset is counted from where what it aliases begins, until here.
  void place_aliases() {
    const IdVector<BufferId, Buffer> relative = device_.buffers;
    for (Buffer& b : device_.buffers)
      for (BufferId id = b.alias; id.present(); id = relative[id].alias) {
        b.offset += relative[id].offset;
        b.arena = relative[id].arena;
      }
  }

  void sum_memory(const std::vector<std::size_t>& roots) {
    // Live scratch bytes step by step, to find the moment of the peak.
    std::vector<std::int64_t> change(device_.steps.size() + 2);
    for (const std::size_t i : roots) {
      const Buffer& b = device_.buffers[i];
      change[static_cast<std::size_t>(b.first.index)] += b.bytes;
      change[static_cast<std::size_t>(b.last.index) + 1] -= b.bytes;
    }
    int peak = 0;
    std::int64_t live = 0, most = -1;
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      live += change[s];
      if (live > most) most = live, peak = static_cast<int>(s);
    }
    std::map<MemoryClass, std::int64_t> sum;
    sum[MemoryClass::weights] = arena(device_, ArenaKind::parameters).bytes + arena(device_, ArenaKind::constants).bytes;
    sum[MemoryClass::optimizer_state] = arena(device_, ArenaKind::optimizer).bytes;
    sum[MemoryClass::gradients] = arena(device_, ArenaKind::gradients).bytes;
    sum[MemoryClass::inputs] = arena(device_, ArenaKind::staging).bytes;
    for (const std::size_t i : roots) {
      const Buffer& b = device_.buffers[i];
      if (b.first.index <= peak && peak <= b.last.index) sum[b.memory] += b.bytes;
    }
    for (const MemoryClass c : memory_classes) device_.memory.push_back({c, sum[c]});
  }

  Plan& plan_;
  const Replica& replica_;
  const LoweredGraph& program_;
  const CompileOptions& options_;
  DevicePlan device_;
  std::vector<bool> waited_;  // by bucket: some step waits for its sum
};

// A ring moves every byte twice over each link, less its own share; few bytes cost no less than a kernel does.
double seconds_of(const Bucket& bucket, const DeviceModel& device, int devices) {
  if (device.link_bandwidth <= 0) return 0;
  const double bytes = static_cast<double>(bucket.elements) * static_cast<double>(size_of(bucket.dtype));
  return device.launch_seconds + 2 * bytes * (devices - 1) / devices / device.link_bandwidth;
}

void list_host_tensors(Plan& plan, const Replica& leader, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows) {
  const LoweredGraph& p = *leader.program;
  for (const LoweredInput& in : p.inputs) {
    const Operand& o = p.buffers[in.buffer].operand;
    HostInput host{.name = in.name, .type = {o.dtype, o.shape}};
    host.batched = !is_state(in) && has_batch(host.type, leader.slice_size);
    if (host.batched) host.type.shape[0] = plan.batch;
    plan.inputs.push_back(std::move(host));
  }
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const Operand& o = p.buffers[p.outputs[i]].operand;
    HostOutput host{.name = output_names[i], .type = {o.dtype, o.shape}, .combine = Combine::sum};
    if (rows[i] > 0) {
      host.combine = Combine::rows;
      host.type.shape[0] = rows[i] * plan.batch;
    }
    plan.outputs.push_back(std::move(host));
  }
}

void place_parameters(Plan& plan, const LoweredGraph& leader, const Plan* parameters_of) {
  if (parameters_of) {
    plan.parameters = parameters_of->parameters;
    std::set<std::string_view> known;
    for (const PlanParameter& p : plan.parameters) known.insert(p.name);
    for (const LoweredParameter& p : leader.parameters)
      if (!known.count(p.name)) fail("parameter '", p.name, "' is not in the plan this one shares parameters with");
    if (plan.mode == PlanMode::inference) return;
    std::set<std::string_view> own;
    for (const LoweredParameter& p : leader.parameters) own.insert(p.name);
    for (const PlanParameter& p : plan.parameters)
      if (!p.copy_of.empty() && !own.count(p.name)) fail("parameter '", p.name, "' of the plan this one shares parameters with would not follow '", p.copy_of, "'");
    return;
  }
  std::int64_t ends[std::size(arena_kinds)] = {};
  for (const LoweredParameter& p : leader.parameters) {
    const Buffer& b = leader.buffers[p.buffer];
    auto& end = ends[static_cast<std::size_t>(b.arena)];
    plan.parameters.push_back({p.name, p.type, p.source, b.operand, b.arena, end, p.trainable, p.copy_of});
    end += b.bytes;
  }
}

}  // namespace

void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows, const CompileOptions& options, const Plan* parameters_of) {
  const Replica& leader = *std::max_element(replicas.begin(), replicas.end(), [](const Replica& a, const Replica& b) { return a.slice_size < b.slice_size; });
  place_parameters(plan, *leader.program, parameters_of);
  list_host_tensors(plan, leader, output_names, rows);
  plan.buckets = leader.program->buckets;
  for (Bucket& b : plan.buckets) b.seconds = seconds_of(b, leader.model, static_cast<int>(replicas.size()));
  for (const Replica& r : replicas) plan.devices.push_back(DeviceAssembler(plan, r, options).run());
  for (const DevicePlan& d : plan.devices) plan.seconds = std::max(plan.seconds, timeline_of(d).seconds);
}

}  // namespace tandem
