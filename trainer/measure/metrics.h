// Loss and accuracy of predictions, on the host and in double: for evaluation, which runs the inference plan. The
// meanings are those of the training graph's losses: of samples, or of what counts of them, the mean by their weights.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "planner/loss/labels.h"

namespace tandem {

struct Measure {
  double loss = 0;        // sum over what counts, by its weight
  double weight = 0;      // loss_weight() of all batches: what the sum is divided by
  double correct = 0;
  std::int64_t rows = 0;  // what `correct` counts; 0: accuracy has no meaning for this loss
  std::int64_t samples = 0;

  double mean_loss() const;  // 0 where nothing counts
  double accuracy() const;   // NaN where rows is 0
};
// A batch of a value on the host and its labels.
struct Measured {
  DType dtype;              // of the value
  const std::byte* values;  // labels.value's
  const std::byte* given;   // labels as labels.sample says; null where there are none
  std::int64_t samples;     // the first so many count
  const float* weights = nullptr;  // of samples
};
// What a loss sees at a time: the classes of a place, the last axis, else all of a sample.
struct Place {
  std::int64_t sample;
  std::span<const double> x, t;  // logits, labels
  std::int64_t label = -1;       // class index; -1: t has no single one that is a class
  bool ignored = false;
};
void each_place(const Labels& labels, const Measured& batch, const std::function<void(const Place&)>& each);

// What the mean over a batch is divided by, and what means of batches are weighted by wherever they become one mean: the steps' batches,
// those of an epoch, of an evaluation. Each place that has a loss counts by its sample's weight times its label's; one that is ignored
// by 0. `given`: labels, `weights`: of samples; null where there are none.
double loss_weight(const Labels& labels, const std::byte* given, const float* weights, std::int64_t samples);
// Without it all batches of as many samples are divided by the same.
bool weight_depends_on_data(const Labels& labels);

void measure(Measure& sum, const Labels& labels, const Measured& batch);

}  // namespace tandem
