#include <algorithm>
#include <array>
#include <map>

#include "planner/plan/issue_order.h"
#include "planner/plan/verify.h"

namespace tandem {
namespace {

// Bytes of memory within an arena.
struct Range {
  ArenaKind arena;
  std::int64_t begin, end;
};
bool overlap(const Range& a, const Range& b) {
  return a.arena == b.arena && a.begin < b.end && b.begin < a.end;
}

using LastSteps = std::array<int, plan_streams>;  // by stream; -1 for none
constexpr LastSteps none = [] {
  LastSteps steps{};
  steps.fill(-1);
  return steps;
}();

// Of the pieces of memory that steps go over: a thousand for each operand, so that the time grows with the plan.
std::int64_t most_visited(const DeviceProgram& program) {
  std::size_t operands = 4096;
  for (const Step& s : program.steps) operands += s.inputs.size() + s.outputs.size() + 1;
  return 1000 * static_cast<std::int64_t>(operands);
}

class MemoryVerifier {
 public:
  MemoryVerifier(const Plan& plan, ProgramId program, Breaches& breaches)
      : plan_(plan), id_(program), program_(plan.programs[program]), roots_(roots_of(program_)), breaches_(plan, program, breaches) {}

  void run() {
    check_lives();
    check_accesses();
    if (visited_ > most_visited_) breaches_.add("its steps go over ", visited_, " places of memory, expected at most ", most_visited_);
  }

 private:
  const Buffer& at(BufferId id) const { return program_.buffers[id]; }
  std::int64_t arena_bytes(ArenaKind k) const { return program_.arenas[static_cast<std::size_t>(k)].bytes; }

  // No two buffers with memory of their own share bytes while both live. Persistent arenas live always.
  void check_lives() {
    const int n = static_cast<int>(program_.buffers.size());
    const int steps = static_cast<int>(program_.steps.size());
    struct Life {
      int first, last;
    };
    IdVector<BufferId, Life> life(program_.buffers.size(), {steps, -1});
    for (BufferId i{0}; i.index < n; ++i.index) {
      const Buffer& b = at(i);
      Life& l = life[roots_[i]];
      const bool scratch = b.arena == ArenaKind::scratch;
      l.first = std::min(l.first, scratch ? b.first.index : 0);
      l.last = std::max(l.last, scratch ? b.last.index : steps - 1);
    }
    IdVector<StepId, std::vector<BufferId>> begins(program_.steps.size()), ends(program_.steps.size());
    for (BufferId i{0}; i.index < n; ++i.index) {
      if (roots_[i] != i || at(i).bytes == 0 || steps == 0) continue;
      begins[StepId{life[i].first}].push_back(i);
      ends[StepId{life[i].last}].push_back(i);
    }
    std::map<std::pair<ArenaKind, std::int64_t>, BufferId> live;  // by place
    const auto place = [&](BufferId b) { return std::pair(at(b).arena, at(b).offset); };
    const auto range = [&](BufferId b) { return Range{at(b).arena, at(b).offset, at(b).offset + at(b).bytes}; };
    for (StepId s{0}; s.index < steps; ++s.index) {
      for (const BufferId b : begins[s]) {
        const auto clash = [&](BufferId other) {
          breaches_.add(breaches_.buffer(b), " and ", breaches_.buffer(other), " share memory and both live at step ", s.index);
        };
        const auto [it, fresh] = live.try_emplace(place(b), b);
        if (!fresh) {
          clash(it->second);
          continue;
        }
        if (const auto after = std::next(it); after != live.end() && overlap(range(after->second), range(b))) clash(after->second);
        if (it != live.begin() && overlap(range(std::prev(it)->second), range(b))) clash(std::prev(it)->second);
      }
      for (const BufferId b : ends[s])
        if (const auto it = live.find(place(b)); it != live.end() && it->second == b) live.erase(it);
    }
  }

  // Replays the steps over the memory: a step reads only what was written (or is loaded, or starts as zero), and steps
  // of different streams that touch the same bytes, one of them writing, are ordered by waits.
  void check_accesses() {
    order_streams();
    seed_memory();
    for (StepId s{0}; s.index < static_cast<int>(program_.steps.size()); ++s.index) {
      const Step& step = program_.steps[s];
      for (const BufferId id : step.inputs)
        if (id.present()) read(s, id, true);
      if (const auto* e = step.as<ExchangeStep>(); e && is_in_place(plan_.exchanges[e->exchange].kind)) read(s, step.outputs[0], false);
      for (const BufferId id : step.outputs)
        if (id.present()) write(s, id);
      if (step.workspace.present()) write(s, step.workspace);
    }
  }

  // done_[s][q]: the last step of stream q that has ended when step s starts, -1 for none.
  void order_streams() {
    done_.assign(program_.steps.size(), none);
    LastSteps last = none;
    for (StepId s{0}; s.index < static_cast<int>(program_.steps.size()); ++s.index) {
      const auto join = [&](StepId before) {
        if (before.index < 0) return;
        for (std::size_t q = 0; q < plan_streams; ++q) done_[s][q] = std::max(done_[s][q], done_[before][q]);
        int& own = done_[s][stream_of(before)];
        own = std::max(own, before.index);
      };
      int& previous = last[stream_of(s)];
      join({previous});
      for (const StepId w : program_.steps[s].waits) join(w);
      previous = s.index;
    }
  }
  std::size_t stream_of(StepId s) const { return static_cast<std::size_t>(program_.steps[s].stream); }
  bool ended(int before, StepId s) const { return before < 0 || done_[s][stream_of({before})] >= before; }

