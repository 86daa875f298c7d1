#include "planner/memory/assemble.h"

#include <algorithm>
#include <set>

#include "planner/memory/place.h"
#include "planner/plan/format.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

Arena& arena(DevicePlan& d, ArenaKind kind) { return d.arenas[static_cast<std::size_t>(kind)]; }
Buffer& at(DevicePlan& d, BufferId id) { return d.buffers[static_cast<std::size_t>(id.index)]; }
bool has_batch(const TensorType& t, std::int64_t samples) { return t.shape.rank() > 0 && t.shape[0] == samples; }
bool is_state_input(std::string_view name) { return name.starts_with("tandem."); }

class DeviceAssembler {
 public:
  DeviceAssembler(Plan& plan, const Replica& replica, const BucketPlan& buckets, const CompileOptions& options)
      : plan_(plan), replica_(replica), program_(*replica.program), buckets_(buckets), options_(options) {}

  DevicePlan run() {
    device_ = {.device = replica_.spec.id, .model = replica_.model, .weight = replica_.spec.weight, .slice_begin = replica_.slice_begin, .slice_size = replica_.slice_size};
    for (const ArenaKind kind : arena_kinds) device_.arenas.push_back({kind, 0, 0});
    device_.buffers = program_.buffers;
    place_persistent();
    bind_buckets();
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
    sizes[static_cast<std::size_t>(ArenaKind::gradients)] = buckets_.bytes;
    for (const ArenaKind kind : {ArenaKind::parameters, ArenaKind::optimizer, ArenaKind::gradients, ArenaKind::constants})
      arena(device_, kind).bytes = arena(device_, kind).lower_bound = sizes[static_cast<std::size_t>(kind)];
  }

  // Each bucket is one buffer; the values it carries lie in it.
  void bind_buckets() {
    for (std::size_t i = 0; i < buckets_.offsets.size(); ++i) {
      const Bucket& bucket = buckets_.buckets[i];
      Buffer b{.name = bucket.name, .operand = {bucket.dtype, Shape{bucket.elements}, Layout::row_major(1)}, .memory = MemoryClass::gradients, .arena = ArenaKind::gradients, .offset = buckets_.offsets[i]};
      b.bytes = aligned(b.operand.bytes());
      device_.buffers.push_back(std::move(b));
      bucket_buffers_.push_back({static_cast<int>(device_.buffers.size()) - 1});
    }
    for (const auto& [name, id] : program_.reduced) {
      const BucketPlan::Place& place = buckets_.places.at(name);
      Buffer& b = at(device_, id);
      b.alias = bucket_buffers_[static_cast<std::size_t>(place.bucket)];
      b.offset = buckets_.offsets[static_cast<std::size_t>(place.bucket)] + place.offset;
      bucket_of_[id.index] = place.bucket;
    }
  }

