#include "trainer/fit/step_plan.h"
#include "base/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

std::int64_t StepPlan::total() const {
  const bool endless = o_.epochs > std::numeric_limits<std::int64_t>::max() / order_.batches();
  const std::int64_t all = endless ? std::numeric_limits<std::int64_t>::max() : o_.epochs * per_epoch();
  return o_.epochs == 0 ? o_.steps : o_.steps == 0 ? all : std::min(all, o_.steps);
}

double StepPlan::base_rate() const { return o_.learning_rate ? *o_.learning_rate : default_learning_rate(s_.options.plan.optimizer); }

double StepPlan::rate(std::int64_t step, std::int64_t steps, const Waiting& plateau) const {
  return plateau.factor * tandem::learning_rate(o_.schedule, base_rate(), step, steps, static_cast<double>(per_epoch()));
}

std::string StepPlan::moved_end(std::int64_t before, std::int64_t step, const Waiting& plateau) const {
  if (before == 0 || before == total() || step >= total()) return "";
  const double was = rate(step, before, plateau), now = rate(step, plateau);
  if (std::abs(now - was) <= 1e-6 * std::max(std::abs(now), std::abs(was))) return "";
  return fmt::format(
      "the learning-rate schedule {} now ends after {} steps, before it ended after {}: step {} goes on at a rate of {:.4g} and not of "
      "{:.4g} "
      "({} constant with {} keeps one rate)",
      o_.schedule.name, total(), before, step + 1, now, was, option("lr_schedule"), option("learning_rate"));
}

StepState StepPlan::state(const LoadedBatch& batch, std::int64_t step, double rate, std::int64_t& averaged) const {
  StepState state = s_.step_state(rate);
  state.epoch = static_cast<double>(step) / static_cast<double>(per_epoch());
  state.average = average(batch, step, averaged);
  return state;
}

std::vector<double> StepPlan::weights(std::size_t plan, const LoadedBatch& batch) const {
  std::vector<double> sums(s_.loss_means(), 0);
  for (const std::vector<double>& own : s_.weights_of(plan, batch.inputs))
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  return sums;
}

// How far averages move in this step.
double StepPlan::average(const LoadedBatch& batch, std::int64_t step, std::int64_t& averaged) const {
  const Averaging& a = o_.averaging;
  if (!a.any()) return 0;
  if (static_cast<double>(step) < a.from * static_cast<double>(per_epoch())) return 1;
  if (a.ema > 0) return averaged++ == 0 ? 1 : 1 - a.ema;
  if (batch.index + 1 < order_.batches()) return averaged == 0 ? 1 : 0;
  return 1.0 / static_cast<double>(++averaged);
}

}  // namespace tandem
