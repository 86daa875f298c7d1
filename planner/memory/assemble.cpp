#include "planner/memory/assemble.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "planner/memory/place.h"
#include "planner/plan/format.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

Arena& arena(DevicePlan& d, ArenaKind kind) { return d.arenas[static_cast<std::size_t>(kind)]; }
bool has_batch(const TensorType& t, std::int64_t samples) { return t.shape.rank() > 0 && t.shape[0] == samples; }
bool is_state(const LoweredInput& in) { return in.role == ValueRole::step_state; }

class DeviceAssembler {
 public:
  DeviceAssembler(Plan& plan, int index, const Replica& replica, std::span<const std::int64_t> rows, const CompileOptions& options)
      : plan_(plan), index_(index), replica_(replica), program_(*replica.program), rows_(rows), options_(options) {}

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
    std::map<std::string_view, const ParameterPart*> by_name;
    for (const PlanParameter& p : plan_.parameters) {
      const ParameterPart* part = p.on(index_);
      if (!part) continue;
      by_name[p.name] = part;
      auto& end = sizes[static_cast<std::size_t>(p.arena)];
      end = std::max(end, part->offset + aligned(part->operand.bytes()));
    }
    for (const LoweredParameter& p : program_.parameters) device_.buffers[p.buffer].offset = by_name.at(p.name)->offset;
    auto& constants = sizes[static_cast<std::size_t>(ArenaKind::constants)];
    for (Buffer& b : device_.buffers)
      if (b.arena == ArenaKind::constants && !b.alias.present()) {
        b.offset = constants;
        constants += b.bytes;
      }
    auto& gradients = sizes[static_cast<std::size_t>(ArenaKind::gradients)];
    for (Buffer& b : device_.buffers)
      if (b.arena == ArenaKind::gradients && !b.alias.present()) {
        b.offset = gradients;
        gradients += b.bytes;
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
      Step s{.what = SliceStep{static_cast<int>(host - plan_.inputs.begin()), host->batched ? replica_.slice_begin : 0}, .outputs = {in.buffer}};
      s.bytes = static_cast<double>(device_.buffers[in.buffer].operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      if (replica_.stages_inputs && !is_state(in)) s.workspace = add_staging(in.buffer);
      device_.steps.push_back(std::move(s));
    }
    Arena& staging = arena(device_, ArenaKind::staging);
    staging.lower_bound = staging.bytes;
  }

  BufferId add_staging(BufferId input) {
    Buffer b = device_.buffers[input];
    if (b.bytes == 0) return {};
    b.name += "/staging";
    b.arena = ArenaKind::staging;
    b.offset = arena(device_, ArenaKind::staging).bytes;
    arena(device_, ArenaKind::staging).bytes += b.bytes;
    return device_.buffers.add(std::move(b));
  }

  // What runs beside the compute stream waits for the last step there that writes what it takes; into scratch memory, which
  // others had before, it writes when all issued before has ended. The first step that needs its result, or the memory it
  // reads, waits for it.
  void add_steps() {
    IdVector<BufferId, StepId> written(program_.buffers.size());               // by root: the last step of the compute stream that did
    IdVector<BufferId, StepId> reads(program_.buffers.size()), writes(written);  // by root: the step beside it that nothing has waited for yet
    const auto root = [&](BufferId id) { return root_of(program_.buffers, id); };
    StepId computed;
    for (Step s : program_.steps) {
      if (auto* exchange = s.as<ExchangeStep>()) take_from_plan(s, *exchange);
      std::vector<BufferId> in, out;
      for (const BufferId id : s.inputs)
        if (id.present()) in.push_back(root(id));
      for (const BufferId id : s.outputs)
        if (id.present()) out.push_back(root(id));
      if (s.stream != compute_stream) {
        StepId last;
        for (const BufferId b : in) last = std::max(last, written[b]);
        for (const BufferId b : out) last = std::max(last, program_.buffers[b].arena == ArenaKind::scratch ? computed : written[b]);
        if (last.index >= 0) s.waits.push_back(last);
      } else {
        const auto wait_for = [&](StepId step) {
          if (step.index < 0) return;
          s.waits.push_back(step);
          for (auto* pending : {&reads, &writes})
            for (const BufferId b : touched_[step]) (*pending)[b] = {};
        };
        for (const BufferId b : in) wait_for(writes[b]);
        for (const BufferId b : out) {
          wait_for(writes[b]);
          wait_for(reads[b]);
        }
      }
      const bool beside = s.stream != compute_stream;
      device_.steps.push_back(std::move(s));
      if (!beside) computed = last_step();
      for (const BufferId b : in)
        if (beside) reads[b] = last_step();
      for (const BufferId b : out) (beside ? writes : written)[b] = last_step();
      if (beside) {
        in.insert(in.end(), out.begin(), out.end());
        touched_[last_step()] = std::move(in);
      }
    }
  }

