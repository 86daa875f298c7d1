// Loss and accuracy of predictions, on the host and in double: for evaluation, which runs the inference plan. The
// meanings are those of the training graph's losses: a mean over samples of each sample's mean.
#pragma once
#include <cstdint>

#include "planner/passes/labels.h"

namespace tandem {

struct Measure {
  double loss = 0;  // sum over samples
  double correct = 0;
  std::int64_t rows = 0;  // what `correct` counts; 0: accuracy has no meaning for this loss
  std::int64_t samples = 0;

  double mean_loss() const { return loss / static_cast<double>(samples); }
  double accuracy() const;  // NaN where rows is 0
};
// Adds the first `samples` of a batch. `values`: labels.value's, of type `dtype`; `given`: labels as labels.sample says.
void measure(Measure& sum, const Labels& labels, DType dtype, const std::byte* values, const std::byte* given, std::int64_t samples);

}  // namespace tandem
