// What losses are, in double and on the host, one sample after another: what plans compute is compared with it.
#pragma once
#include <cstdint>
#include <span>

#include "trainer/measure/metrics.h"

namespace tandem {

// Numbers of one element, or of a row of them.
struct HostRow {
  std::span<const double> x, t;             // scores (logits where they are classes'), labels (one-hot where they are classes')
  std::int64_t classes = 0;                 // of a sequence
  std::span<const std::int64_t> sequence{}; // its labels
};
double host_loss(const Labels& labels, const HostRow& row);

struct HostMeasure {
  double loss = 0;        // sum over what counts, by its weight
  double weight = 0;      // loss_weight() of all batches: what the sum is divided by
  double correct = 0;
  std::int64_t rows = 0;  // what `correct` counts; 0: accuracy has no meaning for this loss
  std::int64_t samples = 0;

  double mean_loss() const;  // 0 where nothing counts
  double accuracy() const;   // NaN where rows is 0
};
void measure(HostMeasure& sum, const Labels& labels, const Measured& batch);

}  // namespace tandem
