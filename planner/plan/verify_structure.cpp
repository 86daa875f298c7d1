#include <algorithm>
#include <limits>
#include <map>

#include "planner/plan/verify.h"

namespace tandem {
namespace {

// Nothing here trusts an index: a hostile file comes through here too.
class StructureVerifier {
 public:
  StructureVerifier(const Plan& plan, ProgramId program, std::span<const int> devices, Breaches& breaches)
      : plan_(plan), id_(program), program_(plan.programs[program]), devices_(devices), breaches_(plan, program, breaches) {}

  bool run() {
    if (!check_arenas()) return false;
    check_parameters();
    const bool whole = check_schedule() && check_buffers() && check_steps();
    return whole;
  }

 private:
  bool sound() const { return breaches_.count() == 0; }
  const Buffer& at(BufferId id) const { return program_.buffers[id]; }
  bool exists(BufferId id) const { return id.index >= 0 && id.index < static_cast<int>(program_.buffers.size()); }
  std::int64_t arena_bytes(ArenaKind k) const { return program_.arenas[static_cast<std::size_t>(k)].bytes; }

  bool check_arenas() {
    bool right = program_.arenas.size() == std::size(arena_kinds);
    for (std::size_t i = 0; right && i < std::size(arena_kinds); ++i) right = program_.arenas[i].kind == arena_kinds[i];
    if (!right) {
      breaches_.add("arenas are not parameters, optimizer, gradients, scratch, constants, staging");
      return false;
    }
    for (const Arena& a : program_.arenas) {
      if (a.bytes < 0 || a.bytes > std::int64_t{1} << 56 || a.bytes % plan_alignment != 0)
        breaches_.add("arena ", name_of(a.kind), " has ", a.bytes, " bytes, expected a multiple of ", plan_alignment);
      if (a.lower_bound < 0 || a.lower_bound > a.bytes)
        breaches_.add("arena ", name_of(a.kind), ": lower bound ", a.lower_bound, " is outside 0 to ", a.bytes);
    }
    return true;
  }

  // Each micro-batch goes through the phases of each chunk once, in their order.
  bool check_schedule() {
    const std::int64_t micro_batches = plan_.micro_batches;
    if (program_.schedule.empty()) {
      if (micro_batches != 1) breaches_.add("has no schedule for ", micro_batches, " micro-batches");
      if (program_.slots != 0 || program_.slot_bytes != 0) breaches_.add("has slots without a schedule");
      return sound();
    }
    if (program_.slots < 0 || program_.slots > most_entries || program_.slot_bytes < 0 || program_.slot_bytes > most_slot_bytes ||
        program_.slot_bytes % plan_alignment != 0)
      breaches_.add("has ", program_.slots, " slots of ", program_.slot_bytes, " bytes");
    using Part = std::pair<Phase, int>;  // of a chunk
    std::map<Part, std::int64_t> steps;
    Part last{Phase::prepare, 0};
    for (const Step& s : program_.steps) {
      const Part part{s.phase, s.chunk};
      if (part < last || s.chunk < 0 || (!is_of_micro_batch(s.phase) && s.chunk != 0))
        breaches_.add("steps of phase ", name_of(s.phase), " of chunk ", s.chunk, " stand behind those of ", name_of(last.first),
                      " of chunk ", last.second);
      ++steps[last = part];
    }
    std::int64_t issued = 0;
    std::map<std::pair<int, int>, std::pair<Phase, int>> at_phase;  // by chunk and micro-batch: the last phase, and the slot
    std::map<Part, std::int64_t> done;
    for (const ScheduleEntry& e : program_.schedule) {
      if (!is_of_micro_batch(e.phase) || e.chunk < 0 || e.micro_batch < 0 || e.micro_batch >= micro_batches || e.slot < 0 ||
          e.slot >= std::max(1, program_.slots))
        breaches_.add("the schedule has phase ", name_of(e.phase), " of chunk ", e.chunk, " and micro-batch ", e.micro_batch, " of ",
                      micro_batches, " in slot ", e.slot, " of ", program_.slots);
      const auto [before, first] = at_phase.try_emplace({e.chunk, e.micro_batch}, e.phase, e.slot);
      if (!first && (e.phase <= before->second.first || e.slot != before->second.second))
        breaches_.add("micro-batch ", e.micro_batch, " goes from phase ", name_of(before->second.first), " of chunk ", e.chunk, " in slot ",
                      before->second.second, " to ", name_of(e.phase), " in slot ", e.slot);
      before->second.first = e.phase;
      ++done[{e.phase, e.chunk}];
      const auto own = steps.find({e.phase, e.chunk});
      issued += own == steps.end() ? 1 : own->second;
    }
    if (issued > most_entries) breaches_.add("the schedule has ", issued, " steps, expected at most ", most_entries);
    for (const auto& [part, count] : steps)
      if (is_of_micro_batch(part.first) && done[part] != micro_batches)
        breaches_.add(done[part], " of ", micro_batches, " micro-batches go through phase ", name_of(part.first), " of chunk ",
                      part.second);
    return sound();
  }
  static constexpr std::int64_t most_entries = std::int64_t{1} << 22, most_slot_bytes = std::int64_t{1} << 50;

