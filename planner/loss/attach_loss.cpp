// Puts the losses on top of the model: from the values that labels.cpp chose and inputs for the labels to one number, the mean
// over the global batch, and the count of correct predictions. What a mean is divided by is summed over all devices where it
// depends on labels or weights: one device and several compute the same. Each micro-batch's mean is times its
// share of the step's mean (the input tandem.shares), so that losses and gradients of micro-batches need only be added, too.
#include "planner/loss/attach_loss.h"

#include <algorithm>

#include "planner/loss/external_loss.h"
#include "planner/loss/loss_rows.h"
#include "planner/rewrite/pass.h"

namespace tandem {
namespace {

struct Context : LossContext {
  double scale;  // 1 / global batch
};
Context context_of(const Context& c, const Labels& l) { return {{c.b, l, c.row, c.samples}, c.scale}; }

// The mean of all elements, of samples that count alike.
ValueId element_mean(const Context& c, ValueId each) {
  Ints axes;
  for (int i = 0; i < c.b.shape(each).rank(); ++i) axes.push_back(i);
  return c.b.mul(c.b.reduce_sum(each, axes, false), c.scale / static_cast<double>(std::max<std::int64_t>(1, c.l.scores.elements())));
}

// The mean over each sample's elements; where samples count alike, the elements themselves.
LossRows element_rows(const Context& c, ValueId value) {
  GraphBuilder& b = c.b;
  LossRows r = element_losses(c, value);
  if (!c.l.weighted && !r.weights.present()) return r;
  const std::int64_t each = c.l.scores.elements();
  const Shape flat{c.samples, each};
  r.losses = b.reshape(r.losses, flat);
  r.losses = each == 1 ? b.reshape(r.losses, Shape{c.samples})
                       : b.mul(b.reduce_sum(r.losses, {1}, false), 1.0 / static_cast<double>(std::max<std::int64_t>(1, each)));
  if (r.weights.present()) r.losses = b.mul(r.losses, r.weights);
  return r;
}

// sum(losses) / sum(weights), by samples' weights too; with none of them the sum times scale, by rows of a sample.
ValueId mean_of(const Context& c, LossRows r) {
  GraphBuilder& b = c.b;
  const std::int64_t all = b.shape(r.losses)[0], each = c.samples == 0 ? 1 : all / c.samples;
  const auto total = [&](ValueId x) { return b.reduce_sum(x, {0}, false); };
  if (!c.l.weighted && !r.weights.present()) return b.mul(total(r.losses), c.scale / static_cast<double>(std::max<std::int64_t>(1, each)));
  ValueId divisor;
  const DType dtype = b.type(r.losses).dtype;
  if (c.l.weighted) {
    const ValueId weights = b.reshape(
        cast_to(b, b.input("sample_weights", {DType::float32, Shape{c.samples}}, ValueRole::sample_weight), dtype), Shape{c.samples, 1});
    const auto times = [&](ValueId x) { return b.reshape(b.mul(b.reshape(x, Shape{c.samples, each}), weights), Shape{all}); };
    r.losses = times(r.losses);
    divisor = r.weights.present() ? total(times(r.weights)) : b.mul(total(b.reshape(weights, Shape{c.samples})), static_cast<double>(each));
  } else {
    divisor = total(r.weights);
  }
  return b.div(total(r.losses), b.emit("Max", {divisor, b.scalar(least_loss_weight, dtype)}));
}

struct Loss {
  ValueId loss, correct, counted;
};

Loss classes_loss(const Context& c, ValueId logits, bool accuracy) {
  GraphBuilder& b = c.b;
  const int axis = c.l.axis + 1;
  const ValueId rows = as_rows(b, b.reshape(logits, for_all(c, c.l.scores)), axis);
  const ValueId given = labels_input(c);
  const bool dense = is_float(c.l.sample->dtype);
  const ValueId labels = dense ? as_rows(b, given, axis) : b.reshape(given, Shape{b.shape(rows)[0]});
  Loss loss;
  const bool plain = c.l.loss == "softmax-cross-entropy" && !c.l.weighted && c.l.smoothing == 0 && c.l.class_weights.empty();
  const auto sum = [&](double scale, Attributes attributes) {  // gives loss and gradient in one pass
    attributes.set("scale", static_cast<float>(scale));
    return b.emit("SoftmaxCrossEntropyTraining", {rows, labels}, std::move(attributes), 2)[0];
  };
  if (plain && !c.l.ignore)
    loss.loss = sum(c.scale / static_cast<double>(c.l.positions()), {});
  else if (plain)
    loss.loss = b.div(sum(1, {{"ignore_index", *c.l.ignore}}),
                      b.emit("Max", {b.reduce_sum(counted(c, labels, b.type(rows).dtype), {0}, false), b.scalar(1, b.type(rows).dtype)}));
  else
    loss.loss = mean_of(c, class_rows(c, rows, labels));
  if (!accuracy) return loss;
  loss.correct = b.emit("CountCorrect", {rows, labels});
  if (c.l.ignore) loss.counted = b.reduce_sum(counted(c, labels, DType::float32), {0}, false);
  return loss;
}

// Right where a value above 0 meets a label above a half.
ValueId count_binary(const Context& c, ValueId value) {
  GraphBuilder& b = c.b;
  const ValueId x = b.reshape(value, Shape{c.samples, 1}), t = b.reshape(cast_to(b, labels_input(c), b.type(x).dtype), Shape{c.samples, 1});
  const ValueId rows = b.emit("Concat", {b.mul(x, 0.0), x}, {{"axis", std::int64_t{1}}});
  return b.emit("CountCorrect", {rows, b.emit("Concat", {b.add(b.neg(t), 1.0), t}, {{"axis", std::int64_t{1}}})});
}

// The value is the model's own loss: a mean over the samples it was given, so each device counts by its share.
ValueId model_loss(const Context& c, ValueId value) {
  GraphBuilder& b = c.b;
  const double samples = static_cast<double>(c.samples);
  if (b.shape(value).elements() == 1) return b.mul(b.reshape(value, Shape{}), c.scale * samples);
  Ints axes;
  for (int i = 0; i < b.shape(value).rank(); ++i) axes.push_back(i);
  return b.mul(b.reduce_sum(value, axes, false), c.scale * std::max(1.0, samples) / static_cast<double>(b.shape(value).elements()));
}

// A file's: one number is the loss; of rows of samples the mean, by the samples' weights unless the file knows them.
ValueId file_loss_of(const Context& c, ValueId value) {
  GraphBuilder& b = c.b;
  if (!c.l.by_sample) return b.reshape(value, Shape{});
  Labels plain = c.l;
  plain.weighted = c.l.weighted && !c.l.weighs_itself;
  return mean_of(context_of(c, plain), {.losses = b.reshape(value, Shape{b.shape(value).elements()}), .weights = {}});
}

Loss loss_of(const Context& c, ValueId value, bool accuracy) {
  if (c.l.probabilities) value = log_of_probabilities(c.b, value);
  if (c.l.of_file()) return {.loss = file_loss_of(c, value), .correct = {}, .counted = {}};
  switch (c.row.over) {
    case LossOver::batch: return {.loss = model_loss(c, value), .correct = {}, .counted = {}};
    case LossOver::classes: return classes_loss(c, value, accuracy);
    case LossOver::elements: {
      const LossRows rows = element_rows(c, value);
      Loss loss{
          .loss = c.l.weighted || rows.weights.present() ? mean_of(c, rows) : element_mean(c, rows.losses), .correct = {}, .counted = {}};
      if (accuracy && c.row.labels == LabelKind::binary && c.l.scores.elements() == 1) loss.correct = count_binary(c, value);
      return loss;
    }
    case LossOver::sequence: return {.loss = mean_of(c, sequence_rows(c, value)), .correct = {}, .counted = {}};
    default: return {.loss = mean_of(c, axis_rows(c, value)), .correct = {}, .counted = {}};
  }
}

// T² · Σ p (log p - log q), the mean over rows
ValueId distilled(GraphBuilder& b, ValueId student, ValueId teacher, int axis, const Distillation& d) {
  const auto log_softmax = [&](ValueId x) {
    return b.emit("LogSoftmax", {b.mul(as_rows(b, x, axis), 1 / d.temperature)}, {{"axis", std::int64_t{-1}}});
  };
  const ValueId q = log_softmax(student), p = log_softmax(cast_to(b, teacher, b.type(student).dtype));
  const ValueId each = b.reduce_sum(b.mul(b.emit("Exp", {p}), b.sub(p, q)), {1}, false);
  return b.mul(b.reduce_sum(each, {0}, false),
               d.temperature * d.temperature / static_cast<double>(std::max<std::int64_t>(1, b.shape(each)[0])));
}

}  // namespace

void attach_loss(Graph& graph, std::span<const Labels> losses, std::int64_t samples, const CompileOptions& o, bool accuracy) {
  const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, o.batch));
  const std::optional<Distillation>& distillation = o.loss.distillation;
  GraphBuilder b(graph, "loss", {});
  const auto means = static_cast<std::int64_t>(losses.size()) + (distillation ? 1 : 0);
  const auto in_step = [&](ValueId mean, std::size_t i) {
    if (o.parallel.micro_batches == 1) return mean;
    // Behind the means' stands how far averages of running statistics move with a micro-batch.
    const std::int64_t count = means + (o.optimizer.average ? 1 : 0);
    const ValueId shares = b.input("tandem.shares", {DType::float32, Shape{count}}, ValueRole::step_state, step_shares);
    const auto at = static_cast<std::int64_t>(i);
    const ValueId share =
        count == 1 ? shares
                   : b.emit("Slice", {shares}, {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{0}}, {"steps", Ints{1}}});
    return b.mul(mean, cast_to(b, b.reshape(share, Shape{}), b.type(mean).dtype));
  };
  const std::vector<GraphOutput> values = graph.outputs;
  graph.outputs.erase(graph.outputs.begin() + 1, graph.outputs.end());
  ValueId total;
  bool counts = false;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Labels& l = losses[i];
    Loss loss = loss_of({{b, l, loss_row(l.loss), samples}, scale}, values[i], accuracy && !counts);
    loss.loss = in_step(loss.loss, i);
    const ValueId part = l.share == 1 ? loss.loss : b.mul(loss.loss, l.share);
    total = total.present() ? b.add(total, part) : part;
    if (losses.size() > 1) graph.outputs.emplace_back(loss.loss, ValueRole::metric, concat("loss/", l.output));
    if (!loss.correct.present()) continue;
    counts = true;
    graph.outputs.emplace_back(loss.correct, ValueRole::metric, "correct");
    if (loss.counted.present()) graph.outputs.emplace_back(loss.counted, ValueRole::metric, "counted");
  }
  if (distillation) {
    const ValueId student = values[losses.size()], teacher = values[losses.size() + 1];
    Shape shape = b.shape(student);
    int axis = shape.rank() - 1;
    if (losses[0].axis >= 0) {
      shape = losses[0].scores;
      shape.dims.insert(shape.dims.begin(), samples);
      axis = losses[0].axis + 1;
    }
    const ValueId learnt = in_step(distilled(b, b.reshape(student, shape), b.reshape(teacher, shape), axis, *distillation), losses.size());
    graph.outputs.emplace_back(learnt, ValueRole::metric, "loss/distillation");
    total = b.add(b.mul(total, 1 - distillation->weight), b.mul(learnt, distillation->weight));
  }
  graph.outputs[0] = {total, ValueRole::loss};
}

namespace pass_rows {
namespace {

Graph with_loss(Graph graph, const PassContext& c) {
  tandem::attach_loss(graph, *c.losses, c.samples, c.options, c.options.loss.accuracy);
  return graph;
}

}  // namespace

Pass attach_loss() {
  return {.name = "attach_loss",
          .run = [](Graph g, PassContext& c) { return with_loss(std::move(g), c); },
          .needs = {Property::primitive},
          .gives = {Property::loss},
          .when = [](const PassContext& c) { return !has_external_loss(c.options); },
          .why = "there is something to train"};
}

}  // namespace pass_rows

}  // namespace tandem
