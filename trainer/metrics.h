// Loss and accuracy of predictions, on the host and in double: for evaluation, which runs the inference plan. The
// meanings are those of the training graph's losses: a mean over samples of each sample's mean.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "graph/graph.h"

namespace tandem {

// What a model's first output holds, told by the operator that makes it.
struct Scores {
  enum Kind { plain, softmax, log_softmax, sigmoid } kind = plain;
  int axis = 1;  // of the classes
};
Scores scores_of(const Graph& graph);

// Classes of the output as the loss sees them; 0 where it has none.
std::int64_t classes_of(const Shape& output, const Scores& scores, std::string_view loss);
// What one sample's labels look like: class indices int64, or dense values of the output's type.
TensorType label_type(const TensorType& output, const Scores& scores, std::string_view loss, bool dense);
// True where the loss takes dense labels only.
bool needs_dense_labels(std::string_view loss, const TensorType& output);

struct Measure {
  double loss = 0;  // sum over samples
  double correct = 0;
  std::int64_t rows = 0;  // what `correct` counts; 0: accuracy has no meaning for this loss
  std::int64_t samples = 0;

  double mean_loss() const { return loss / static_cast<double>(samples); }
  double accuracy() const;  // NaN where rows is 0
};
// Adds the first `samples` of a batch. `labels` is int64 or of the output's type, as label_type says.
void measure(Measure& sum, std::string_view loss, const Scores& scores, const TensorType& output, const std::byte* values,
             DType label_dtype, const std::byte* labels, std::int64_t samples);

}  // namespace tandem
