// Puts a loss on top of the model: from the value that labels.cpp chose and an input for the labels to one number, the sum of
// the samples' losses over the global batch, and the count of correct predictions.
#include <algorithm>

#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Classes last, all other axes merged: [M, C].
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

// What a loss is attached to: the logits of all samples, each as labels.scores says.
struct Context {
  const Labels& labels;
  std::int64_t samples;
  double scale;
  bool accuracy;
};

Shape for_all(const Context& c, const Shape& sample) {
  Shape all = sample;
  all.dims.insert(all.dims.begin(), c.samples);
  return all;
}

ValueId labels_input(GraphBuilder& b, const Context& c) {
  return b.input("labels", {c.labels.sample->dtype, for_all(c, c.labels.sample->shape)}, ValueRole::label);
}

Loss softmax_cross_entropy(GraphBuilder& b, ValueId logits, const Context& c) {
  const int axis = c.labels.axis + 1;
  const ValueId rows = as_rows(b, b.reshape(logits, for_all(c, c.labels.scores)), axis);
  const ValueId given = labels_input(b, c);
  const bool dense = is_float(c.labels.sample->dtype);
  const ValueId labels = dense ? as_rows(b, given, axis) : b.reshape(given, Shape{b.shape(rows)[0]});
  const auto scale = static_cast<float>(c.scale / static_cast<double>(c.labels.positions()));
  Loss loss;
  loss.loss = b.emit("SoftmaxCrossEntropyTraining", {rows, labels}, {{"scale", scale}}, 2)[0];
  if (c.accuracy) loss.correct = b.emit("CountCorrect", {rows, labels});
  return loss;
}

// scale · Σ |all elements of a sample|, divided by their number per sample.
ValueId mean_over_sample(GraphBuilder& b, ValueId each, const Context& c) {
  const Shape shape = b.shape(each);
  const double per_sample = static_cast<double>(shape.elements()) / static_cast<double>(std::max<std::int64_t>(1, c.samples));
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  return b.mul(b.reduce_sum(each, axes, false), c.scale / per_sample);
}

// max(z,0) − z·t + log(1+exp(−|z|)) = softplus(z) − z·t
Loss binary_cross_entropy(GraphBuilder& b, ValueId logits, const Context& c) {
  const ValueId z = b.reshape(logits, for_all(c, c.labels.scores));
  ValueId t = labels_input(b, c);
  if (!is_float(b.type(t).dtype))  // one output a sample: class indices 0 and 1
    t = b.reshape(b.emit("Cast", {t}, {{"to", static_cast<std::int64_t>(b.type(z).dtype)}}), b.shape(z));
  Loss loss{.loss = mean_over_sample(b, b.sub(b.emit("Softplus", {z}), b.mul(z, t)), c)};
  if (c.accuracy && c.labels.scores.elements() == 1) {
    const ValueId two = b.reshape(z, Shape{c.samples, 1});
    const ValueId rows = b.emit("Concat", {b.mul(two, 0.0), two}, {{"axis", std::int64_t{1}}});
    const ValueId want = b.reshape(t, Shape{c.samples, 1});
    const ValueId want_rows = b.emit("Concat", {b.add(b.neg(want), 1.0), want}, {{"axis", std::int64_t{1}}});
    loss.correct = b.emit("CountCorrect", {rows, want_rows});
  }
  return loss;
}

ValueId difference(GraphBuilder& b, ValueId output, const Context& c) {
  return b.sub(b.reshape(output, for_all(c, c.labels.scores)), labels_input(b, c));
}

Loss mean_squared_error(GraphBuilder& b, ValueId output, const Context& c) {
  const ValueId d = difference(b, output, c);
  return {.loss = mean_over_sample(b, b.mul(d, d), c)};
}

Loss mean_absolute_error(GraphBuilder& b, ValueId output, const Context& c) {
  return {.loss = mean_over_sample(b, b.emit("Abs", {difference(b, output, c)}), c)};
}

// The value is the model's own loss: a mean over the samples it was given, so each device counts by its share.
Loss model_loss(GraphBuilder& b, ValueId output, const Context& c) {
  if (b.shape(output).elements() == 1) return {.loss = b.mul(b.reshape(output, Shape{}), c.scale * static_cast<double>(c.samples))};
  return {.loss = mean_over_sample(b, output, c)};
}

struct Row {
  std::string_view name;
  Loss (*build)(GraphBuilder&, ValueId logits, const Context&);
};
constexpr Row rows[] = {
    {"softmax-cross-entropy", softmax_cross_entropy}, {"binary-cross-entropy", binary_cross_entropy},
    {"mse", mean_squared_error},                      {"l1", mean_absolute_error},
    {"output", model_loss},
};

}  // namespace

Loss attach_loss(Graph& graph, const Labels& labels, std::int64_t samples, std::int64_t scale_batch, bool accuracy) {
  check_loss(labels.loss);
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, scale_batch));
  GraphBuilder builder(graph, "loss", {});
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == labels.loss; });
  return row->build(builder, graph.outputs[0], {labels, samples, scale, accuracy});
}

}  // namespace tandem
