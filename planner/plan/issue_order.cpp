#include "planner/plan/issue_order.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "kernels/device.h"

namespace tandem {
namespace {

// Plays a step: each program does its schedule in planned time, and an exchange takes place when all its programs have come.
class Play {
 public:
  explicit Play(const Plan& plan) : plan_(plan), players_(plan.programs.size()), members_(plan.exchanges.size()) {
    std::set<std::pair<ExchangeId, ProgramId>> met;
    for (ExchangeId e{0}; e.index < std::ssize(plan.exchanges); ++e.index)
      for (const int d : plan.exchanges[e].devices)
        if (d >= 0 && d < std::ssize(plan.devices) && met.emplace(e, plan.devices[at(d)].program).second) ++members_[e];
    for (ProgramId p{0}; p.index < std::ssize(players_); ++p.index) set_up(p);
  }

  IdVector<ProgramId, std::vector<Issue>> run() {
    for (ProgramId p{0}; p.index < std::ssize(players_); ++p.index) wake(p, 0);
    while (!going_.empty()) {
      const ProgramId p = going_.top().second;
      going_.pop();
      players_[p].queued = false;
      if (go_on(p)) wake(p, 0);
    }
    IdVector<ProgramId, std::vector<Issue>> orders;
    for (Player& player : players_) {
      issue_rest(player);
      orders.push_back(std::move(player.issued));
    }
    return orders;
  }

 private:
  // A place in the list of what a program does: prepare, the entries of its schedule, update.
  struct Part {
    std::vector<StepId> steps, receives;
    std::vector<std::vector<StepId>> uses;  // by step: what it takes of the receives
  };
  struct Receive {
    StepId step;
    std::size_t entry;
  };
  struct Entry {
    ScheduleEntry what;
    const Part* part;
    std::vector<StepId> missing;  // of the receives
    double ready = 0;             // when those that came were there
    std::vector<Receive> frees;   // what may come once all before this entry is done
  };
  // A send or a receive that waits for the other end.
  struct Open {
    Issue issue;
    int micro_batch;
    BufferId memory;  // that a send reads; absent: a receive
    int chunk;        // in whose slot that lies
  };
  struct Player {
    std::map<std::pair<Phase, int>, Part> parts;  // by phase and chunk
    std::vector<Entry> entries;
    std::size_t entry = 0, next = 0;   // what it comes to: a step of an entry
    bool came = false, begun = false;  // to the entry; the entry
    bool waits = false;                // in an exchange for the others of it
    bool queued = false;
    double clock = 0;
    std::vector<Open> open;
    std::vector<Receive> next_receives;        // that may come, but for what is still to be sent from their slots
    IdVector<BufferId, BufferId> roots;        // whose memory a buffer lies in
    IdVector<BufferId, int> chunks;            // whose slot
    std::map<std::pair<int, int>, int> slots;  // by chunk and micro-batch
    std::vector<Issue> issued;
    int number(std::size_t e) const { return is_of_micro_batch(entries[e].what.phase) ? static_cast<int>(e) - 1 : -1; }
  };
  struct Post {
    ProgramId program;
    Issue issue;
    std::size_t entry;  // of the player's
  };
  using Instance = std::pair<ExchangeId, int>;  // of a micro-batch

  void set_up(ProgramId p) {
    const DeviceProgram& program = plan_.programs[p];
    const bool scheduled = !program.schedule.empty();
    Player& player = players_[p];
    player.roots = roots_of(program);
    player.chunks = chunks_of(program);
    for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
      const Step& step = program.steps[s];
      const bool receive = step.stream == receive_forward_stream || step.stream == receive_backward_stream;
      Part& part = player.parts[{scheduled ? step.phase : Phase::prepare, step.chunk}];
      (receive && is_between_stages(program, step) ? part.receives : part.steps).push_back(s);
    }
    for (auto& [place, part] : player.parts)
      for (const StepId s : part.steps) {
        std::vector<StepId>& used = part.uses.emplace_back();
        for (const StepId r : part.receives)
          if (uses(player, program.steps[s], program.steps[r])) used.push_back(r);
      }
    const auto add = [&](const ScheduleEntry& what) {
      const Part& part = player.parts[{what.phase, what.chunk}];
      player.entries.push_back({.what = what, .part = &part, .missing = part.receives, .ready = 0, .frees = {}});
    };
    add({.phase = Phase::prepare});
    for (const ScheduleEntry& e : program.schedule) {
      add(e);
      player.slots[{e.chunk, e.micro_batch}] = e.slot;
    }
    add({.phase = Phase::update});
    find_free(program, player);
  }

  // What is exchanged in place has no inputs.
  static bool uses(const Player& player, const Step& step, const Step& receive) {
    const auto received = [&](BufferId id) {
      return id.present() &&
             std::ranges::any_of(receive.outputs, [&](BufferId out) { return out.present() && player.roots[id] == player.roots[out]; });
    };
    return std::ranges::any_of(step.inputs, received) || std::ranges::any_of(step.outputs, received);
  }

