#include "planner/loss/loss_rows.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// [M,C] of indices [M]: 1 at the class; nowhere for one that is ignored
ValueId one_hot(GraphBuilder& b, ValueId labels, std::int64_t classes, DType dtype) {
  Tensor all(TensorType{DType::int64, Shape{1, classes}});
  std::int64_t i = 0;
  for (std::int64_t& v : all.write<std::int64_t>()) v = i++;
  const ValueId numbers = b.graph().add_constant(concat("loss/classes", b.graph().values.size()), all);
  return cast_to(b, b.emit("Equal", {b.reshape(labels, Shape{b.shape(labels)[0], 1}), numbers}), dtype);
}

// Of indices [M]: the weight of each one's class; 0 for one that is ignored. `mask`: 1 where the label counts
ValueId weights_of(const LossContext& c, ValueId labels, ValueId weights, ValueId mask) {
  GraphBuilder& b = c.b;
  const Attributes along{{"axis", std::int64_t{0}}};
  if (!mask.present()) return b.emit("Gather", {weights, labels}, along);
  const ValueId ignored = b.emit("Equal", {labels, b.scalar(static_cast<double>(*c.l.ignore), DType::int64)});
  const ValueId some = b.emit("Where", {ignored, b.scalar(0, DType::int64), labels});
  return b.mul(b.emit("Gather", {weights, some}, along), mask);
}

}  // namespace

ValueId constant(GraphBuilder& b, const std::vector<double>& values, DType dtype) {
  Tensor t(TensorType{DType::float64, Shape{static_cast<std::int64_t>(values.size())}});
  std::copy(values.begin(), values.end(), t.write<double>().begin());
  return b.graph().add_constant(concat("loss/constant", b.graph().values.size()), t.cast(dtype));
}

ValueId as_rows(GraphBuilder& b, ValueId x, int axis) {
  const int rank = b.shape(x).rank();
  const std::int64_t classes = b.shape(x)[axis];
  if (axis != rank - 1) {
    Ints perm;
    for (int i = 0; i < rank; ++i)
      if (i != axis) perm.push_back(i);
    perm.push_back(axis);
    // Nothing moves where all axes behind the classes have one element.
    bool moves = false;
    for (int i = axis + 1; i < rank; ++i) moves = moves || b.shape(x)[i] != 1;
    if (moves) x = b.transpose(x, perm);
  }
  return b.reshape(x, Shape{classes == 0 ? 0 : b.shape(x).elements() / classes, classes});
}

Shape for_all(const LossContext& c, const Shape& sample) {
  Shape all = sample;
  all.dims.insert(all.dims.begin(), c.samples);
  return all;
}

ValueId labels_input(const LossContext& c) {
  return c.b.input(c.l.input(), {c.l.sample->dtype, for_all(c, c.l.sample->shape)}, ValueRole::label, c.l.output);
}

ValueId cast_to(GraphBuilder& b, ValueId x, DType dtype) {
  return b.type(x).dtype == dtype ? x : b.emit("Cast", {x}, {{"to", static_cast<std::int64_t>(dtype)}});
}

ValueId counted(const LossContext& c, ValueId labels, DType dtype) {
  const ValueId ignored = c.b.emit("Equal", {labels, c.b.scalar(static_cast<double>(*c.l.ignore), DType::int64)});
  return c.b.add(c.b.neg(cast_to(c.b, ignored, dtype)), 1.0);
}

LossRows class_rows(const LossContext& c, ValueId rows, ValueId labels) {
  GraphBuilder& b = c.b;
  const DType dtype = b.type(rows).dtype;
  const bool dense = is_float(b.type(labels).dtype);
  const std::int64_t classes = b.shape(rows)[1];
  LossRows r;
  ValueId t = dense ? cast_to(b, labels, dtype) : one_hot(b, labels, classes, dtype);
  const ValueId weights = c.l.class_weights.empty() ? ValueId{} : constant(b, c.l.class_weights, dtype);
  const ValueId mask = c.l.ignore ? counted(c, labels, dtype) : ValueId{};
  // it names a class
  if (mask.present() && *c.l.ignore >= 0 && *c.l.ignore < classes) t = b.mul(t, b.reshape(mask, Shape{b.shape(rows)[0], 1}));
  if (weights.present() && !dense) r.weights = weights_of(c, labels, weights, mask);
  if (mask.present() && !weights.present()) r.weights = mask;
  if (c.l.smoothing > 0) {
    const double even = c.l.smoothing / static_cast<double>(classes);
    t = b.mul(t, 1 - c.l.smoothing);
    t = mask.present() ? b.add(t, b.reshape(b.mul(mask, even), Shape{b.shape(rows)[0], 1})) : b.add(t, even);
  }
  const bool inside = c.l.loss == "softmax-cross-entropy";  // is linear in its labels
  if (weights.present() && inside) t = b.mul(t, weights);
  r.losses = c.row.build(b, rows, t, c.l.values());
  if (inside) return r;
  if (r.weights.present())
    r.losses = b.mul(r.losses, r.weights);
  else if (weights.present())
    r.losses = b.mul(r.losses, b.reduce_sum(b.mul(t, weights), {1}, false));
  return r;
}

LossRows element_losses(const LossContext& c, ValueId value) {
  GraphBuilder& b = c.b;
  const ValueId x = b.reshape(value, for_all(c, c.l.scores));
  const ValueId given = labels_input(c);
  ValueId t = cast_to(b, given, b.type(x).dtype);
  if (!is_float(b.type(given).dtype)) t = b.reshape(t, b.shape(x));  // one output a sample: class indices 0 and 1
  LossRows r;
  if (!c.l.class_weights.empty()) {
    const std::vector<double>& w = c.l.class_weights;
    r.weights = b.reshape(b.add(b.mul(t, w[1] - w[0]), w[0]), Shape{c.samples});
  }
  if (c.l.smoothing > 0) t = b.add(b.mul(t, 1 - c.l.smoothing), c.l.smoothing / 2);
  r.losses = c.row.build(b, x, t, c.l.values());
  return r;
}

LossRows axis_rows(const LossContext& c, ValueId value) {
  GraphBuilder& b = c.b;
  const std::int64_t each = c.row.over == LossOver::last ? c.l.scores[c.l.scores.rank() - 1] : c.l.scores.elements();
  const Shape flat{each == 0 ? 0 : b.shape(value).elements() / each, each};
  const ValueId labels = c.l.sample ? b.reshape(cast_to(b, labels_input(c), b.type(value).dtype), flat) : ValueId{};
  return {.losses = c.row.build(b, b.reshape(value, flat), labels, c.l.values()), .weights = {}};
}

LossRows sequence_rows(const LossContext& c, ValueId value) {
  return {.losses = c.row.build(c.b, c.b.reshape(value, for_all(c, c.l.scores)), labels_input(c), c.l.values()), .weights = {}};
}

ValueId log_of_probabilities(GraphBuilder& b, ValueId probabilities) {
  constexpr double least = std::numeric_limits<float>::min();
  return b.emit("Log", {b.emit("Max", {probabilities, b.scalar(least, b.type(probabilities).dtype)})});
}

}  // namespace tandem
