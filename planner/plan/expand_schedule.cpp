// A plan whose schedules are written out: what is replayed, verified and timed is a list of steps, with or without micro-batches.
#include <algorithm>
#include <array>
#include <map>

#include "planner/plan/format.h"

namespace tandem {
namespace {

// What of other streams a step must have waited for: who wrote what it reads, and who read or wrote what it writes.
class Hazards {
 public:
  explicit Hazards(const Plan& plan) : plan_(plan) {
    last_.fill(-1);
    for (Memory& memory : memory_) memory[0] = {};
  }

  // Sets the waits of the step of that number, behind those before it.
  void order(const DeviceProgram& program, int number, Step& step) {
    Steps wanted = none(), ended = none();
    const auto stream = at(step.stream);
    if (last_[stream] >= 0) ended = ended_.at(at(last_[stream]));
    ended[stream] = last_[stream];
    const auto* exchange = step.as<ExchangeStep>();
    const auto touch = [&](BufferId id, bool reads, bool writes) {
      if (id.present()) touched(program.buffers[id], number, stream, reads, writes, wanted);
    };
    for (const BufferId in : step.inputs) touch(in, true, false);
    for (const BufferId out : step.outputs) touch(out, exchange && is_in_place(plan_.exchanges[exchange->exchange].kind), true);
    touch(step.workspace, false, true);
    step.waits.clear();
    for (std::size_t q = 0; q < wanted.size(); ++q) {
      if (q == stream || wanted[q] <= ended[q]) continue;
      step.waits.push_back({wanted[q]});
      for (std::size_t k = 0; k < ended.size(); ++k) ended[k] = std::max(ended[k], ended_.at(at(wanted[q]))[k]);
      ended[q] = std::max(ended[q], wanted[q]);
    }
    ended_.push_back(ended);
    last_[stream] = number;
  }

 private:
  using Steps = std::array<int, plan_streams>;  // by stream, the last of them; -1: none
  static constexpr Steps none() {
    Steps steps{};
    steps.fill(-1);
    return steps;
  }
  struct Piece {  // of an arena, up to the next piece
    int writer = -1;
    std::size_t by = 0;  // the writer's stream
    Steps readers = none();
  };
  using Memory = std::map<std::int64_t, Piece>;

  static Memory::iterator split(Memory& memory, std::int64_t place) {
    const auto it = std::prev(memory.upper_bound(place));
    return it->first == place ? it : memory.emplace_hint(std::next(it), place, it->second);
  }

  void touched(const Buffer& b, int number, std::size_t stream, bool reads, bool writes, Steps& wanted) {
    const std::int64_t begin = b.offset, end = b.offset + b.operand.bytes();
    if (begin >= end) return;
    Memory& memory = memory_[static_cast<std::size_t>(b.arena)];
    split(memory, begin);
    const auto last = split(memory, end);
    const auto first = memory.find(begin);
    for (auto it = first; it != last; ++it) {
      Piece& p = it->second;
      wanted[p.by] = std::max(wanted[p.by], p.writer);
      if (writes)
        for (std::size_t q = 0; q < wanted.size(); ++q) wanted[q] = std::max(wanted[q], p.readers[q]);
      if (reads) p.readers[stream] = number;
    }
    if (!writes) return;
    memory.erase(std::next(first), last);
    first->second = {.writer = number, .by = stream};
  }

  const Plan& plan_;
  Steps last_;
  std::vector<Steps> ended_;  // by step: what has ended when it starts
  std::array<Memory, std::size(arena_kinds)> memory_;
};

// A program's schedule becomes its steps.
class Expansion {
 public:
  Expansion(const Plan& to, const DeviceProgram& from, const IdVector<ExchangeId, ExchangeId>& exchange_of)
      : plan_(to), from_(from), exchange_of_(exchange_of) {}