  static constexpr int never = -2, loaded = -1;
  struct Piece {  // of an arena, up to the next piece
    int writer = never;
    BufferId holds;                // what was written, or loaded; absent: zeros
    LastSteps readers = none;  // since the write
  };
  using Memory = std::map<std::int64_t, Piece>;

  void seed_memory() {
    for (const ArenaKind k : arena_kinds) {
      Memory& memory = memory_[static_cast<std::size_t>(k)];
      memory.clear();
      // Optimizer state and gradients start as zero.
      memory[0].writer = k == ArenaKind::optimizer || k == ArenaKind::gradients ? loaded : never;
      split(memory, arena_bytes(k));
    }
    for (const PlanParameter& p : plan_.parameters)
      if (const ProgramPart* part = p.on(id_))
        if (problem_of(part->operand).empty() && part->offset >= 0 && part->offset <= arena_bytes(p.arena))
          load({p.arena, part->offset, std::min(part->offset + part->operand.bytes(), arena_bytes(p.arena))});
    for (const Buffer& b : program_.buffers)
      if (b.constant) load({b.arena, b.offset, b.offset + b.operand.bytes()});
    made_.assign(program_.buffers.size(), loaded);
  }
  void load(const Range& r) {
    for_each_piece(r, [](Piece& p) { p.writer = loaded; });
  }
  static Memory::iterator split(Memory& memory, std::int64_t at) {
    const auto it = std::prev(memory.upper_bound(at));
    return it->first == at ? it : memory.emplace_hint(std::next(it), at, it->second);
  }
  template <class F>
  void for_each_piece(const Range& r, F&& f) {
    if (r.begin >= r.end) return;
    Memory& memory = memory_[static_cast<std::size_t>(r.arena)];
    auto it = split(memory, r.begin);
    const auto end = split(memory, r.end);
    it = memory.find(r.begin);
    for (; it != end && ++visited_ <= most_visited_; ++it) f(it->second);
  }
  Range touched(BufferId id) const { return {at(id).arena, at(id).offset, at(id).offset + at(id).operand.bytes()}; }

  // Whether a piece is still that of a value. Those that share its memory are views of it, and what it is a view of; else one that was
  // written in its place, unless the value was never made as a whole, but of parts as a bucket is.
  bool holds(const Piece& piece, BufferId id) const {
    int made = loaded;
    for (BufferId b = id; b.present(); b = at(b).alias) {
      if (b == piece.holds) return true;
      made = std::max(made, made_[b]);
    }
    return roots_[piece.holds] == roots_[id] && made == loaded;
  }

  void check_alive(StepId s, BufferId id) {
    const Buffer& b = at(id);
    if (b.arena == ArenaKind::scratch && (s < b.first || s > b.last))
      breaches_.add(breaches_.step(s), " uses ", breaches_.buffer(id), " outside its life, steps ", b.first.index, " to ",
                    b.last.index);
  }
  void read(StepId s, BufferId id, bool whole) {
    check_alive(s, id);
    bool unwritten = false;
    BufferId other;
    int unordered = -1;
    for_each_piece(touched(id), [&](Piece& p) {
      unwritten = unwritten || (whole && p.writer == never);
      if (p.holds.present() && !holds(p, id)) other = p.holds;
      if (!ended(p.writer, s)) unordered = p.writer;
      p.readers[stream_of(s)] = s.index;
    });
    if (whole && other.present())
      breaches_.add(breaches_.step(s), " reads ", breaches_.buffer(id), ", in whose memory ", breaches_.buffer(other), " is by then");
    if (unwritten) breaches_.add(breaches_.step(s), " reads ", breaches_.buffer(id), ", which nothing wrote");
    if (unordered >= 0)
      breaches_.add(breaches_.step(s), " reads ", breaches_.buffer(id), " without waiting for ",
                    breaches_.step({unordered}), ", which writes it");
  }
  void write(StepId s, BufferId id) {
    check_alive(s, id);
    if (at(roots_[id]).constant)
      breaches_.add(breaches_.step(s), " writes ", breaches_.buffer(id), ", a constant");
    int unordered = -1;
    const Range r = touched(id);
    for_each_piece(r, [&](Piece& p) {
      if (!ended(p.writer, s)) unordered = p.writer;
      for (const int reader : p.readers)
        if (reader != s.index && !ended(reader, s)) unordered = reader;
    });
    if (unordered >= 0)
      breaches_.add(breaches_.step(s), " writes ", breaches_.buffer(id), " without waiting for ",
                    breaches_.step({unordered}), ", which uses that memory");
    if (r.begin >= r.end) return;
    Memory& memory = memory_[static_cast<std::size_t>(r.arena)];
    split(memory, r.begin);
    memory.erase(std::next(memory.find(r.begin)), split(memory, r.end));
    memory[r.begin] = Piece{.writer = s.index, .holds = id};
    made_[id] = s.index;
  }

  const Plan& plan_;
  const ProgramId id_;
  const DeviceProgram& program_;
  IdVector<BufferId, BufferId> roots_;  // the buffer whose memory a buffer shares, itself where it has its own
  ProgramBreaches breaches_;
  IdVector<StepId, LastSteps> done_;
  std::array<Memory, std::size(arena_kinds)> memory_;
  std::int64_t visited_ = 0;      // pieces
  const std::int64_t most_visited_ = most_visited(program_);
  IdVector<BufferId, int> made_;  // the last step that wrote it itself
};

}  // namespace

void verify_memory(const Plan& plan, ProgramId program, Breaches& breaches) {
  MemoryVerifier(plan, program, breaches).run();
}

}  // namespace tandem