  // Where a buffer ends in its last slot.
  std::int64_t end_of(const Buffer& b) const {
    return b.offset + b.bytes + (b.in_slot ? std::max(0, program_.slots - 1) * program_.slot_bytes : 0);
  }

  bool check_buffers() {
    const int steps = static_cast<int>(program_.steps.size());
    for (BufferId i{0}; exists(i); ++i.index) {
      const Buffer& b = at(i);
      if (const std::string reason = problem_of(b.operand); !reason.empty()) {
        breaches_.add(breaches_.buffer(i), ": ", reason);
        continue;
      }
      if (b.offset < 0 || b.offset % plan_alignment != 0)
        breaches_.add(breaches_.buffer(i), " lies at ", b.offset, ", expected a multiple of ", plan_alignment);
      if (b.bytes < b.operand.bytes() || b.bytes % plan_alignment != 0)
        breaches_.add(breaches_.buffer(i), " has ", b.bytes, " bytes, expected a multiple of ", plan_alignment, " that holds ",
                      b.operand.bytes());
      else if (b.offset >= 0 && (b.offset > arena_bytes(b.arena) || b.bytes > arena_bytes(b.arena) - b.offset ||
                                 end_of(b) > arena_bytes(b.arena)))
        breaches_.add(breaches_.buffer(i), " ends at ", b.offset, "+", b.bytes, ", past arena ", name_of(b.arena), "'s ",
                      arena_bytes(b.arena), " bytes");
      if (b.arena == ArenaKind::scratch && (b.first.index < 0 || b.last < b.first || b.last.index >= steps))
        breaches_.add(breaches_.buffer(i), " lives from step ", b.first.index, " to ", b.last.index, " of ", steps);
      if (b.in_slot && (b.arena != ArenaKind::scratch || program_.slots < 1))
        breaches_.add(breaches_.buffer(i), " in arena ", name_of(b.arena), " lies in one of ", program_.slots, " slots");
      if (b.alias.index < -1 || b.alias.index >= static_cast<int>(program_.buffers.size()) || b.alias == i)
        breaches_.add(breaches_.buffer(i), " shares buffer ", b.alias.index, ", which does not exist");
      if (b.constant) {
        const TensorType type{b.operand.dtype, b.operand.shape};
        if (b.constant->type() != type) breaches_.add(breaches_.buffer(i), " of ", type, " has a constant of ", b.constant->type());
        if (b.arena != ArenaKind::constants)
          breaches_.add(breaches_.buffer(i), " is a constant in arena ", name_of(b.arena), ", expected constants");
        if (b.operand.layout.opaque()) breaches_.add(breaches_.buffer(i), " is a constant with layout ", b.operand.layout);
      }
    }
    return find_roots();
  }

  bool find_roots() {
    constexpr BufferId unknown{-2}, on_the_chain{-1};
    roots_.assign(program_.buffers.size(), unknown);
    for (BufferId i{0}; exists(i) && sound(); ++i.index) {
      std::vector<BufferId> chain;
      BufferId b = i;
      while (roots_[b] == unknown) {
        roots_[b] = on_the_chain;
        chain.push_back(b);
        const BufferId next = at(b).alias;
        if (!next.present()) {
          roots_[b] = b;
          break;
        }
        b = next;
      }
      if (roots_[b] == on_the_chain) {
        breaches_.add(breaches_.buffer(i), " shares memory with itself");
        return false;
      }
      for (const BufferId c : chain) roots_[c] = roots_[b];
    }
    for (BufferId i{0}; exists(i) && sound(); ++i.index) {
      const Buffer &b = at(i), &r = at(roots_[i]);
      if (b.arena != r.arena || b.in_slot != r.in_slot || b.offset < r.offset || b.offset + b.bytes > r.offset + r.bytes)
        breaches_.add(breaches_.buffer(i), " lies outside ", breaches_.buffer(roots_[i]), " whose memory it shares");
    }
    return sound();
  }