  DeviceProgram run(std::vector<StepId>& step_of, std::vector<int>& slot_of) {
    to_ = from_;
    to_.steps.clear();
    to_.buffers.clear();
    to_.schedule.clear();
    for (int s = 0; s < std::ssize(from_.steps); ++s) {
      const Step& step = from_.steps[at(s)];
      steps_of_.try_emplace({step.phase, step.chunk}, s, s).first->second.second = s + 1;
    }
    find_kept();
    find_slots();
    issue({.phase = Phase::prepare}, all);
    for (std::size_t e = 0; e < from_.schedule.size(); ++e) {
      if (e == 0 || !may_receive_before(e - 1)) issue(from_.schedule[e], receives);
      if (may_receive_before(e)) issue(from_.schedule[e + 1], receives);
      issue(from_.schedule[e], others);
    }
    issue({.phase = Phase::update}, all);
    find_lives();
    step_of = std::move(step_of_);
    slot_of = std::move(slot_of_);
    return std::move(to_);
  }

 private:
  BufferId root(BufferId id) const {
    while (from_.buffers[id].alias.present()) id = from_.buffers[id].alias;
    return id;
  }

  // A value that several chunks use lies with the first of them, whose slot is free last.
  void find_slots() {
    chunk_of_.assign(from_.buffers.size(), -1);
    for (const Step& s : from_.steps)
      for (const auto* list : {&s.inputs, &s.outputs})
        for (const BufferId id : *list)
          if (int* const chunk = id.present() ? &chunk_of_[root(id)] : nullptr; chunk && is_of_micro_batch(s.phase))
            *chunk = *chunk < 0 ? s.chunk : std::min(*chunk, s.chunk);
    for (const ScheduleEntry& e : from_.schedule) slots_[{e.chunk, e.micro_batch}] = e.slot;
  }
  int slot_of(BufferId id, const ScheduleEntry& entry) const {
    const auto known = slots_.find({chunk_of_[root(id)], entry.micro_batch});
    return known == slots_.end() ? entry.slot : known->second;
  }

  // What is not each micro-batch's own: what persists, and scratch memory that some step once a step uses.
  void find_kept() {
    kept_.assign(from_.buffers.size(), false);
    for (BufferId b{0}; b.index < std::ssize(from_.buffers); ++b.index) kept_[b] = from_.buffers[b].arena != ArenaKind::scratch;
    for (const Step& s : from_.steps) {
      if (is_of_micro_batch(s.phase)) continue;
      for (const auto* list : {&s.inputs, &s.outputs})
        for (const BufferId id : *list)
          if (id.present()) kept_[root(id)] = true;
    }
  }

  // What the entry behind this one receives may come while this one computes, where its slot is free by then.
  bool may_receive_before(std::size_t e) const {
    if (e + 1 >= from_.schedule.size()) return false;
    const ScheduleEntry &entry = from_.schedule[e], &next = from_.schedule[e + 1];
    return next.phase != Phase::forward || entry.slot != next.slot || entry.micro_batch == next.micro_batch;
  }

  enum Which { all, receives, others };
  void issue(const ScheduleEntry& entry, Which which) {
    const auto own = steps_of_.find({entry.phase, entry.chunk});
    if (own == steps_of_.end()) return;
    for (auto it = from_.steps.begin() + own->second.first; it != from_.steps.begin() + own->second.second; ++it) {
      const bool receive = it->stream == receive_forward_stream || it->stream == receive_backward_stream;
      if (which != all && receive != (which == receives)) continue;
      Step s = *it;
      s.micro_batch = entry.micro_batch;
      for (auto* list : {&s.inputs, &s.outputs})
        for (BufferId& id : *list) id = buffer(id, entry);
      s.workspace = buffer(s.workspace, entry);
      if (auto* exchange = s.as<ExchangeStep>())
        exchange->exchange.index = exchange_of_[exchange->exchange].index + entry.micro_batch;
      hazards_.order(to_, static_cast<int>(to_.steps.size()), s);
      to_.steps.push_back(std::move(s));
      step_of_.push_back({static_cast<int>(it - from_.steps.begin())});
      slot_of_.push_back(entry.slot);
    }
  }

  BufferId buffer(BufferId id, const ScheduleEntry& entry) {
    if (!id.present()) return id;
    const int owner = kept_[root(id)] ? -1 : entry.micro_batch;
    const auto [it, fresh] = buffers_.try_emplace({owner, id}, BufferId{});
    if (!fresh) return it->second;
    Buffer b = from_.buffers[id];
    if (b.in_slot) b.offset += slot_of(id, entry) * from_.slot_bytes;
    b.in_slot = false;
    b.alias = buffer(b.alias, entry);
    return buffers_[{owner, id}] = to_.buffers.add(std::move(b));
  }