  // When a slot is a micro-batch's, so that what it receives may come there: when all that others do in it is done.
  void find_free(const DeviceProgram& program, Player& player) const {
    std::map<std::pair<int, int>, std::pair<int, std::size_t>> last;  // by chunk and slot: the micro-batch, and where it takes the slot
    std::map<std::pair<int, int>, std::size_t> behind;                // by chunk and slot: its last entry so far
    for (std::size_t e = 0; e < player.entries.size(); ++e) {
      const ScheduleEntry& what = player.entries[e].what;
      if (is_of_micro_batch(what.phase)) {
        const std::pair slot{what.chunk, what.slot};
        const auto [held, first] = last.try_emplace(slot, what.micro_batch, 0);
        if (!first && held->second.first != what.micro_batch) held->second = {what.micro_batch, behind[slot] + 1};
        behind[slot] = e;
      }
      for (const StepId s : player.entries[e].part->receives) {
        const BufferId to = program.steps[s].outputs.empty() ? BufferId{} : program.steps[s].outputs[0];
        const int chunk = to.present() ? player.chunks[to] : what.chunk;
        const auto slot = player.slots.find({chunk, what.micro_batch});
        const auto held = slot == player.slots.end() ? last.end() : last.find({chunk, slot->second});
        const bool own = held != last.end() && held->second.first == what.micro_batch;
        player.entries[own ? held->second.second : e].frees.push_back({s, e});
      }
    }
  }

  void wake(ProgramId p, double from) {
    Player& player = players_[p];
    player.clock = std::max(player.clock, from);
    if (player.queued || player.entry == player.entries.size()) return;
    player.queued = true;
    going_.emplace(player.clock, p);
  }

  // Whether another micro-batch's slot is still to be sent from.
  bool is_held(const Player& player, int chunk, int micro_batch) const {
    const auto slot_of = [&](int m) {
      const auto slot = player.slots.find({chunk, m});
      return slot == player.slots.end() ? -1 : slot->second;
    };
    return std::ranges::any_of(player.open, [&](const Open& open) {
      return open.chunk == chunk && open.micro_batch != micro_batch && slot_of(open.micro_batch) == slot_of(micro_batch);
    });
  }

  // Whether the step writes what is still to be sent.
  bool overwrites_sent(const DeviceProgram& program, const Player& player, const Step& step) const {
    const int micro_batch = player.entries[player.entry].what.micro_batch;
    return std::ranges::any_of(player.open, [&](const Open& open) {
      if (!open.memory.present() || (program.buffers[open.memory].in_slot && open.micro_batch != micro_batch)) return false;
      return std::ranges::any_of(step.outputs, [&](BufferId out) { return out.present() && player.roots[out] == open.memory; });
    });
  }

  void post_receives(ProgramId p) {
    Player& player = players_[p];
    std::vector<Receive> held;
    for (const Receive& r : std::exchange(player.next_receives, {})) {
      const BufferId to = plan_.programs[p].steps[r.step].outputs.empty() ? BufferId{} : plan_.programs[p].steps[r.step].outputs[0];
      if (is_held(player, to.present() ? player.chunks[to] : -1, player.entries[r.entry].what.micro_batch))
        held.push_back(r);
      else
        post(p, {r.step, player.number(r.entry)}, r.entry);
    }
    player.next_receives.insert(player.next_receives.begin(), held.begin(), held.end());
  }

  // One step, or the begin or the end of an entry. False where it has to wait.
  bool go_on(ProgramId p) {
    Player& player = players_[p];
    Entry& entry = player.entries[player.entry];
    if (!player.came) {
      player.came = true;
      player.next_receives.insert(player.next_receives.end(), entry.frees.begin(), entry.frees.end());
    }
    post_receives(p);
    const bool ends = entry.what.phase == Phase::update, begins = entry.what.phase == Phase::forward;
    if (!player.begun && ((ends && !player.open.empty()) || (begins && is_held(player, entry.what.chunk, entry.what.micro_batch))))
      return false;
    player.begun = true;
    if (player.next == entry.part->steps.size()) {
      if (!entry.missing.empty()) return false;
      ++player.entry;
      player.next = 0;
      player.begun = player.came = false;
      return true;
    }
    const Issue issue{entry.part->steps[player.next], player.number(player.entry)};
    const DeviceProgram& program = plan_.programs[p];
    const Step& step = program.steps[issue.step];
    const std::vector<StepId>& used = entry.part->uses[player.next];
    if (std::ranges::any_of(used, [&](StepId r) { return std::ranges::find(entry.missing, r) != entry.missing.end(); })) return false;
    if (!used.empty()) player.clock = std::max(player.clock, entry.ready);
    if (player.waits || overwrites_sent(program, player, step)) return false;
    if (step.as<ExchangeStep>()) {
      const bool sends = is_between_stages(program, step);
      player.waits = !sends;
      if (sends) ++player.next;
      post(p, issue, player.entry);
      return sends;
    }
    ++player.next;
    player.issued.push_back(issue);
    player.clock += step.seconds;
    return true;
  }

