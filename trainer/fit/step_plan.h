// The steps of a run: how many there are, each one's learning rate, and what a batch is in the step that it belongs to.
#pragma once
#include "trainer/compiled_model.h"
#include "trainer/fit_options.h"

namespace tandem {

class StepPlan {
 public:
  // All of these outlive the object.
  StepPlan(const CompiledModel& state, const FitOptions& options, const BatchOrder& order) : s_(state), o_(options), order_(order) {}

  std::int64_t per_epoch() const { return order_.batches(); }
  std::int64_t total() const;
  std::vector<double> weights(std::size_t plan, const LoadedBatch& batch) const;  // of each mean
  double base_rate() const;  // what was asked for, or the optimizer's default
  double rate(std::int64_t step, const Waiting& plateau) const { return rate(step, total(), plateau); }  // step: from 0
  // What a schedule that goes by the end makes of a run that was to end after `before` steps and ends elsewhere now: a sentence where
  // its rate at `step` changes by that, else nothing.
  std::string moved_end(std::int64_t before, std::int64_t step, const Waiting& plateau) const;
  // `averaged`: how many weights the averages have so far; moved on.
  StepState state(const LoadedBatch& batch, std::int64_t step, double rate, std::int64_t& averaged) const;

 private:
  double rate(std::int64_t step, std::int64_t steps, const Waiting& plateau) const;
  double average(const LoadedBatch& batch, std::int64_t step, std::int64_t& averaged) const;
  const CompiledModel& s_;
  const FitOptions& o_;
  const BatchOrder& order_;
};

}  // namespace tandem
