// A program of a plan: a class of devices' steps with slices, waits and concats around them, and where every buffer lies.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/memory/assemble.h"
#include "planner/memory/place.h"
#include "planner/plan/format.h"

namespace tandem {
namespace {

Arena& arena(DeviceProgram& d, ArenaKind kind) { return d.arenas[static_cast<std::size_t>(kind)]; }

class ProgramAssembler {
 public:
  ProgramAssembler(const Plan& plan, ProgramId id, const Replica& replica, const CompileOptions& options)
      : plan_(plan), id_(id), replica_(replica), program_(*replica.program), options_(options) {
    for (std::size_t e = 0; e < plan.exchanges.size(); ++e) exchanges_.emplace(plan.exchanges[e].name, static_cast<int>(e));
  }

  DeviceProgram run() {
    device_.model = replica_.model;
    for (const ArenaKind kind : arena_kinds) device_.arenas.push_back({kind, 0, 0});
    device_.buffers = program_.buffers;
    place_persistent();
    add_slices();
    scheduled() ? add_phased_steps() : add_steps();
    add_concats();
    if (scheduled()) {
      std::ranges::stable_sort(device_.steps, {}, place_of);
      device_.schedule = replica_.schedule.entries;
      device_.slots = replica_.schedule.slots;
    }
    drop_unused_buffers();
    scheduled() ? find_phased_lives(device_) : find_lives();
    place_scratch();
    return std::move(device_);
  }

 private:
  bool scheduled() const { return !replica_.schedule.entries.empty(); }
  static std::pair<Phase, int> place_of(const Step& s) { return {s.phase, s.chunk}; }

  StepId last_step() const { return {static_cast<int>(device_.steps.size()) - 1}; }

