// A loss as rows: what the formula of a row of losses gives for each place, element or sample, before anybody takes a mean. Training and
// evaluation share it.
#pragma once
#include "planner/loss/labels.h"

namespace tandem {

// One loss and what it is attached to: the logits of all samples, each as l.scores says.
struct LossContext {
  GraphBuilder& b;
  const Labels& l;
  const LossRow& row;
  std::int64_t samples;
};

// As many of each sample, with the weight of each row; absent: all count alike.
struct LossRows {
  ValueId losses, weights;
};

Shape for_all(const LossContext& c, const Shape& sample);  // with the samples before
ValueId labels_input(const LossContext& c);
ValueId cast_to(GraphBuilder& b, ValueId x, DType dtype);
ValueId constant(GraphBuilder& b, const std::vector<double>& values, DType dtype);
// 1 where the label counts
ValueId counted(const LossContext& c, ValueId labels, DType dtype);
// Classes last, all other axes merged: [M, C].
ValueId as_rows(GraphBuilder& b, ValueId x, int axis);
// The scores whose softmax these probabilities are.
ValueId log_of_probabilities(GraphBuilder& b, ValueId probabilities);

// Of scores [M,C]; labels [M], or dense ones [M,C].
LossRows class_rows(const LossContext& c, ValueId rows, ValueId labels);
// Of each element, in the value's shape, without the weights, which are those of samples.
LossRows element_losses(const LossContext& c, ValueId value);
// Of a value [N,...] as rows of its last axis, or of all of a sample.
LossRows axis_rows(const LossContext& c, ValueId value);
// Of [N,T,C].
LossRows sequence_rows(const LossContext& c, ValueId value);

}  // namespace tandem
