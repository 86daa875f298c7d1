// All losses and metrics of a model's batches, as one Evaluation.
#pragma once
#include <vector>

#include "trainer/model_state.h"
#include "trainer/scores.h"

namespace tandem {

// What a batch's losses take, by loss; null where it takes none.
struct BatchLabels {
  std::vector<const std::byte*> labels;
  const float* weights = nullptr;  // of samples
  std::int64_t size = 0;
};
// `inputs` belong to `targets`.
BatchLabels labels_in(const Losses& losses, std::span<const FeedTarget> targets, std::span<std::byte* const> inputs, std::int64_t size);

class LossMeasures {
 public:
  // Both outlive it. Fails (usage) as Scores.
  LossMeasures(const Losses& losses, const std::vector<std::string>& metrics);
  void add(const Plan& plan, const Runner& runner, const BatchLabels& batch);  // of an inference plan that was run
  Evaluation result() const;

 private:
  const Losses& losses_;
  std::vector<Measure> sums_;
  std::vector<Scores> scores_;
};

}  // namespace tandem
