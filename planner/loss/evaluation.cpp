#include "planner/loss/evaluation.h"

#include <algorithm>

#include "planner/loss/loss_rows.h"

namespace tandem {
namespace {

// The measures of one loss.
class Measuring {
 public:
  Measuring(Graph& graph, const Labels& l, ValueId value, std::int64_t samples)
      : b_(graph, "evaluation", {}), c_{b_, l, loss_row(l.loss), samples} {
    value_ = is_16_bit(b_.type(value).dtype) ? cast_to(b_, value, DType::float32) : value;
    if (l.probabilities) value_ = log_of_probabilities(b_, value_);
  }

  ValueId loss() {
    switch (c_.row.over) {
      case LossOver::classes: return by_sample(class_losses());
      case LossOver::elements: {
        const LossRows rows = element_losses(c_, value_);
        const ValueId losses = by_sample(rows.losses);
        return rows.weights.present() ? b_.mul(losses, rows.weights) : losses;
      }
      case LossOver::sequence: return by_sample(sequence_rows(c_, value_).losses);
      default: return by_sample(axis_rows(c_, value_).losses);
    }
  }

  ValueId likelihood() { return by_sample(cross_entropy({})); }

  ValueId top(std::int64_t count) {
    const ValueId x = by_class(value_);
    const std::int64_t places = c_.l.positions();
    const Attributes axis{{"axis", std::int64_t{1}}};
    Attributes largest = axis;
    largest.set("k", count);
    ValueId classes = count == 1 ? b_.emit("ArgMax", {x}, axis) : b_.emit("TopK", {x}, largest, 2)[1];
    if (b_.shape(classes).rank() == 3) classes = b_.transpose(classes, {0, 2, 1});
    return b_.reshape(classes, Shape{c_.samples, places, count});
  }

 private:
  // Classes on axis 1: [N,C,places] where they stand before places, else [N·places,C].
  ValueId by_class(ValueId value) {
    const ValueId x = b_.reshape(value, for_all(c_, c_.l.scores));
    if (c_.l.axis == 0)
      return b_.reshape(x, c_.l.positions() == 1 ? Shape{c_.samples, c_.l.scores[0]} : Shape{c_.samples, c_.l.scores[0], c_.l.positions()});
    return as_rows(b_, x, c_.l.axis + 1);
  }

  // -log softmax at the labels, times their weights; 0 where they do not count.
  ValueId cross_entropy(const std::vector<double>& weights) {
    std::vector<ValueId> operands{by_class(value_), labels_input(c_)};
    Shape places = b_.shape(operands[0]);
    places.dims.erase(places.dims.begin() + 1);
    if (is_float(c_.l.sample->dtype)) operands[1] = b_.emit("ArgMax", {by_class(operands[1])}, {{"axis", std::int64_t{1}}});
    operands[1] = b_.reshape(operands[1], places);
    if (!weights.empty()) operands.push_back(constant(b_, weights, b_.type(operands[0]).dtype));
    Attributes attributes{{"reduction", std::string("none")}};
    if (c_.l.ignore) attributes.set("ignore_index", *c_.l.ignore);
    return b_.emit("SoftmaxCrossEntropyLoss", std::move(operands), std::move(attributes));
  }

  // By places. One label at each place picks its number; others weigh the numbers of all classes.
  ValueId class_losses() {
    const bool indices = !is_float(c_.l.sample->dtype);
    if (indices && c_.l.loss == "softmax-cross-entropy" && c_.l.smoothing == 0) return cross_entropy(c_.l.class_weights);
    const int axis = c_.l.axis + 1;
    const ValueId rows = as_rows(b_, b_.reshape(value_, for_all(c_, c_.l.scores)), axis), labels = labels_input(c_);
    return class_rows(c_, rows, indices ? b_.reshape(labels, Shape{b_.shape(rows)[0]}) : as_rows(b_, labels, axis)).losses;
  }

  // The sum of each sample's.
  ValueId by_sample(ValueId each) {
    const std::int64_t all = b_.shape(each).elements();
    if (all == c_.samples) return b_.reshape(each, Shape{all});
    return b_.reduce_sum(b_.reshape(each, Shape{c_.samples, all / c_.samples}), {1}, false);
  }

  GraphBuilder b_;
  const LossContext c_;
  ValueId value_;
};

}  // namespace

std::string measure_of(std::string_view what, const Labels& loss) {
  return loss.output.empty() ? std::string(what) : concat(what, '/', loss.output);
}

Graph evaluating(Graph graph, const Losses& losses, const EvaluationOutputs& outputs, const CompileOptions& options, std::int64_t samples) {
  CompileOptions alone = options;
  alone.loss.distillation.reset();  // is of training
  const std::vector<ValueId> values = logits_of(graph, alone);
  if (!outputs.model)
    std::erase_if(graph.outputs, [&](const GraphOutput& out) {
      for (std::size_t i = 0; i < losses.size(); ++i)
        if (outputs.losses[i].value && graph[out].name == losses[i].value) return false;
      return true;
    });
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const LossOutputs& wanted = outputs.losses[i];
    if (losses[i].own() || losses[i].of_file()) continue;
    Measuring measuring(graph, losses[i], values[i], samples);
    const auto give = [&](std::string_view what, ValueId value) {
      graph[value].name = graph.free_name(concat("measure/", measure_of(what, losses[i])));
      graph.outputs.emplace_back(value, ValueRole::measure, measure_of(what, losses[i]));
    };
    if (wanted.top > 0) give(top_measure, measuring.top(wanted.top));  // first: the softmax of the losses may be written over the scores
    if (wanted.loss) give(loss_measure, measuring.loss());
    if (wanted.likelihood) give(likelihood_measure, measuring.likelihood());
  }
  const auto holds_samples = [&](ValueId v) {
    graph[v].depends_on_batch = true;
    graph[v].batch = {.axis = 0};
  };
  for (const GraphOutput& out : graph.outputs)
    if (out.role == ValueRole::measure) holds_samples(out);
  for (const ValueId in : graph.inputs)
    if (graph[in].role == ValueRole::label) holds_samples(in);
  return graph;
}

}  // namespace tandem