  void find_lives() {
    for (Buffer& b : to_.buffers) b.first = b.last = {-1};
    for (StepId s{0}; s.index < std::ssize(to_.steps); ++s.index) {
      const Step& step = to_.steps[s];
      const auto use = [&](BufferId id) {
        for (; id.present(); id = to_.buffers[id].alias) {
          Buffer& b = to_.buffers[id];
          if (b.first.index < 0) b.first = s;
          b.last = s;
        }
      };
      for (const BufferId in : step.inputs) use(in);
      for (const BufferId out : step.outputs) use(out);
      use(step.workspace);
    }
    const StepId end{std::max(0, static_cast<int>(to_.steps.size()) - 1)};
    for (Buffer& b : to_.buffers)
      if (b.arena != ArenaKind::scratch) b.first = {0}, b.last = end;
  }

  const Plan& plan_;
  const DeviceProgram& from_;
  const IdVector<ExchangeId, ExchangeId>& exchange_of_;
  DeviceProgram to_;
  Hazards hazards_{plan_};
  std::map<std::pair<Phase, int>, std::pair<int, int>> steps_of_;  // where the steps of a phase and chunk begin and end
  IdVector<BufferId, bool> kept_;                            // by root
  IdVector<BufferId, int> chunk_of_;                         // by root: the first that uses it; -1: none
  std::map<std::pair<int, int>, int> slots_;                 // by chunk and micro-batch
  std::map<std::pair<int, BufferId>, BufferId> buffers_;     // by micro-batch, -1: of all
  std::vector<StepId> step_of_;
  std::vector<int> slot_of_;
};

// Each exchange of micro-batches becomes one a micro-batch. Where the first of them is.
IdVector<ExchangeId, ExchangeId> add_exchanges(const Plan& from, Plan& to) {
  IdVector<ExchangeId, bool> repeated(from.exchanges.size());
  for (const DeviceProgram& p : from.programs)
    for (const Step& s : p.steps)
      if (const auto* exchange = s.as<ExchangeStep>(); exchange && !p.schedule.empty() && is_of_micro_batch(s.phase))
        repeated[exchange->exchange] = true;
  IdVector<ExchangeId, ExchangeId> first;
  to.exchanges.clear();
  for (ExchangeId e{0}; e.index < std::ssize(from.exchanges); ++e.index) {
    first.push_back({static_cast<int>(to.exchanges.size())});
    for (std::int64_t m = 0; m < (repeated[e] ? from.micro_batches : 1); ++m) {
      Exchange& exchange = to.exchanges.emplace_back(from.exchanges[e]);
      if (repeated[e]) exchange.name += concat(" of micro-batch ", m);
    }
  }
  return first;
}

}  // namespace

bool has_schedule(const Plan& plan) {
  return std::ranges::any_of(plan.programs, [](const DeviceProgram& p) { return !p.schedule.empty(); });
}

ExpandedPlan expanded(const Plan& plan) {
  ExpandedPlan to{.plan = plan, .step_of = {}, .slot_of = {}};
  const IdVector<ExchangeId, ExchangeId> exchange_of = add_exchanges(plan, to.plan);
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const DeviceProgram& program = plan.programs[p];
    std::vector<StepId> step_of;
    std::vector<int> slot_of(program.steps.size(), 0);
    if (!program.schedule.empty()) {
      to.plan.programs[p] = Expansion(to.plan, program, exchange_of).run(step_of, slot_of);
    } else {
      for (int s = 0; s < std::ssize(program.steps); ++s) step_of.push_back({s});
      for (Step& s : to.plan.programs[p].steps)
        if (auto* exchange = s.as<ExchangeStep>()) exchange->exchange = exchange_of[exchange->exchange];
    }
    to.step_of.push_back(std::move(step_of));
    to.slot_of.push_back(std::move(slot_of));
  }
  return to;
}

}  // namespace tandem
