#include "planner/plan/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option.h"
#include "base/units.h"
#include "planner/pipeline/schedules.h"
#include "planner/plan/modules.h"

namespace tandem {
namespace {

struct Facts {
  const Plan& plan;
  const TimedPlan& timed;
  const DeviceProgram& longest;  // the program of the device that takes longest
  const DeviceProgram& fullest;  // of the most bytes, of devices with samples
  StepBounds bounds;
  double seconds;  // a step
};

std::int64_t bytes_in(const DeviceProgram& program, ArenaKind kind) {
  const auto arena = std::ranges::find(program.arenas, kind, &Arena::kind);
  return arena == program.arenas.end() ? 0 : arena->bytes;
}

const DeviceProgram& fullest_of(const Plan& plan) {
  const auto bytes = [&](const PlanDevice& d) { return d.slice_size > 0 ? plan.programs[d.program].peak_bytes() : -1; };
  return plan.programs[std::ranges::max_element(plan.devices, {}, bytes)->program];
}

std::string share(double part, double whole) {
  return fmt::format("{:.1f}%", 100 * part / whole);
}

// Launches, updates and waiting take as long for a larger batch.
void larger_batch(std::vector<Advice>& list, const Facts& f) {
  double updates = 0;
  for (const Step& s : f.longest.steps)
    if (s.as<LaunchStep>() && s.stream == compute_stream &&
        std::ranges::any_of(s.outputs, [&](BufferId id) { return id.present() && f.longest.buffers[id].arena == ArenaKind::parameters; }))
      updates += std::max(0.0, s.seconds - f.longest.model.launch_seconds);
  const double fixed = std::min(f.seconds, f.bounds.latency + f.bounds.waiting + updates);
  const std::int64_t grows = bytes_in(f.fullest, ArenaKind::scratch) + bytes_in(f.fullest, ArenaKind::staging);
  const std::int64_t needs = f.fullest.peak_bytes() + grows, limit = f.fullest.model.memory;
  if (limit > 0 && needs > limit) return;
  list.push_back(
      {concat(option("batch"), ' ', 2 * f.plan.batch), fixed / 2, 0,
       concat(text_of_seconds(fixed), " of the step, for launches, updates and waiting, do not grow with the batch; memory would take ",
              text_of_bytes(needs), limit > 0 ? concat(" of ", text_of_bytes(limit)) : "")});
}

double bubble_of_equal(ScheduleKind kind, int stages, int micro_batches) {
  const std::vector<PartTimes> equal(at(stages), PartTimes{1, 1, 1});
  return replayed(schedules_of(kind, stages, 1, micro_batches), equal, 0).bubble;
}

// Groups of programs that exchange among themselves otherwise than by sends: a pipeline's stages.
int stages_of(const Plan& plan) {
  std::vector<int> stage(plan.programs.size());
  for (std::size_t p = 0; p < stage.size(); ++p) stage[p] = static_cast<int>(p);
  for (const Exchange& e : plan.exchanges) {
    if (e.kind == ExchangeKind::send) continue;
    const int to = stage[at(plan.devices[at(e.devices[0])].program.index)];
    for (const int d : e.devices)
      if (const int from = stage[at(plan.devices[at(d)].program.index)]; from != to) std::ranges::replace(stage, from, to);
  }
  std::ranges::sort(stage);
  return static_cast<int>(std::ranges::unique(stage).begin() - stage.begin());
}

// The schedules as they would be with stages that take equal time.
void smaller_bubble(std::vector<Advice>& list, const Facts& f) {
  constexpr ScheduleKind known[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1};
  const auto* const kind = std::ranges::find_if(known, [&](ScheduleKind k) { return name_of(k) == f.plan.schedule; });
  const auto stages = stages_of(f.plan);
  constexpr int most = 256;  // of stages and micro-batches: what is replayed here is small
  if (kind == std::end(known) || stages < 2 || stages > most || f.plan.micro_batches > most) return;
  const double measured = bubble_of(f.timed.flat.plan, f.timed.lines);
  const auto offer = [&](const std::string& words, ScheduleKind k, int count) {
    const double now = bubble_of_equal(*kind, stages, static_cast<int>(f.plan.micro_batches)), then = bubble_of_equal(k, stages, count);
    if (then >= now) return;
    list.push_back({words, f.seconds * std::min(measured, 1 - (1 - now) / (1 - then)), 0,
                    fmt::format("{} equal stages would wait {:.1f}% in place of {:.1f}% of the time; here they wait {:.1f}%", stages,
                                100 * then, 100 * now, 100 * measured)});
  };
  const std::int64_t doubled = 2 * f.plan.micro_batches;
  if (f.plan.batch % doubled == 0) offer(concat(option("micro_batches"), ' ', doubled), *kind, static_cast<int>(doubled));
  if (!splits_backward(*kind))
    offer(concat(option("schedule"), ' ', name_of(ScheduleKind::zb_h1)), ScheduleKind::zb_h1, static_cast<int>(f.plan.micro_batches));
}

// Half the bytes of what memory bounds. CPUs with samples are left out: many have no fast 16-bit arithmetic.
void narrower(std::vector<Advice>& list, const Facts& f) {
  if (f.plan.precision != Precision::fp32 && f.plan.precision != Precision::tf32) return;
  if (std::ranges::any_of(f.plan.devices, [](const PlanDevice& d) { return d.slice_size > 0 && d.device.backend == "cpu"; }))
    return;
  list.push_back({concat(option("precision"), ' ', name_of(Precision::bf16)), f.bounds.memory / 2, 0,
                  concat("kernels that memory bounds take ", text_of_seconds(f.bounds.memory), ", ", share(f.bounds.memory, f.seconds),
                         " of the step, and would move half the bytes; arithmetic is not counted")});
}

// Sums that nothing hides end with their last bucket.
void smaller_buckets(std::vector<Advice>& list, const Facts& f) {
  const Exchange* last = nullptr;
  int buckets = 0;
  const IdVector<ExchangeId, bool> gradients = carry_gradients(f.plan);
  for (ExchangeId id{0}; id.index < std::ssize(f.plan.exchanges); ++id.index) {
    if (!gradients[id] || f.plan.exchanges[id].kind == ExchangeKind::send) continue;
    last = &f.plan.exchanges[id];
    ++buckets;
  }
  if (!last || last->values.size() < 2 || f.bounds.waiting <= 0) return;
  const std::int64_t bytes = last->elements * static_cast<std::int64_t>(size_of(last->dtype));
  list.push_back(
      {concat(option("bucket_bytes"), ' ', std::max<std::int64_t>(bytes / 2, 1)), std::min(f.bounds.waiting, last->seconds / 2), 0,
       concat("the last of ", buckets, buckets == 1 ? " bucket, " : " buckets, ", text_of_bytes(bytes), " of ", last->values.size(),
              " gradients, takes ", text_of_seconds(last->seconds), ", and the devices wait ", text_of_seconds(f.bounds.waiting))});
}

// Optimizer states that all replicas hold.
void shared_states(std::vector<Advice>& list, const Facts& f) {
  const auto replicas = static_cast<std::int64_t>(f.plan.devices.size());
  const std::int64_t states = bytes_in(f.fullest, ArenaKind::optimizer);
  if (replicas < 2 || states == 0 || f.plan.programs.size() > 1) return;
  const auto whole = [](const PlanParameter& p) { return std::ranges::all_of(p.parts, &ProgramPart::is_whole); };
  if (!std::ranges::all_of(f.plan.parameters, whole)) return;
  list.push_back({concat(option("parallel"), " data=*,zero=1"), 0, states - states / replicas,
                  concat("each of ", replicas, " devices holds ", text_of_bytes(states), " of optimizer state, all the same")});
}

// Activations that are computed again.
void fewer_activations(std::vector<Advice>& list, const Facts& f) {
  if (f.plan.mode != PlanMode::training || !f.plan.recompute.empty()) return;
  for (const auto& [kind, bytes] : f.fullest.memory)
    if (kind == MemoryClass::activations && bytes > 0)
      list.push_back({concat(option("memory_budget"), " 50%"), 0, bytes / 2,
                      concat(text_of_bytes(bytes), " of activations are alive at the peak; half of them would be computed again")});
}

}  // namespace

std::vector<Advice> advice_for(const Plan& plan, const TimedPlan& timed) {
  std::vector<Advice> list;
  if (plan.devices.empty() || timed.lines.empty()) return list;
  const std::size_t longest = longest_of(timed.lines);
  const Facts facts{plan,
                    timed,
                    plan.program_of(longest),
                    fullest_of(plan),
                    bounds_of(timed.flat.plan, timed.lines),
                    timed.lines[longest].seconds};
  for (const auto add : {larger_batch, smaller_bubble, narrower, smaller_buckets, shared_states, fewer_activations}) add(list, facts);
  const auto gain = [&](const Advice& a) {
    const double of_memory =
        static_cast<double>(a.saves_bytes) / static_cast<double>(std::max<std::int64_t>(1, facts.fullest.peak_bytes()));
    return std::max(facts.seconds > 0 ? a.saves_seconds / facts.seconds : 0, of_memory);
  };
  std::erase_if(list, [&](const Advice& a) { return gain(a) < 0.01; });
  std::ranges::stable_sort(list, std::greater(), gain);
  return list;
}

}  // namespace tandem
