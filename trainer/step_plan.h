// The steps of a run: how many there are, each one's learning rate, and what a batch is in the step that it belongs to.
#pragma once
#include "trainer/model_state.h"

namespace tandem {

class StepPlan {
 public:
  // All of these outlive the object.
  StepPlan(const Model::State& state, const FitOptions& options, const BatchOrder& order) : s_(state), o_(options), order_(order) {}

  std::int64_t per_epoch() const { return (order_.batches() + o_.accumulate - 1) / o_.accumulate; }
  std::int64_t total() const;
  double base_rate() const;  // what was asked for, or the optimizer's default
  double rate(std::int64_t step, const Waiting& plateau) const;  // step: from 0
  // `averaged`: how many weights the averages have so far; moved on with the last batch of a step. Random numbers are those of
  // one batch of all the step's samples.
  StepState state(const LoadedBatch& batch, std::int64_t step, double rate, std::int64_t& averaged) const;

 private:
  double average(const LoadedBatch& batch, std::int64_t step, std::int64_t& averaged) const;
  const Model::State& s_;
  const FitOptions& o_;
  const BatchOrder& order_;
};

}  // namespace tandem
