#include <algorithm>

#include "graph/suggest.h"
#include "planner/rewrite.h"

namespace tandem {
namespace {

const Node* producer(const Graph& graph, ValueId v) {
  return graph[v].producer.present() ? &graph[graph[v].producer] : nullptr;
}

// Behind reshapes that only add or drop axes of size one, the node that makes a value.
const Node* producer_behind_reshapes(const Graph& graph, ValueId v) {
  const Node* node = producer(graph, v);
  while (node && node->op->name == "Reshape") node = producer(graph, node->inputs[0]);
  return node;
}

struct Scores {
  ValueId logits;
  int axis;  // of the classes
};

// A final Softmax or LogSoftmax is left out: the loss is computed on what goes into it, which is exact where
// log(softmax(x)) would round. Otherwise the output itself holds the logits.
Scores find_scores(const Graph& graph, ValueId output) {
  const Node* node = producer_behind_reshapes(graph, output);
  if (node && (node->op->name == "Softmax" || node->op->name == "LogSoftmax")) {
    const ValueId x = node->inputs[0];
    const int rank = graph[x].type.shape.rank();
    return {x, normalize_axis(node->attributes.integer("axis", -1), rank, node->op->name)};
  }
  const int rank = graph[output].type.shape.rank();
  if (rank < 2) fail(ExitCode::usage, "loss softmax-cross-entropy needs an output [N,classes,...], '", graph[output].name, "' is ", graph[output].type);
  return {output, 1};
}

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

Loss softmax_cross_entropy(GraphBuilder& b, ValueId output, const CompileOptions& o, double scale) {
  const Scores s = find_scores(b.graph(), output);
  const Shape logits = b.shape(s.logits);
  const ValueId rows = as_rows(b, s.logits, s.axis);
  ValueId labels;
  if (o.dense_labels) {
    labels = as_rows(b, b.input("labels", {b.type(s.logits).dtype, logits}), s.axis);
  } else {
    // One label a row; a model with one row a sample takes labels [N].
    Shape shape = logits;
    shape.dims.erase(shape.dims.begin() + s.axis);
    if (b.shape(rows)[0] == logits[0]) shape = Shape{logits[0]};
    labels = b.reshape(b.input("labels", {DType::int64, shape}), Shape{b.shape(rows)[0]});
  }
  const double positions = static_cast<double>(b.shape(rows)[0]) / static_cast<double>(std::max<std::int64_t>(1, logits[0]));
  Loss loss;
  loss.loss = b.emit("SoftmaxCrossEntropyTraining", {rows, labels}, {{"scale", static_cast<float>(scale / positions)}}, 2)[0];
  if (o.accuracy) loss.correct = b.emit("CountCorrect", {rows, labels});
  return loss;
}

ValueId labels_like(GraphBuilder& b, ValueId output) { return b.input("labels", b.type(output)); }

// scale · Σ |all elements of a sample|, divided by their number per sample.
ValueId mean_over_sample(GraphBuilder& b, ValueId each, double scale) {
  const Shape shape = b.shape(each);
  const double per_sample = static_cast<double>(shape.elements()) / static_cast<double>(std::max<std::int64_t>(1, shape.rank() ? shape[0] : 1));
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  return b.mul(b.reduce_sum(each, axes, false), scale / per_sample);
}

// max(z,0) − z·t + log(1+exp(−|z|)) = softplus(z) − z·t; a final Sigmoid is left out.
Loss binary_cross_entropy(GraphBuilder& b, ValueId output, const CompileOptions& o, double scale) {
  const Node* node = producer(b.graph(), output);
  const ValueId z = node && node->op->name == "Sigmoid" ? node->inputs[0] : output;
  ValueId t;
  if (!o.dense_labels && b.shape(z).elements() == b.shape(z)[0])  // one output a sample: class indices 0 and 1
    t = b.reshape(b.emit("Cast", {b.input("labels", {DType::int64, Shape{b.shape(z)[0]}})}, {{"to", static_cast<std::int64_t>(b.type(z).dtype)}}), b.shape(z));
  else
    t = labels_like(b, z);
  Loss loss{.loss = mean_over_sample(b, b.sub(b.emit("Softplus", {z}), b.mul(z, t)), scale)};
  if (o.accuracy && b.shape(z).elements() == b.shape(z)[0]) {
    const ValueId two = b.reshape(z, Shape{b.shape(z)[0], 1});
    const ValueId rows = b.emit("Concat", {b.mul(two, 0.0), two}, {{"axis", std::int64_t{1}}});
    const ValueId want = b.reshape(t, Shape{b.shape(z)[0], 1});
    const ValueId want_rows = b.emit("Concat", {b.add(b.neg(want), 1.0), want}, {{"axis", std::int64_t{1}}});
    loss.correct = b.emit("CountCorrect", {rows, want_rows});
  }
  return loss;
}

Loss mean_squared_error(GraphBuilder& b, ValueId output, const CompileOptions&, double scale) {
  const ValueId d = b.sub(output, labels_like(b, output));
  return {.loss = mean_over_sample(b, b.mul(d, d), scale)};
}

Loss mean_absolute_error(GraphBuilder& b, ValueId output, const CompileOptions&, double scale) {
  return {.loss = mean_over_sample(b, b.emit("Abs", {b.sub(output, labels_like(b, output))}), scale)};
}

// The model's first output is its loss: a mean over the samples it was given, so each device counts by its share.
Loss model_loss(GraphBuilder& b, ValueId output, const CompileOptions& o, double scale) {
  if (b.shape(output).elements() == 1) {
    double samples = static_cast<double>(o.batch);
    for (const ValueId in : b.graph().inputs)
      if (b.shape(in).rank() > 0 && !b.graph()[in].name.starts_with("tandem.")) {
        samples = static_cast<double>(b.shape(in)[0]);
        break;
      }
    return {.loss = b.mul(b.reshape(output, Shape{}), scale * samples)};
  }
  return {.loss = mean_over_sample(b, output, scale)};
}

struct Row {
  std::string_view name;
  Loss (*build)(GraphBuilder&, ValueId, const CompileOptions&, double scale);
};
constexpr Row rows[] = {
    {"softmax-cross-entropy", softmax_cross_entropy}, {"binary-cross-entropy", binary_cross_entropy},
    {"mse", mean_squared_error},                      {"l1", mean_absolute_error},
    {"output", model_loss},
};

}  // namespace

Loss attach_loss(Graph& graph, const CompileOptions& options, std::int64_t scale_batch) {
  if (graph.outputs.empty()) fail("model '", graph.name, "' has no output to compute a loss on");
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, scale_batch));
  GraphBuilder builder(graph, "loss", {});
  for (const Row& row : rows)
    if (row.name == options.loss) return row.build(builder, graph.outputs[0], options, scale);
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  fail(ExitCode::usage, "loss '", options.loss, "' is unknown", suggestion(options.loss, names));
}

}  // namespace tandem