  // Whoever asks what an operand shares goes along its chain of buffers. Each step adds those of its operands, as often as it is done.
  void check_chains() {
    IdVector<BufferId, std::int64_t> length(program_.buffers.size(), 0);
    std::vector<BufferId> chain;
    for (BufferId i{0}; exists(i); ++i.index) {
      BufferId b = i;
      for (; b.present() && length[b] == 0; b = at(b).alias) chain.push_back(b);
      for (std::int64_t n = b.present() ? length[b] : 0; !chain.empty(); chain.pop_back()) length[chain.back()] = ++n;
    }
    std::int64_t together = 0;
    for (const Step& step : program_.steps) {
      const bool repeated = !program_.schedule.empty() && is_of_micro_batch(step.phase);
      const std::int64_t times = repeated ? std::min<std::int64_t>(plan_.micro_batches, 65536) : 1;
      for (const auto* list : {&step.inputs, &step.outputs})
        for (const BufferId id : *list)
          if (exists(id) && together <= most_shared) together += times * length[id];
    }
    if (together > most_shared)
      breaches_.add("its steps' operands share memory along ", together, " buffers together, expected at most ", most_shared);
  }
  static constexpr std::int64_t most_shared = std::int64_t{1} << 28;

  bool check_steps() {
    const int steps = static_cast<int>(program_.steps.size());
    for (StepId s{0}; s.index < steps; ++s.index) {
      const Step& step = program_.steps[s];
      const auto operand = [&](BufferId id, bool optional) {
        if (!exists(id) && !(optional && id.index == -1))
          breaches_.add(breaches_.step(s), " names buffer ", id.index, ", which does not exist");
      };
      for (const BufferId id : step.inputs) operand(id, step.as<LaunchStep>());
      for (const BufferId id : step.outputs) operand(id, step.as<LaunchStep>());
      operand(step.workspace, true);
      for (const auto* list : {&step.inputs, &step.outputs})
        for (const BufferId id : *list)
          if (exists(id) && at(id).arena == ArenaKind::staging)
            breaches_.add(breaches_.step(s), " names ", breaches_.buffer(id), " in arena staging, where the next batch may lie");
      if (step.stream < 0 || step.stream >= plan_streams)
        breaches_.add(breaches_.step(s), " runs on stream ", step.stream, ", expected 0 to ", plan_streams - 1);
      for (const StepId w : step.waits)
        if (w.index < 0 || w >= s)
          breaches_.add(breaches_.step(s), " waits for step ", w.index, ", which is not issued before it");
    }
    check_chains();
    if (!sound()) return false;
    for (StepId s{0}; s.index < steps; ++s.index) std::visit([&](const auto& what) { check(s, what); }, program_.steps[s].what);
    return sound();
  }

  bool counts(StepId s, std::size_t inputs, std::size_t outputs) {
    const Step& step = program_.steps[s];
    if (step.inputs.size() == inputs && step.outputs.size() == outputs) return true;
    breaches_.add(breaches_.step(s), " has ", step.inputs.size(), " inputs and ", step.outputs.size(), " outputs, expected ", inputs,
                  " and ", outputs);
    return false;
  }

  void check(StepId s, const LaunchStep& launch) {
    if (launch.op.empty() || launch.kernel.empty()) breaches_.add(breaches_.step(s), " names no operator or no kernel");
  }

  void check(StepId s, const SliceStep& slice) {
    if (!counts(s, 0, 1)) return;
    if (slice.host < 0 || slice.host >= static_cast<int>(plan_.inputs.size()))
      return breaches_.add(breaches_.step(s), " reads input ", slice.host, " of ", plan_.inputs.size());
    const HostInput& input = plan_.inputs[static_cast<std::size_t>(slice.host)];
    check_host(s, input.name, input.type, input.batched, program_.steps[s].outputs[0]);
    check_staging(s);
  }

