#include "planner/offload_programs.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/units.h"
#include "planner/plan/timeline.h"
#include "planner/recompute/chunks.h"

namespace tandem {
namespace {

// What is done with the activations of one program.
struct Saved {
  std::optional<Recomputed> recomputed;
  std::vector<Away> away;        // of `before`
  std::int64_t activations = 0;  // bytes that are kept without
  LoweredGraph before, program;
  std::int64_t bytes = 0;  // of the plan on its device
  std::int64_t away_bytes() const {
    std::int64_t sum = 0;
    for (const Away& a : away) sum += before.buffers[a.value].bytes;
    return sum;
  }
};

class Choice {
 public:
  Choice(const UnitPrograms& programs, std::span<const ProgramToOffload> senders, const CompileOptions& o,
         const std::function<Plan(UnitPrograms)>& planned)
      : programs_(programs), senders_(senders), o_(o), planned_(planned) {}

  void run(Plan& plan, UnitPrograms& programs) {
    has_budget(o_) ? within_budget() : everything();
    if (best_.empty()) return;
    tell(plan);
    programs = with(best_);
  }

 private:
  enum class Which { none, hidden, all };

  // What devices keep elsewhere besides what is computed again by name.
  void everything() {
    std::vector<LoweredGraph> named;
    for (const ProgramToOffload& s : senders_) named.push_back(*s.program.program);
    if (!o_.memory.recompute.empty()) {
      std::vector<ProgramToRecompute> list;
      for (std::size_t i = 0; i < senders_.size(); ++i) {
        list.push_back(senders_[i].program);
        list.back().program = &named[i];
      }
      recompute_ = recompute_programs(list, o_);
    }
    for (std::size_t i = 0; i < senders_.size(); ++i) best_.push_back(away(senders_[i], std::move(named[i]), Which::hidden));
  }

  void within_budget() {
    for (const ProgramToOffload& s : senders_) budgets_.push_back(budget_of(s.program, o_));
    attempt([&](const ProgramToOffload& s, std::int64_t budget) { return recomputed(s, budget, Which::none); });
    attempt([&](const ProgramToOffload& s, std::int64_t budget) { return fewest(s, budget, Which::hidden); });
    attempt([&](const ProgramToOffload& s, std::int64_t budget) { return both(s, budget); });
    attempt([&](const ProgramToOffload& s, std::int64_t budget) { return fewest(s, budget, Which::all); });
    if (!reached_ && !o_.memory.budget->fit)
      for (std::size_t i = 0; i < senders_.size(); ++i)
        if (best_[i].bytes > budgets_[i]) refuse_budget(senders_[i].program, o_, budgets_[i], best_[i].bytes);
  }

  // Keeps it where it reaches the budget in less time, or none has reached it and it takes fewer bytes.
  template <class Way>
  void attempt(const Way& way) {
    std::vector<Saved> now;
    std::int64_t bytes = 0;
    bool reached = true;
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      now.push_back(way(senders_[i], budgets_[i]));
      bytes += now.back().bytes;
      reached = reached && now.back().bytes <= budgets_[i];
    }
    const double seconds = planned_(with(now)).seconds;
    const bool better = reached ? !reached_ || seconds < seconds_ : !reached_ && bytes < bytes_;
    if (!better) return;
    best_ = std::move(now);
    reached_ = reached;
    seconds_ = seconds;
    bytes_ = bytes;
  }

  // In at most so many bytes on its device, and then some away.
  Saved recomputed(const ProgramToOffload& s, std::int64_t bytes, Which which) const {
    Recomputed r = recompute_chunks(*s.program.program, s.program.losses, bytes, s.program.bytes_of);
    Saved saved = away(s, r.again.program, which);
    saved.recomputed = std::move(r);
    return saved;
  }

  Saved away(const ProgramToOffload& s, LoweredGraph program, Which which,
             std::size_t most = std::numeric_limits<std::size_t>::max()) const {
    Saved saved;
    if (o_.parallel.micro_batches == 1 && computing_devices(o_).size() == 1) schedule_updates(program);
    saved.before = std::move(program);
    const Activations activations(saved.before, s.program.losses);
    saved.activations = activations.droppable_bytes();
    if (which != Which::none && !s.pairs.empty()) {
      saved.away = kept_elsewhere(activations, s.link, which == Which::all);
      saved.away.resize(std::min(saved.away.size(), most));
    }
    saved.program = saved.away.empty() ? saved.before : with_away(activations, saved.away, s.pairs, s.link.beside);
    saved.bytes = s.program.bytes_of(saved.program).all;
    return saved;
  }