  void place_persistent() {
    std::int64_t sizes[std::size(arena_kinds)] = {};
    std::map<ParameterKey, const ProgramPart*> by_key;
    const std::set<int> read = read_buffers();
    for (const PlanParameter& p : plan_.parameters) {
      const ProgramPart* part = p.on(id_);
      if (!part) continue;
      by_key[p.key()] = part;
      auto& end = sizes[static_cast<std::size_t>(p.arena)];
      end = std::max(end, part->offset + aligned(part->operand.bytes(), replica_.model.alignment));
    }
    for (const LoweredParameter& p : program_.parameters) {
      const auto kept = by_key.find(p.key());
      if (kept != by_key.end()) device_.buffers[p.buffer].offset = kept->second->offset;
      if (kept == by_key.end() && read.contains(p.buffer.index))
        fail("parameter '", p.name, "' is read on device ", replica_.spec.id, ", which keeps nothing of it");
    }
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

  std::set<int> read_buffers() const {  // whose memory it is
    std::set<int> read;
    for (const Step& s : program_.steps)
      for (const BufferId in : s.inputs)
        if (in.present()) read.insert(root_of(program_.buffers, in).index);
    for (const BufferId out : program_.outputs) read.insert(root_of(program_.buffers, out).index);
    return read;
  }

  void add_slices() {
    const std::set<int> read = read_buffers();
    for (const LoweredInput& in : program_.inputs) {
      if (!read.count(in.buffer.index)) continue;
      const auto host = std::find_if(plan_.inputs.begin(), plan_.inputs.end(), [&](const HostInput& h) { return in.feeds(h); });
      Step s{.what = SliceStep{static_cast<int>(host - plan_.inputs.begin())}, .outputs = {in.buffer}};
      s.bytes = static_cast<double>(device_.buffers[in.buffer].operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      if (replica_.stages_inputs && !in.is_state() && !scheduled()) s.workspace = add_staging(in.buffer);
      std::tie(s.phase, s.chunk) = phase_of_input(in, plan_.inputs[at(s.as<SliceStep>()->host)]);
      device_.steps.push_back(std::move(s));
    }
    Arena& staging = arena(device_, ArenaKind::staging);
    staging.lower_bound = staging.bytes;
  }

  // What each micro-batch has of its own comes where it is first read, be it as an output.
  std::pair<Phase, int> phase_of_input(const LoweredInput& in, const HostInput& host) const {
    if (!host.batched && in.role != ValueRole::gradient && !(in.is_state() && in.of != step_scalars)) return {Phase::prepare, 0};
    const auto is_it = [&](BufferId id) { return id.present() && root_of(program_.buffers, id) == in.buffer; };
    const auto reads = [&](const Step& s) { return std::ranges::any_of(s.inputs, is_it); };
    const auto first = std::ranges::find_if(program_.steps, reads);
    const std::pair<Phase, int> as_output = made_in(program_, in.buffer);
    if (first == program_.steps.end()) return as_output;
    return std::ranges::any_of(program_.outputs, is_it) ? std::min(place_of(*first), as_output) : place_of(*first);
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
    IdVector<BufferId, StepId> written(program_.buffers.size());  // by root: the last step of the compute stream that did
    reads_ = writes_ = written;
    const auto root = [&](BufferId id) { return root_of(program_.buffers, id); };
    StepId computed = last_step();
    const int slices = computed.index + 1;
    for (StepId s{0}; s <= computed; ++s.index) written[root(device_.steps[s].outputs[0])] = s;  // slices
    for (Step s : program_.steps) {
      if (auto* exchange = s.as<ExchangeStep>()) take_from_plan(s, *exchange);
      for (const StepId w : std::exchange(s.waits, {})) wait_for(s, {slices + w.index});
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
        for (const BufferId b : in) wait_for(s, writes_[b]);
        for (const BufferId b : out) {
          wait_for(s, writes_[b]);
          wait_for(s, reads_[b]);
        }
      }
      const bool beside = s.stream != compute_stream;
      device_.steps.push_back(std::move(s));
      if (!beside) computed = last_step();
      for (const BufferId b : in)
        if (beside) reads_[b] = last_step();
      for (const BufferId b : out) (beside ? writes_ : written)[b] = last_step();
      if (beside) {
        in.insert(in.end(), out.begin(), out.end());
        touched_[last_step()] = std::move(in);
      }
    }
  }

  // Waits follow when the schedule is written out (expanded).
  void add_phased_steps() {
    for (Step s : program_.steps) {
      if (auto* exchange = s.as<ExchangeStep>()) take_from_plan(s, *exchange);
      device_.steps.push_back(std::move(s));
    }
  }

  // Makes a step of the compute stream wait for one beside it, where nothing has yet, and so for those before that.
  void wait_for(Step& s, StepId beside) {
    if (beside.index < 0) return;
    s.waits.push_back(beside);
    for (auto* pending : {&reads_, &writes_})
      for (const BufferId b : touched_[beside])
        if ((*pending)[b] <= beside) (*pending)[b] = {};
  }

  // The program's exchange becomes the plan's of that name.
  void take_from_plan(Step& s, ExchangeStep& step) {
    step.exchange = {exchanges_.at(program_.exchanges[step.exchange].name)};
    s.seconds = plan_.exchanges[step.exchange].seconds;
    for (const auto* list : {&s.inputs, &s.outputs})
      for (const BufferId id : *list) s.bytes = std::max(s.bytes, static_cast<double>(device_.buffers[id].operand.bytes()));
  }

  void add_concats() {
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      Step s{.what = ConcatStep{replica_.output(i)}, .inputs = {program_.outputs[i]}};
      s.bytes = static_cast<double>(device_.buffers[program_.outputs[i]].operand.bytes());
      s.seconds = estimate(0, 2 * s.bytes, 1, replica_.model);
      if (scheduled())
        std::tie(s.phase, s.chunk) = made_in(program_, program_.outputs[i]);
      else
        wait_for(s, writes_[root_of(program_.buffers, program_.outputs[i])]);
      device_.steps.push_back(std::move(s));
    }
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

  // Slots lie behind all else, one behind the other.
  void place_scratch() {
    std::vector<std::size_t> owner, in_slots;
    const Packing placed = placed_scratch(false, owner), slot = placed_scratch(true, in_slots);
    const std::int64_t alignment = std::max<std::int64_t>(plan_alignment, replica_.model.alignment),
                       before = aligned(placed.bytes, alignment);
    device_.slot_bytes = in_slots.empty() ? 0 : aligned(slot.bytes, alignment);
    if (in_slots.empty()) device_.slots = scheduled() ? std::max(1, device_.slots) : 0;
    for (const std::size_t i : in_slots) device_.buffers[i].offset += before;
    const std::int64_t slots = in_slots.empty() ? 0 : device_.slots;
    arena(device_, ArenaKind::scratch) = {ArenaKind::scratch, slots > 0 ? before + slots * device_.slot_bytes : placed.bytes,
                                          placed.lower_bound + slots * slot.lower_bound};
    place_aliases();
    sum_memory(owner, in_slots);
  }

  Packing placed_scratch(bool in_slot, std::vector<std::size_t>& owner) {
    std::vector<Interval> intervals;
    for (std::size_t i = 0; i < device_.buffers.size(); ++i) {
      const Buffer& b = device_.buffers[i];
      if (b.arena != ArenaKind::scratch || b.alias.present() || b.in_slot != in_slot) continue;
      intervals.push_back({b.bytes, b.first.index, b.last.index});
      owner.push_back(i);
    }
    Packing placed = place(intervals, options_.memory.order);
    for (std::size_t i = 0; i < owner.size(); ++i) device_.buffers[owner[i]].offset = placed.offsets[i];
    return placed;
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

  // Bytes by class when most are live; of what lies in slots, when most of a slot is, in all of them.
  void sum_memory(const std::vector<std::size_t>& roots, const std::vector<std::size_t>& in_slots) {
    std::map<MemoryClass, std::int64_t> sum;
    sum[MemoryClass::weights] = arena(device_, ArenaKind::parameters).bytes + arena(device_, ArenaKind::constants).bytes;
    sum[MemoryClass::optimizer_state] = arena(device_, ArenaKind::optimizer).bytes;
    sum[MemoryClass::gradients] = arena(device_, ArenaKind::gradients).bytes;
    sum[MemoryClass::inputs] = arena(device_, ArenaKind::staging).bytes;
    add_peak(roots, 1, sum);
    add_peak(in_slots, device_.slots, sum);
    for (const MemoryClass c : memory_classes) device_.memory.push_back({c, sum[c]});
  }

  void add_peak(const std::vector<std::size_t>& roots, std::int64_t times, std::map<MemoryClass, std::int64_t>& sum) const {
    std::vector<std::int64_t> change(device_.steps.size() + 2);  // of live bytes, step by step
    for (const std::size_t i : roots) {
      const Buffer& b = device_.buffers[i];
      change[at(b.first.index)] += b.bytes;
      change[at(b.last.index) + 1] -= b.bytes;
    }
    int peak = 0;
    std::int64_t live = 0, most = -1;
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      live += change[s];
      if (live <= most) continue;
      most = live;
      peak = static_cast<int>(s);
    }
    for (const std::size_t i : roots) {
      const Buffer& b = device_.buffers[i];
      if (b.first.index <= peak && peak <= b.last.index) sum[b.memory] += times * b.bytes;
    }
  }

  const Plan& plan_;
  const ProgramId id_;
  const Replica& replica_;
  const LoweredGraph& program_;
  const CompileOptions& options_;
  std::map<std::string_view, int> exchanges_;  // of the plan, by name
  DeviceProgram device_;
  IdVector<BufferId, StepId> reads_, writes_;        // by root: the step beside the compute stream that nothing has waited for yet
  std::map<StepId, std::vector<BufferId>> touched_;  // by step beside the compute stream: roots of its operands
};

}  // namespace

DeviceProgram assemble_program(const Plan& plan, ProgramId program, const Replica& replica, const CompileOptions& options) {
  return ProgramAssembler(plan, program, replica, options).run();
}

}  // namespace tandem