  // The program's exchange becomes the plan's of that name.
  void take_from_plan(Step& s, ExchangeStep& step) {
    const std::string& name = program_.exchanges[step.exchange].name;
    const auto found = std::find_if(plan_.exchanges.begin(), plan_.exchanges.end(), [&](const Exchange& e) { return e.name == name; });
    step.exchange = {static_cast<int>(found - plan_.exchanges.begin())};
    s.seconds = found->seconds;
    for (const auto* list : {&s.inputs, &s.outputs})
      for (const BufferId id : *list) s.bytes = std::max(s.bytes, static_cast<double>(device_.buffers[id].operand.bytes()));
  }

  void add_concats() {
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const auto host = static_cast<std::size_t>(replica_.output(i));
      const HostOutput& output = plan_.outputs[host];
      const std::int64_t begin = output.combine == Combine::rows ? rows_[host] * replica_.slice_begin : parts_before(host);
      Step s{.what = ConcatStep{static_cast<int>(host), begin}, .inputs = {program_.outputs[i]}};
      s.bytes = static_cast<double>(device_.buffers[program_.outputs[i]].operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      device_.steps.push_back(std::move(s));
    }
  }

  // How many of the devices before this one give the output, too.
  std::int64_t parts_before(std::size_t host) const {
    std::int64_t count = 0;
    for (const DevicePlan& d : plan_.devices)
      for (const Step& s : d.steps)
        if (const auto* part = s.as<ConcatStep>()) count += part->host == static_cast<int>(host);
    return count;
  }

  void drop_unused_buffers() {
    IdVector<BufferId, bool> used(device_.buffers.size());
    for (const Step& s : device_.steps)
      for (const auto* list : {&s.inputs, &s.outputs})
        for (BufferId id : *list)
          for (; id.present(); id = device_.buffers[id].alias) used[id] = true;
    for (const Step& s : device_.steps)
      if (s.workspace.present()) used[s.workspace] = true;
    IdVector<BufferId, BufferId> now(used.size());
    IdVector<BufferId, Buffer> kept;
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i]) now[i] = kept.add(std::move(device_.buffers[i]));
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
      for (; id.present(); id = device_.buffers[id].alias) {
        first[id] = std::min(first[id], s);
        last[id] = std::max(last[id], s);
      }
    };
    const IdVector<StepId, int> ended = known_to_have_ended();
    for (StepId s{0}; s.index < steps; ++s.index) {
      const Step& step = device_.steps[s];
      for (const int at : {s.index, ended[s]}) {
        for (const BufferId id : step.inputs) use(id, at);
        for (const BufferId id : step.outputs) use(id, at);
        use(step.workspace, at);
      }
    }
    for (std::size_t i = 0; i < device_.buffers.size(); ++i) {
      Buffer& b = device_.buffers[i];
      const bool whole = b.arena != ArenaKind::scratch;
      b.first = {whole ? 0 : first[i]};
      b.last = {whole ? std::max(0, steps - 1) : last[i]};
    }
  }

  // When a step's memory may be another's: at once on the compute stream; beside it, when a step there has waited for it, or for
  // what follows it in its stream.
  IdVector<StepId, int> known_to_have_ended() const {
    const int steps = static_cast<int>(device_.steps.size());
    IdVector<StepId, int> ended(device_.steps.size(), steps - 1);
    for (StepId s{steps - 1}; s.index >= 0; --s.index)
      for (const StepId w : device_.steps[s].waits)
        if (device_.steps[s].stream == compute_stream) ended[w] = s.index;
    std::vector<int> next(plan_streams, steps - 1);  // by stream
    for (StepId s{steps - 1}; s.index >= 0; --s.index) {
      int& later = next[static_cast<std::size_t>(device_.steps[s].stream)];
      later = ended[s] = device_.steps[s].stream == compute_stream ? s.index : std::min(ended[s], later);
    }
    return ended;
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
  const int index_;
  const Replica& replica_;
  const LoweredGraph& program_;
  const std::span<const std::int64_t> rows_;
  const CompileOptions& options_;
  DevicePlan device_;
  std::map<StepId, std::vector<BufferId>> touched_;  // by step beside the compute stream: roots of its operands
};

// A ring moves every byte of a sum twice over each link, less its own share; few bytes cost no less than a kernel does.
double seconds_of(const Exchange& exchange, const DeviceModel& device) {
  if (device.link_bandwidth <= 0) return 0;
  const double bytes = static_cast<double>(exchange.elements) * static_cast<double>(size_of(exchange.dtype));
  const double members = static_cast<double>(exchange.devices.size());
  double moved = bytes;
  if (exchange.kind == ExchangeKind::all_reduce) moved = 2 * bytes * (members - 1) / members;
  if (exchange.kind == ExchangeKind::reduce_scatter || exchange.kind == ExchangeKind::all_gather) moved = bytes * (members - 1) / members;
  return device.launch_seconds + moved / device.link_bandwidth;
}

class PlanAssembler {
 public:
  PlanAssembler(Plan& plan, const std::vector<Replica>& replicas) : plan_(plan), replicas_(replicas) {
    for (const Replica& r : replicas) leader_first_.push_back(&r);
    const auto more = [](const Replica* a, const Replica* b) { return a->slice_size < b->slice_size; };
    const auto leader = std::max_element(leader_first_.begin(), leader_first_.end(), more);
    std::rotate(leader_first_.begin(), leader, std::next(leader));
  }