  // As few as do, else all.
  Saved fewest(const ProgramToOffload& s, std::int64_t budget, Which which) const {
    Saved best = away(s, *s.program.program, which);
    std::size_t none = 0, enough = best.away.size();
    while (best.bytes <= budget && enough > none) {
      const std::size_t half = none + (enough - none) / 2;
      Saved now = away(s, *s.program.program, which, half);
      if (now.bytes > budget) {
        none = half + 1;
        continue;
      }
      enough = half;
      best = std::move(now);
    }
    return best;
  }

  // What computing again has to leave for the rest to be kept elsewhere behind the computing: as much as does.
  Saved both(const ProgramToOffload& s, std::int64_t budget) const {
    constexpr int tries = 5;
    Saved best = recomputed(s, budget, Which::hidden);
    std::int64_t enough = budget, too_many = s.program.bytes_of(*s.program.program).all;
    for (int i = 0; i < tries && enough < too_many; ++i) {
      const std::int64_t half = enough + (too_many - enough) / 2;
      Saved now = recomputed(s, half, Which::hidden);
      const bool fits = now.bytes <= budget;
      (fits ? enough : too_many) = half;
      if (fits) best = std::move(now);
    }
    return best;
  }

  UnitPrograms with(const std::vector<Saved>& saved) const {
    UnitPrograms to;
    for (const auto& program : programs_) to.push_back(std::make_unique<LoweredGraph>(*program));
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      const auto own = std::ranges::find_if(programs_, [&](const auto& p) { return p.get() == senders_[i].program.program; });
      *to[static_cast<std::size_t>(own - programs_.begin())] = saved[i].program;
      for (const std::size_t keeper : senders_[i].keepers) keep_activations(*to[keeper], saved[i].program);
    }
    return to;
  }

  void tell(Plan& plan) const {
    plan.recompute = recompute_;
    const Saved* slowest = nullptr;
    for (const Saved& s : best_)
      if (s.recomputed && (!slowest || s.recomputed->share > slowest->recomputed->share)) slowest = &s;
    if (slowest) plan.recompute = to_string(*slowest->recomputed);
    const auto most = std::ranges::max_element(best_, {}, &Saved::away_bytes);
    const auto& sender = senders_[static_cast<std::size_t>(most - best_.begin())];
    if (sender.pairs.empty()) return;
    const DeviceId& keeper = o_.devices[at(sender.pairs[0].keeper)].id;
    const std::int64_t bytes = most->away_bytes();
    double moving = 0;
    for (const Away& a : most->away) moving += 2 * sender.link.seconds(most->before.buffers[a.value].bytes);
    plan.offload = concat(most->away.size(), most->away.size() == 1 ? " activation is" : " activations are", " kept by ", keeper, ", ",
                          text_of_bytes(bytes), " of ", text_of_bytes(most->activations));
    if (bytes == 0) {
      plan.offload += concat("; none of ", text_of_bytes(least_bytes_away), " or more has the time to go there and come back");
      return;
    }
    plan.offload += concat("; ", text_of_bytes(2 * bytes), " go there and back in ", text_of_seconds(moving), " a step, of which ",
                           text_of_seconds(exposed()), " are added to it");
    list_transfers(plan);
  }

  // By the plan's own times: the step, less what it would take if nothing of it moved.
  double exposed() const {
    Plan plan = planned_(with(best_));
    const double seconds = plan.seconds;
    for (DeviceProgram& program : plan.programs)
      for (Step& s : program.steps)
        if (const auto* e = s.as<ExchangeStep>(); e && moves_activations(plan.exchanges[e->exchange])) s.seconds = 0;
    return std::max(0.0, seconds - seconds_of(plan));
  }

  void list_transfers(Plan& plan) const {
    for (std::size_t i = 0; i < best_.size(); ++i)
      for (const Away& a : best_[i].away) {
        const Buffer& b = best_[i].before.buffers[a.value];
        const Step& reader = best_[i].before.steps[at(a.first_read)];
        plan.transfers.push_back({ExchangeKind::send, b.name, 2 * b.operand.bytes(), "", reader.origin.empty() ? "" : reader.origin.front(),
                                  concat(o_.devices[at(senders_[i].pairs[0].keeper)].id, " keeps it until the backward pass")});
      }
    std::ranges::stable_sort(plan.transfers, std::greater(), &PlanTransfer::bytes);
  }

  const UnitPrograms& programs_;
  const std::span<const ProgramToOffload> senders_;
  const CompileOptions& o_;
  const std::function<Plan(UnitPrograms)>& planned_;
  std::vector<std::int64_t> budgets_;  // by sender
  std::vector<Saved> best_;            // by sender
  std::string recompute_;
  bool reached_ = false;
  double seconds_ = 0;
  std::int64_t bytes_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

void offload_programs(Plan& plan, UnitPrograms& programs, std::span<const ProgramToOffload> senders, const CompileOptions& options,
                      const std::function<Plan(UnitPrograms)>& planned) {
  Choice(programs, senders, options, planned).run(plan, programs);
}

}  // namespace tandem