  // The bucket that carries a buffer's value, -1 for none.
  int bucket_of(BufferId id) const {
    for (; id.present(); id = device_.buffers[static_cast<std::size_t>(id.index)].alias)
      if (const auto it = bucket_of_.find(id.index); it != bucket_of_.end()) return it->second;
    return -1;
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
      if (replica_.stages_inputs && !is_state_input(in.name)) s.workspace = add_staging(in.buffer);
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

  // A bucket is summed as soon as its last value is there and the sums before it are under way: every device issues
  // them in the order of `sequence`, the leader's own.
  void add_steps() {
    std::vector<std::size_t> missing(bucket_buffers_.size());
    for (const auto& [value, bucket] : bucket_of_) ++missing[static_cast<std::size_t>(bucket)];
    std::vector<StepId> last_value(bucket_buffers_.size(), StepId{-1}), reduced(plan_.buckets.size(), StepId{-1});
    std::vector<bool>& waited = waited_;
    waited.assign(plan_.buckets.size(), false);
    std::size_t next = 0;
    const auto issue = [&](Step s, std::size_t bucket, StepId after) {
      s.bucket = static_cast<int>(bucket);
      s.stream = communication_stream;
      if (after.index >= 0) s.waits = {after};
      s.bytes = static_cast<double>(at(device_, s.outputs[0]).operand.bytes());
      s.seconds = plan_.buckets[bucket].seconds;
      device_.steps.push_back(std::move(s));
      reduced[bucket] = last_step();
      ++next;
    };
    const auto issue_ready = [&] {
      while (next < buckets_.sequence.size()) {
        const auto bucket = static_cast<std::size_t>(buckets_.sequence[next]);
        if (bucket >= bucket_buffers_.size() || missing[bucket] > 0) return;
        issue({.kind = StepKind::all_reduce, .outputs = {bucket_buffers_[bucket]}}, bucket, last_value[bucket]);
      }
    };
    for (const Step& original : program_.steps) {
      if (original.kind == StepKind::all_reduce) {
        issue_ready();
        const auto bucket = static_cast<std::size_t>(buckets_.sequence.at(next));
        if (bucket < bucket_buffers_.size()) fail("planner: sums over devices are out of order");
        bucket_of_[original.outputs[0].index] = static_cast<int>(bucket);
        issue(original, bucket, last_step());
        issue_ready();
        continue;
      }
      Step s = original;
      for (const BufferId in : s.inputs) {
        const int carried = bucket_of(in);
        if (carried < 0 || waited[static_cast<std::size_t>(carried)]) continue;
        const auto bucket = static_cast<std::size_t>(carried);
        if (reduced[bucket].index < 0) fail("planner: '", at(device_, in).name, "' is read before it is summed over devices");
        s.waits.push_back(reduced[bucket]);
        waited[bucket] = true;
      }
      device_.steps.push_back(std::move(s));
      for (const BufferId out : original.outputs) {
        const auto it = out.present() ? bucket_of_.find(out.index) : bucket_of_.end();
        if (it == bucket_of_.end()) continue;
        --missing[static_cast<std::size_t>(it->second)];
        last_value[static_cast<std::size_t>(it->second)] = last_step();
      }
      issue_ready();
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
    std::map<int, int> buckets;
    for (const auto& [buffer, bucket] : bucket_of_)
      if (used[static_cast<std::size_t>(buffer)]) buckets[now[static_cast<std::size_t>(buffer)].index] = bucket;
    bucket_of_ = std::move(buckets);
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
    const Placement placed = place(intervals, options_.memory_order);
    for (std::size_t i = 0; i < owner.size(); ++i) device_.buffers[owner[i]].offset = placed.offsets[i];
    arena(device_, ArenaKind::scratch) = {ArenaKind::scratch, placed.bytes, placed.lower_bound};
    for (std::size_t i = 0; i < device_.buffers.size(); ++i) {
      Buffer& b = device_.buffers[i];
      if (!b.alias.present() || (b.arena == ArenaKind::gradients && bucket_of_.count(static_cast<int>(i)))) continue;
      if (b.arena == ArenaKind::gradients) {  // another name for a value in a bucket
        b.offset = at(device_, b.alias).offset;
        continue;
      }
      const Buffer& root = at(device_, root_of(device_.buffers, {static_cast<int>(i)}));
      b.offset = root.offset;
      b.arena = root.arena;
    }
    sum_memory(owner);
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
  const BucketPlan& buckets_;
  const CompileOptions& options_;
  DevicePlan device_;
  std::vector<BufferId> bucket_buffers_;
  std::vector<bool> waited_;      // by bucket: some step waits for its sum
  std::map<int, int> bucket_of_;  // by buffer of a reduced value
};

void list_host_tensors(Plan& plan, const Replica& leader, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows) {
  const LoweredGraph& p = *leader.program;
  for (const LoweredInput& in : p.inputs) {
    const Operand& o = p.buffers[in.buffer].operand;
    HostInput host{.name = in.name, .type = {o.dtype, o.shape}};
    host.batched = !is_state_input(in.name) && has_batch(host.type, leader.slice_size);
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
  const BucketPlan buckets = plan_buckets(*leader.program, options, leader.model, static_cast<int>(replicas.size()));
  plan.buckets = buckets.buckets;
  for (const Replica& r : replicas) plan.devices.push_back(DeviceAssembler(plan, r, buckets, options).run());
  for (const DevicePlan& d : plan.devices) plan.seconds = std::max(plan.seconds, timeline_of(d).seconds);
}

}  // namespace tandem