  void check(StepId s, const ConcatStep& concatenates) {
    if (!counts(s, 1, 0)) return;
    if (concatenates.host < 0 || concatenates.host >= static_cast<int>(plan_.outputs.size()))
      return breaches_.add(breaches_.step(s), " writes output ", concatenates.host, " of ", plan_.outputs.size());
    const HostOutput& output = plan_.outputs[static_cast<std::size_t>(concatenates.host)];
    check_host(s, output.name, output.type, output.combine == Combine::rows, program_.steps[s].inputs[0]);
  }

  void check(StepId s, const ExchangeStep& takes_part) {
    if (takes_part.exchange.index < 0 || takes_part.exchange.index >= static_cast<int>(plan_.exchanges.size()))
      return breaches_.add(breaches_.step(s), " names exchange ", takes_part.exchange.index, " of ", plan_.exchanges.size());
    const Step& step = program_.steps[s];
    const Exchange& e = plan_.exchanges[takes_part.exchange];
    const std::optional<bool> gives = gives_in(s, e);
    if (!gives) return;
    const bool first = *gives;
    switch (e.kind) {
      case ExchangeKind::all_reduce:
      case ExchangeKind::all_max:
        if (counts(s, 0, 1)) check_held(s, e, step.outputs[0]);
        break;
      case ExchangeKind::reduce_scatter:
        if (counts(s, 1, 1)) check_held(s, e, step.inputs[0]);
        break;
      case ExchangeKind::all_gather:
        if (counts(s, 1, 1)) check_held(s, e, step.outputs[0]);
        break;
      case ExchangeKind::all_to_all: counts(s, 1, 1); break;
      case ExchangeKind::reduce:
        if (!counts(s, 1, first ? 1 : 0)) break;
        check_held(s, e, step.inputs[0]);
        if (first) check_held(s, e, step.outputs[0]);
        break;
      case ExchangeKind::broadcast:
      case ExchangeKind::send: {
        const bool keeps = e.kind == ExchangeKind::broadcast && first && step.outputs.size() == 1;
        if (!counts(s, first ? 1 : 0, first && !keeps ? 0 : 1)) break;
        for (const auto* list : {&step.inputs, &step.outputs})
          for (const BufferId id : *list) check_held(s, e, id);
        break;
      }
    }
  }

  // Whether the program's devices are the first of their rows: all, or none. Absent where one is no member.
  std::optional<bool> gives_in(StepId s, const Exchange& e) {
    const std::size_t length = std::max<std::size_t>(1, e.row_length());
    std::vector<std::size_t> place(plan_.devices.size(), e.devices.size());  // by device: among the members
    for (std::size_t m = 0; m < e.devices.size(); ++m)
      if (e.devices[m] >= 0 && e.devices[m] < std::ssize(plan_.devices)) place[tandem::at(e.devices[m])] = m;
    std::optional<bool> first;
    for (const int d : devices_) {
      const DeviceId& name = plan_.devices[tandem::at(d)].device;
      if (place[tandem::at(d)] == e.devices.size()) {
        breaches_.add(breaches_.step(s), " enters '", brief(e.name), "', of which ", name, " is no member");
        return std::nullopt;
      }
      const bool is_first = place[tandem::at(d)] % length == 0;
      if (!is_symmetric(e.kind) && first.value_or(is_first) != is_first) {
        breaches_.add(breaches_.step(s), " enters '", brief(e.name), "', in which ", name, " does not do what the others do");
        return std::nullopt;
      }
      first = is_first;
    }
    return first;
  }
  static bool is_symmetric(ExchangeKind kind) {
    return kind != ExchangeKind::broadcast && kind != ExchangeKind::send && kind != ExchangeKind::reduce;
  }

  // A buffer that holds the whole of what is exchanged, as it lies in memory.
  void check_held(StepId s, const Exchange& e, BufferId id) {
    const Operand& o = at(id).operand;
    if (e.dtype != o.dtype || e.elements != o.bytes() / static_cast<std::int64_t>(size_of(o.dtype)))
      breaches_.add(breaches_.step(s), " exchanges ", e.elements, " ", e.dtype, " values by ", breaches_.buffer(id), " of ", o);
  }