  // The program comes to an exchange, which takes place with the last one that does.
  void post(ProgramId p, const Issue& issue, std::size_t entry) {
    const DeviceProgram& program = plan_.programs[p];
    const Step& step = program.steps[issue.step];
    const ExchangeId e = step.as<ExchangeStep>()->exchange;
    const int micro_batch = is_of_micro_batch(step.phase) ? players_[p].entries[entry].what.micro_batch : 0;
    if (is_between_stages(program, step)) {
      const BufferId memory = step.inputs.empty() || !step.inputs[0].present() ? BufferId{} : players_[p].roots[step.inputs[0]];
      players_[p].open.push_back({issue, micro_batch, memory, memory.present() ? players_[p].chunks[memory] : -1});
    }
    std::vector<Post>& posts = posts_[{e, micro_batch}];
    posts.push_back({p, issue, entry});
    if (posts.size() < members_[e]) return;
    const double begin = players_[p].clock;
    for (const Post& each : std::exchange(posts, {})) take(each, begin);
  }

  void take(const Post& post, double begin) {
    Player& player = players_[post.program];
    const DeviceProgram& program = plan_.programs[post.program];
    const Step& step = program.steps[post.issue.step];
    const double end = begin + step.seconds;
    player.issued.push_back(post.issue);
    if (!is_between_stages(program, step)) {
      ++player.next;
      player.waits = false;
      return wake(post.program, end);
    }
    std::erase_if(player.open,
                  [&](const Open& open) { return open.issue.step == post.issue.step && open.issue.entry == post.issue.entry; });
    Entry& entry = player.entries[post.entry];
    if (std::erase(entry.missing, post.issue.step) > 0) entry.ready = std::max(entry.ready, end);
    wake(post.program, begin);
  }

  // Of a program that waits for ever.
  void issue_rest(Player& player) const {
    for (const Open& open : player.open) player.issued.push_back(open.issue);
    for (const Receive& r : player.next_receives) player.issued.push_back({r.step, player.number(r.entry)});
    for (std::size_t next = player.next; player.entry < player.entries.size(); ++player.entry, next = 0, player.came = false) {
      const Entry& entry = player.entries[player.entry];
      if (!player.came)
        for (const Receive& r : entry.frees) player.issued.push_back({r.step, player.number(r.entry)});
      for (; next < entry.part->steps.size(); ++next) player.issued.push_back({entry.part->steps[next], player.number(player.entry)});
    }
  }

  const Plan& plan_;
  IdVector<ProgramId, Player> players_;
  IdVector<ExchangeId, std::size_t> members_;  // how many programs enter an exchange
  std::map<Instance, std::vector<Post>> posts_;
  std::priority_queue<std::pair<double, ProgramId>, std::vector<std::pair<double, ProgramId>>, std::greater<>> going_;  // by their clocks
};

}  // namespace

bool is_between_stages(const DeviceProgram& program, const Step& step) {
  const bool by_stages = step.stream >= send_forward_stream && step.stream <= receive_backward_stream;
  return by_stages && is_of_micro_batch(step.phase) && step.as<ExchangeStep>() && !program.schedule.empty();
}

IdVector<BufferId, BufferId> roots_of(const DeviceProgram& program) {
  IdVector<BufferId, BufferId> roots(program.buffers.size(), BufferId{});
  std::vector<BufferId> way;  // each buffer is walked over once, whatever the chains
  for (BufferId id{0}; id.index < std::ssize(program.buffers); ++id.index) {
    BufferId at = id;
    for (way.clear(); !roots[at].present(); at = program.buffers[at].alias) {
      way.push_back(at);
      roots[at] = at;  // the end of the way, or of a circle
      if (!program.buffers[at].alias.present()) break;
    }
    for (const BufferId b : way) roots[b] = roots[at];
  }
  return roots;
}

IdVector<BufferId, int> chunks_of(const DeviceProgram& program) {
  const IdVector<BufferId, BufferId> roots = roots_of(program);
  IdVector<BufferId, int> chunks(program.buffers.size(), -1);
  for (const Step& s : program.steps)
    for (const auto* list : {&s.inputs, &s.outputs})
      for (const BufferId id : *list)
        if (int* const chunk = id.present() ? &chunks[roots[id]] : nullptr; chunk && is_of_micro_batch(s.phase))
          *chunk = *chunk < 0 ? s.chunk : std::min(*chunk, s.chunk);
  for (BufferId b{0}; b.index < std::ssize(chunks); ++b.index) chunks[b] = chunks[roots[b]];
  return chunks;
}

IdVector<ProgramId, std::vector<Issue>> issue_order(const Plan& plan) {
  return Play(plan).run();
}

}  // namespace tandem
