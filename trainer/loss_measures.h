// All losses and metrics of a model's batches, as one Evaluation.
#pragma once
#include <vector>

#include "trainer/compiled_model.h"
#include "trainer/measure/scores.h"
#include "trainer/template/evaluation_outputs.h"

namespace tandem {

// What a batch's losses take, by loss; null where it takes none.
struct BatchLabels {
  std::vector<const std::byte*> labels;
  const float* weights = nullptr;  // of samples
  std::int64_t size = 0;
  std::span<const FeedTarget> targets{};  // with what was fed for each, the model's inputs among them
  std::span<std::byte* const> inputs{};
};
// `inputs` belong to `targets`.
BatchLabels labels_in(const Losses& losses, std::span<const FeedTarget> targets, std::span<std::byte* const> inputs, std::int64_t size);

class FileMeasure;

class LossMeasures {
 public:
  // `state` outlives it. Fails (usage) as Scores and FileMeasure.
  LossMeasures(const CompiledModel& state, const std::vector<std::string>& metrics);
  ~LossMeasures();
  bool reads_inputs() const;  // a file takes an input of the model, of all samples
  void add(const Plan& plan, const Runner& runner, const BatchLabels& batch);  // of a plan that gives evaluation_of(), and was run
  Evaluation result() const;

 private:
  const Losses& losses_;
  std::vector<std::unique_ptr<FileMeasure>> files_, metrics_;  // of the losses, null where no file computes one; of metrics
  struct Sum {
    double loss = 0, weight = 0;  // of what counts, by its weight; loss_weight() of it
    double mean() const { return weight == 0 ? 0 : loss / weight; }
  };
  std::int64_t samples_ = 0;
  std::vector<Sum> sums_;
  std::vector<Scores> scores_;
};

}  // namespace tandem