  // A buffer that holds a part of a host tensor: some of its rows, or all of it.
  void check_host(StepId s, const std::string& host, const TensorType& type, bool rows, BufferId id) {
    if (rows && type.shape.rank() == 0) return;  // said once for the whole plan
    const Buffer& b = at(id);
    Shape wanted = type.shape;
    if (rows && wanted.rank() > 0 && b.operand.shape.rank() > 0) wanted[0] = b.operand.shape[0];
    if (b.operand.dtype != type.dtype || b.operand.shape != wanted || !b.operand.layout.is_row_major())
      breaches_.add(breaches_.step(s), ": ", breaches_.buffer(id), " is ", b.operand, ", but '", brief(host), "' has ",
                    TensorType{type.dtype, wanted}, " here, row-major");
    for (const int d : devices_) {
      if (!rows || !sound()) return;
      const std::int64_t begin = first_row(type, tandem::at(d));
      if (begin > type.shape[0] || wanted[0] > type.shape[0] - begin)
        breaches_.add(breaches_.step(s), ": ", breaches_.buffer(id), " has ", wanted[0], " rows from ", begin, ", but '", brief(host),
                      "' has ", type.shape[0]);
    }
  }
  // As Plan::first_row; of a device whose slice may lie outside the batch.
  std::int64_t first_row(const TensorType& type, std::size_t device) const {
    std::int64_t row = 0;
    const std::int64_t each = plan_.batch > 0 ? type.shape[0] / plan_.batch : 0;
    return __builtin_mul_overflow(each, plan_.devices[device].slice_begin, &row) || row < 0 ? std::numeric_limits<std::int64_t>::max()
                                                                                            : row;
  }

  // A batch that comes ahead of its step may lie only where no step writes.
  void check_staging(StepId s) {
    const Step& step = program_.steps[s];
    if (!step.workspace.present()) return;
    const Buffer &to = at(step.outputs[0]), &staging = at(step.workspace);
    if (staging.arena != ArenaKind::staging || staging.bytes < to.operand.bytes() || step.stream != 0)
      breaches_.add(breaches_.step(s), " of ", to.operand.bytes(), " bytes on stream ", step.stream, " comes by way of ",
                    breaches_.buffer(step.workspace), " of ", staging.bytes, " bytes in arena ", name_of(staging.arena),
                    ", expected as many in arena staging, and stream 0");
  }

  void check_parameters() {
    struct Placed {
      std::int64_t end;
      const PlanParameter* parameter;
    };
    std::map<std::pair<ArenaKind, std::int64_t>, Placed> placed;
    for (const PlanParameter& p : plan_.parameters) {
      const ProgramPart* part = p.on(id_);
      if (!part || !problem_of(part->operand).empty()) continue;  // said once for the whole plan
      const std::int64_t bytes = part->operand.bytes(), offset = part->offset;
      if (offset < 0 || offset % plan_alignment != 0 || offset > arena_bytes(p.arena) || bytes > arena_bytes(p.arena) - offset) {
        breaches_.add("parameter '", brief(p.name), "' lies at ", offset, "+", bytes, ", outside arena ", name_of(p.arena), "'s ",
                      arena_bytes(p.arena), " bytes");
        continue;
      }
      if (bytes == 0) continue;
      const auto [it, fresh] = placed.try_emplace({p.arena, offset}, Placed{offset + bytes, &p});
      const auto clash = [&](const Placed& other) {
        breaches_.add("parameter '", brief(p.name), "' overlaps parameter '", brief(other.parameter->name), "'");
      };
      if (!fresh) {
        clash(it->second);
        continue;
      }
      const auto after = std::next(it);
      if (after != placed.end() && after->first.first == p.arena && after->first.second < offset + bytes) clash(after->second);
      if (it == placed.begin()) continue;
      const auto before = std::prev(it);
      if (before->first.first == p.arena && before->second.end > offset) clash(before->second);
    }
  }

  const Plan& plan_;
  const ProgramId id_;
  const DeviceProgram& program_;
  const std::span<const int> devices_;  // that run it
  ProgramBreaches breaches_;
  IdVector<BufferId, BufferId> roots_;
};

}  // namespace

bool verify_structure(const Plan& plan, ProgramId program, std::span<const int> devices, Breaches& breaches) {
  return StructureVerifier(plan, program, devices, breaches).run();
}

}  // namespace tandem
