// A plan whose schedules are written out: what is replayed, verified and timed is a list of steps, with or without micro-batches.
#include <algorithm>
#include <array>
#include <map>

#include "planner/plan/format.h"
#include "planner/plan/issue_order.h"

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

  DeviceProgram run(const std::vector<Issue>& order, std::vector<StepId>& step_of, std::vector<int>& places) {
    to_ = from_;
    to_.steps.clear();
    to_.buffers.clear();
    to_.schedule.clear();
    find_kept();
    for (const ScheduleEntry& e : from_.schedule) slots_[{e.chunk, e.micro_batch}] = e.slot;
    for (const Issue& i : order) issue(i.step, i.entry < 0 ? ScheduleEntry{} : from_.schedule[at(i.entry)]);
    find_lives();
    step_of = std::move(step_of_);
    places = std::move(place_of_);
    return std::move(to_);
  }

 private:
  int slot_of(BufferId id, const ScheduleEntry& entry) const {
    const auto known = slots_.find({chunk_of_[id], entry.micro_batch});
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
          if (id.present()) kept_[roots_[id]] = true;
    }
  }

  void issue(StepId id, const ScheduleEntry& entry) {
    Step s = from_.steps[id];
    s.micro_batch = entry.micro_batch;
    for (auto* list : {&s.inputs, &s.outputs})
      for (BufferId& b : *list) b = buffer(b, entry);
    s.workspace = buffer(s.workspace, entry);
    if (auto* exchange = s.as<ExchangeStep>()) exchange->exchange.index = exchange_of_[exchange->exchange].index + entry.micro_batch;
    hazards_.order(to_, static_cast<int>(to_.steps.size()), s);
    to_.steps.push_back(std::move(s));
    step_of_.push_back(id);
    place_of_.push_back(place_of(id, to_.steps.back()));
  }

  // Which of the places that a step's operands have in turn: by the slot, and those of other chunks whose values it reads.
  int place_of(StepId id, const Step& step) {
    std::vector<std::int64_t> offsets{step.workspace.present() ? to_.buffers[step.workspace].offset : -1};
    for (const auto* list : {&step.inputs, &step.outputs})
      for (const BufferId b : *list) offsets.push_back(b.present() ? to_.buffers[b].offset : -1);
    const auto known = places_.emplace(std::pair(id, std::move(offsets)), static_cast<int>(places_.size()));
    return known.first->second;
  }

  // With those whose memory it shares, which stand before it.
  BufferId buffer(BufferId id, const ScheduleEntry& entry) {
    if (!id.present()) return id;
    const int owner = kept_[roots_[id]] ? -1 : entry.micro_batch;
    std::vector<BufferId> fresh;
    BufferId shared;
    for (BufferId b = id; b.present() && !shared.present(); b = from_.buffers[b].alias)
      if (const auto known = buffers_.find({owner, b}); known != buffers_.end())
        shared = known->second;
      else
        fresh.push_back(b);
    for (; !fresh.empty(); fresh.pop_back()) {
      Buffer b = from_.buffers[fresh.back()];
      if (b.in_slot) b.offset += slot_of(fresh.back(), entry) * from_.slot_bytes;
      b.in_slot = false;
      b.alias = shared;
      shared = buffers_[{owner, fresh.back()}] = to_.buffers.add(std::move(b));
    }
    return shared;
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
  IdVector<BufferId, bool> kept_;                            // by root
  const IdVector<BufferId, BufferId> roots_ = roots_of(from_);
  const IdVector<BufferId, int> chunk_of_ = chunks_of(from_);
  std::map<std::pair<int, int>, int> slots_;                 // by chunk and micro-batch
  std::map<std::pair<int, BufferId>, BufferId> buffers_;     // by micro-batch, -1: of all
  std::map<std::pair<StepId, std::vector<std::int64_t>>, int> places_;
  std::vector<StepId> step_of_;
  std::vector<int> place_of_;
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
  ExpandedPlan to{.plan = plan, .step_of = {}, .place_of = {}};
  const IdVector<ExchangeId, ExchangeId> exchange_of = add_exchanges(plan, to.plan);
  const IdVector<ProgramId, std::vector<Issue>> orders = has_schedule(plan) ? issue_order(plan) : IdVector<ProgramId, std::vector<Issue>>();
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const DeviceProgram& program = plan.programs[p];
    std::vector<StepId> step_of;
    std::vector<int> places(program.steps.size(), 0);
    if (!program.schedule.empty()) {
      to.plan.programs[p] = Expansion(to.plan, program, exchange_of).run(orders[p], step_of, places);
    } else {
      for (int s = 0; s < std::ssize(program.steps); ++s) step_of.push_back({s});
      for (Step& s : to.plan.programs[p].steps)
        if (auto* exchange = s.as<ExchangeStep>()) exchange->exchange = exchange_of[exchange->exchange];
    }
    to.step_of.push_back(std::move(step_of));
    to.place_of.push_back(std::move(places));
  }
  return to;
}

}  // namespace tandem