  void list_inputs() {
    for (const Replica* r : leader_first_)
      for (const LoweredInput& in : r->program->inputs) {
        if (std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const HostInput& h) { return h.name == in.name; })) continue;
        const Operand& o = r->program->buffers[in.buffer].operand;
        HostInput host{.name = in.name, .type = {o.dtype, o.shape}};
        host.batched = !is_state(in) && has_batch(host.type, r->slice_size);
        if (host.batched) host.type.shape[0] = plan_.batch;
        plan_.inputs.push_back(std::move(host));
      }
  }

  void list_outputs(const std::vector<std::string>& names, std::span<const std::int64_t> rows) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      HostOutput host{.name = names[i], .combine = rows[i] > 0 ? Combine::rows : Combine::sum, .parts = 0};
      for (const Replica* r : leader_first_)
        for (std::size_t o = 0; o < r->program->outputs.size(); ++o) {
          if (r->output(o) != static_cast<int>(i)) continue;
          const Operand& operand = r->program->buffers[r->program->outputs[o]].operand;
          if (host.parts++ == 0) host.type = {operand.dtype, operand.shape};
        }
      if (rows[i] > 0) {
        host.parts = 1;
        host.type.shape[0] = rows[i] * plan_.batch;
      }
      plan_.outputs.push_back(std::move(host));
    }
  }

  void list_exchanges() {
    std::vector<int> all(replicas_.size());
    std::iota(all.begin(), all.end(), 0);
    for (const Replica* r : leader_first_)
      for (const Exchange& e : r->program->exchanges) {
        if (std::any_of(plan_.exchanges.begin(), plan_.exchanges.end(), [&](const Exchange& x) { return x.name == e.name; })) continue;
        Exchange& exchange = plan_.exchanges.emplace_back(e);
        if (exchange.devices.empty()) exchange.devices = all;
        for (const int d : exchange.devices) exchange.seconds = std::max(exchange.seconds, seconds_of(exchange, replicas_[static_cast<std::size_t>(d)].model));
      }
  }

  // On every device its parameters lie one behind the other, in the order of the plan's.
  void place_parameters() {
    std::map<std::string_view, std::size_t> index;
    for (const Replica* r : leader_first_)
      for (const LoweredParameter& p : r->program->parameters)
        if (index.emplace(p.name, plan_.parameters.size()).second)
          plan_.parameters.push_back({p.name, p.type, p.source, r->program->buffers[p.buffer].arena, {}, p.trainable, p.copy_of});
    for (std::size_t d = 0; d < replicas_.size(); ++d) {
      // A device without samples keeps what the others keep: another batch may have some for it.
      const LoweredGraph& program = *(replicas_[d].slice_size > 0 ? replicas_[d] : *leader_first_[0]).program;
      std::vector<const LoweredParameter*> own(plan_.parameters.size());
      for (const LoweredParameter& p : program.parameters) own[index.at(p.name)] = &p;
      std::int64_t ends[std::size(arena_kinds)] = {};
      for (std::size_t p = 0; p < own.size(); ++p) {
        if (!own[p]) continue;
        const Buffer& b = program.buffers[own[p]->buffer];
        auto& end = ends[static_cast<std::size_t>(plan_.parameters[p].arena)];
        plan_.parameters[p].parts.push_back({static_cast<int>(d), b.operand, end, own[p]->axis, own[p]->begin});
        end += b.bytes;
      }
    }
  }

  void keep_parameters_of(const Plan& other) {
    plan_.parameters = other.parameters;
    std::set<std::string_view> known, own;
    for (const PlanParameter& p : plan_.parameters) known.insert(p.name);
    for (const Replica& r : replicas_)
      for (const LoweredParameter& p : r.program->parameters) {
        if (!known.count(p.name)) fail("parameter '", p.name, "' is not in the plan this one shares parameters with");
        own.insert(p.name);
      }
    if (plan_.mode == PlanMode::inference) return;
    for (const PlanParameter& p : plan_.parameters)
      if (!p.copy_of.empty() && !own.count(p.name)) fail("parameter '", p.name, "' of the plan this one shares parameters with would not follow '", p.copy_of, "'");
  }

 private:
  Plan& plan_;
  const std::vector<Replica>& replicas_;
  std::vector<const Replica*> leader_first_;  // the one with the most samples says in which order things stand
};

}  // namespace

void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows, const CompileOptions& options, const Plan* parameters_of) {
  PlanAssembler assembler(plan, replicas);
  parameters_of ? assembler.keep_parameters_of(*parameters_of) : assembler.place_parameters();
  assembler.list_inputs();
  assembler.list_outputs(output_names, rows);
  assembler.list_exchanges();
  for (std::size_t d = 0; d < replicas.size(); ++d) plan.devices.push_back(DeviceAssembler(plan, static_cast<int>(d), replicas[d], rows, options).run());
  for (const Timeline& t : timelines_of(plan)) plan.seconds = std::max(plan.seconds, t.seconds);
}

}  // namespace tandem
