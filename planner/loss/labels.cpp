// Finds the axis of the classes and the shape of one sample's labels, and says which of that was taken for want of a word in the
// model or the options.
#include "planner/loss/labels.h"

#include <algorithm>
#include <limits>

#include "base/option.h"
#include "graph/operator.h"
#include "planner/loss/external_loss.h"

namespace tandem {
namespace {

Shape without_ones(const Shape& s) {
  Shape out;
  for (const std::int64_t d : s)
    if (d != 1) out.dims.push_back(d);
  return out;
}

Shape without(const Shape& s, int axis) {
  Shape out = s;
  out.dims.erase(out.dims.begin() + axis);
  return out;
}

// A model's graph and the one for twice the samples.
struct Pair {
  Graph graph;
  std::optional<Graph> larger;
  std::int64_t samples;
};
Pair pair_of(const GraphSource& source, const CompileOptions& o) {
  const std::int64_t samples = std::max<std::int64_t>(1, o.batch);
  return {source(samples), doubled(source, samples), samples};
}

// One sample's part of a value; [N·T,C] is seen as [N,T,C].
struct Part {
  Shape shape;
  int first = 0;  // axis of `shape` that the value's axis 1 is
};

Part part_of(const Pair& models, ValueId value, ValueId in_larger) {
  const Value& v = models.graph[value];
  const Shape* larger = models.larger ? &(*models.larger)[in_larger].type.shape : nullptr;
  const std::int64_t count = rows_of(v, models.samples, larger);
  if (apart(v))
    fail("'", v.name, "' ", v.type, " holds its ", models.samples, " samples along axis ", v.batch.axis,
         v.batch.outer > 1 ? concat(", ", v.batch.outer, " times") : "",
         "; the loss wants the rows of each sample together, along axis 0: ", option("loss_on"), " names another value");
  if (count < 1) {
    const std::string other = larger ? concat(", ", *larger, " for ", 2 * models.samples) : "";
    fail("'", v.name, "' does not grow with the batch along axis 0: it is ", v.type, " for ", models.samples,
         models.samples == 1 ? " sample" : " samples", other, "; the loss wants rows of each sample: ", option("loss_on"),
         " names another value, ", option("loss"), " output takes a loss that the model computes");
  }
  Part part{.shape = Shape(Ints(v.type.shape.begin() + 1, v.type.shape.end()))};
  if (count > 1) {
    part.shape.dims.insert(part.shape.dims.begin(), count);
    part.first = 1;
  }
  return part;
}

// The axis of a part that an option names as an axis of the value.
int asked_axis(const CompileOptions& o, const Value& value, const Part& part) {
  const int rank = value.type.shape.rank(), axis = *o.loss.class_axis < 0 ? *o.loss.class_axis + rank : *o.loss.class_axis;
  if (axis < 1 || axis >= rank)
    fail(ExitCode::usage, option("class_axis"), " ", *o.loss.class_axis, ": '", value.name, "' is ", value.type,
         ", expected an axis of 1 to ", rank - 1);
  return axis - 1 + part.first;
}

// Where classes stand if nothing says it: on the first axis of more than one element, of several such on the value's axis 1.
int class_axis_of(const Part& part, int* wide_axes = nullptr) {
  int wide = 0, axis = part.first;
  for (int i = part.shape.rank() - 1; i >= part.first; --i)
    if (part.shape[i] > 1) {
      ++wide;
      axis = i;
    }
  if (wide_axes) *wide_axes = wide;
  return wide > 1 ? part.first : axis;
}

void take_classes(Labels& l, const Pair& models, const CompileOptions& o, ValueId value, const FinalScores& s, const Part& part) {
  const Value& v = models.graph[value];
  l.scores = part.shape;
  if (part.shape.rank() == part.first)
    fail(ExitCode::usage, "loss ", l.loss, " needs a value [N,classes,...], '", v.name, "' is ", v.type);
  l.axis = part.first;
  if (l.kind == OutputKind::plain) {
    int wide = 0;
    l.axis = class_axis_of(part, &wide);
    const int features = wide > 1 && !o.loss.class_axis ? feature_axis(models.graph, value) : -1;
    if (features > 0) l.axis = features - 1 + part.first;
    if (o.loss.class_axis)
      l.axis = asked_axis(o, v, part);
    else if (wide > 1)
      l.assumed =
          concat("the classes of '", v.name, "' ", v.type, " are taken to stand on axis ", l.axis + 1 - part.first,
                 features < 1 ? "" : ", where the layer that makes it has its features", "; ", option("class_axis"), " names another");
  } else {
    if (s.axis == 0) fail("'", v.name, "': its softmax is over the batch, there are no classes");
    l.axis = s.axis - 1 + part.first;
    if (o.loss.class_axis && v.type.shape == models.graph[s.logits].type.shape && asked_axis(o, v, part) != l.axis)
      fail(ExitCode::usage, option("class_axis"), " ", *o.loss.class_axis, ": the softmax of '", v.name, "' ", v.type, " is over axis ",
           s.axis);
  }
  l.classes = l.scores[l.axis];
  if (l.classes == 1 && loss_row(l.loss).scores == OutputKind::softmax)
    fail(ExitCode::usage, "'", v.name, "' ", v.type, " holds scores of one class alone, of which the loss ", l.loss,
         " is always the same; ", option("loss"), " mse is for numbers, binary-cross-entropy for yes and no");
  if (o.loss.dense_labels || loss_row(l.loss).labels == LabelKind::shares)
    l.sample = TensorType{v.type.dtype, l.scores};
  else
    l.sample = TensorType{DType::int64, l.positions() == 1 ? Shape{} : without(l.scores, l.axis)};
}

void take_sequence(Labels& l, const Value& value, const CompileOptions& o, const Part& part) {
  if (part.shape.rank() != 2)
    fail(ExitCode::usage, "loss ", l.loss, " needs a value [N,places,classes] or [places,N,classes], '", value.name, "' is ", value.type);
  l.scores = part.shape;
  l.classes = l.scores[1];
  l.ignore = static_cast<std::int64_t>(l.values()["padding"]);
  const double blank = l.values()["blank"];
  if (blank < -static_cast<double>(l.classes) || blank >= static_cast<double>(l.classes))
    fail(ExitCode::usage, "loss ", l.loss, ": blank is ", blank, ", '", value.name, "' has ", l.classes, " classes");
  if (!o.loss.label_length)
    l.assumed = concat("rows of labels are taken to be half as long as the ", l.scores[0], " places of '", l.value,
                       "': data says how long they are");
  l.sample = TensorType{DType::int64, Shape{std::max<std::int64_t>(1, o.loss.label_length.value_or(l.scores[0] / 2))}};
}

// A loss that a file computes: whoever gave the graph has put it there, with inputs for its labels and weights.
void take_file(Labels& l, const Pair& models, ValueId value, const LossTerm& term) {
  const Value& v = models.graph[value];
  l.by_sample = v.batch.leading(v.type.shape.rank() > 0 ? v.type.shape[0] : 0, models.samples);
  if (!l.by_sample && v.type.shape.elements() != 1)
    fail(ExitCode::usage, "loss ", term.file, ": gives ", v.type, " for ", models.samples, models.samples == 1 ? " sample" : " samples",
         ", expected one number, or rows of numbers for each sample");
  if (const auto labels = models.graph.find(ValueRole::label, l.output)) {
    const TensorType& type = models.graph[*labels].type;
    l.sample = TensorType{type.dtype, Shape(Ints(type.shape.begin() + 1, type.shape.end()))};
  }
  const bool takes_weights = models.graph.find(ValueRole::sample_weight).has_value();
  if (l.weighted && !l.by_sample && !takes_weights)
    fail(ExitCode::usage, option("sample_weights"), ": ", term.file,
         " gives one number for the batch, which cannot be weighted: have it give one for each sample, or take an input sample_weights");
  l.weighs_itself = takes_weights;
  l.weighted = l.weighted || takes_weights;
}

Labels labels_of(const Pair& models, const CompileOptions& o) {
  const LossTerm term = parse_loss(o.loss.name)[0];
  const LossRow& row = loss_row(term.loss);
  const Graph& graph = models.graph;
  const ValueId value = loss_value(graph, o);
  const FinalScores s = find_scores(graph, value, row);
  Labels l{.kind = s.kind, .loss = term.loss, .value = graph[model_value(graph, o)].name};
  l.share = term.weight;
  l.parameters = term.parameters;
  if (l.own() || l.loss == external_loss) return l;
  l.weighted = o.loss.sample_weights.value_or(false);
  if (l.of_file()) return l;  // take_file does the rest
  const bool sequence = row.over == LossOver::sequence, classes = row.over == LossOver::classes || sequence;
  const ValueId seen = classes ? s.logits : value;
  ValueId in_larger;
  if (models.larger) {
    const ValueId v = loss_value(*models.larger, o);
    in_larger = classes ? find_scores(*models.larger, v, row).logits : v;
  }
  const Part part = part_of(models, seen, in_larger);
  l.probabilities = classes && s.normalized;
  if (sequence) {
    take_sequence(l, graph[seen], o, part);
    return l;
  }
  if (classes) {
    take_classes(l, models, o, value, s, part);
    if (l.probabilities)
      l.assumed = concat("'", l.value, "' is taken for probabilities of ", l.classes,
                         " classes, since numbers that are not negative are divided by their sum: the loss is of their logarithm; ",
                         option("loss_on"), " names scores");
    return l;
  }
  l.scores = part.shape;
  const TensorType alike{graph[value].type.dtype, l.scores};
  if (row.over == LossOver::last && l.scores.rank() == 0)
    fail(ExitCode::usage, "loss ", l.loss, " needs a value [N,...,D], '", l.value, "' is ", graph[value].type);
  if (row.labels == LabelKind::none) {
    if (l.scores.rank() == 0 || l.scores[0] != 3)
      fail(ExitCode::usage, "loss ", l.loss, " needs a value [N,3,...], each sample's anchor, positive and negative, '", l.value, "' is ",
           graph[value].type, "; of three outputs that hold them: a+p+n=", l.loss);
    return l;
  }
  const bool indices = row.labels == LabelKind::binary && l.scores.elements() == 1;  // 0 and 1
  l.classes = indices ? 2 : 0;
  l.sample = indices && !o.loss.dense_labels ? TensorType{DType::int64, {}} : alike;
  return l;
}

bool is_index(const Labels& l) { return l.classes > 0 && l.sample && l.sample->dtype == DType::int64; }

constexpr std::int64_t ignored_ahead = -100;  // behind the last place, as PyTorch has it

// The options that only some losses take.
void take_options(Losses& losses, const CompileOptions& o) {
  std::string names;
  for (const Labels& l : losses) names += concat(names.empty() ? "" : ", ", l.loss);
  if (!(o.loss.smoothing >= 0 && o.loss.smoothing < 1))
    fail(ExitCode::usage, option("label_smoothing"), " ", o.loss.smoothing, ", expected 0 or more, below 1");
  for (const double w : o.loss.class_weights)
    if (!(w >= 0 && w < std::numeric_limits<float>::max()))
      fail(ExitCode::usage, option("class_weights"), ": ", w, ", expected numbers of 0 or more");
  bool smooth = o.loss.smoothing == 0, ignores = !o.loss.ignore_index && !o.loss.shift_labels, weighs = o.loss.class_weights.empty(),
       samples = !o.loss.sample_weights.value_or(false);
  for (Labels& l : losses) {
    samples = samples || !l.own();
    if (o.loss.smoothing > 0 && (l.loss == "softmax-cross-entropy" || l.loss == "binary-cross-entropy")) {
      l.smoothing = o.loss.smoothing;
      smooth = true;
    }
    if ((o.loss.ignore_index || o.loss.shift_labels) && l.axis >= 0 && is_index(l)) {
      if (o.loss.shift_labels && l.sample->shape.rank() != 1)
        fail(ExitCode::usage, option("shift_labels"), ": labels of '", l.value, "' are ", *l.sample,
             " per sample, expected one for each of a row of places");
      l.ignore = o.loss.ignore_index.value_or(ignored_ahead);
      ignores = true;
    }
    if (!o.loss.class_weights.empty() && l.classes > 0) {
      if (static_cast<std::int64_t>(o.loss.class_weights.size()) != l.classes)
        fail(ExitCode::usage, option("class_weights"), ": ", o.loss.class_weights.size(), " weights, '", l.value, "' has ", l.classes,
             " classes");
      l.class_weights = o.loss.class_weights;
      weighs = true;
    }
  }
  if (!smooth)
    fail(ExitCode::usage, option("label_smoothing"), ": loss ", names, " takes none; softmax-cross-entropy and binary-cross-entropy do");
  if (!ignores)
    fail(ExitCode::usage, o.loss.ignore_index ? option("ignore_index") : option("shift_labels"), ": loss ", names,
         " has no labels that are class indices");
  if (!weighs) fail(ExitCode::usage, option("class_weights"), ": loss ", names, " has no classes");
  if (!samples) fail(ExitCode::usage, option("sample_weights"), ": the model computes its loss itself, which cannot be weighted");
}

}  // namespace

namespace {

Losses losses_of(const Pair& models, const CompileOptions& o) {
  const std::vector<LossTerm> terms = parse_loss(o.loss.name);
  Losses losses;
  for (const CompileOptions& one : options_of_losses(o)) {
    const LossTerm& term = terms[losses.size()];
    losses.push_back(labels_of(models, one));
    Labels& l = losses.back();
    l.share = term.weight;
    l.parameters = term.parameters;
    if (terms.size() > 1) l.output = term.output;
    if (l.of_file()) take_file(l, models, loss_value(models.graph, one), term);
    const bool one_number = (l.own() || l.of_file()) && models.graph[loss_value(models.graph, one)].type.shape.elements() == 1;
    if (o.parallel.micro_batches > 1 && one_number && l.assumed.empty())
      l.assumed = concat("'", l.value, "' is one number of a batch: the parts of a step count by their samples (", option("micro_batches"),
                         "), whatever it divides by");
  }
  take_options(losses, o);
  return losses;
}

}  // namespace

Losses losses_of(const GraphSource& source, const CompileOptions& o) {
  parse_loss(o.loss.name);
  return losses_of(pair_of(source, o), o);
}

Labels labels_of(const GraphSource& source, const CompileOptions& o) {
  return losses_of(source, o)[0];
}

std::string loss_of_one_number(const GraphSource& source, const CompileOptions& o) {
  if (!o.loss.assumed) return "";
  const Pair models = pair_of(source, o);
  const auto seen = [&](const Graph& graph) { return find_scores(graph, loss_value(graph, o), loss_row("softmax-cross-entropy")); };
  const FinalScores scores = seen(models.graph);
  if (scores.kind != OutputKind::plain) return "";
  const auto part = part_of(models, scores.logits, models.larger ? seen(*models.larger).logits : ValueId{});
  const bool one = part.shape.rank() == part.first || part.shape[class_axis_of(part)] == 1;
  if (!one) return "";
  return find_scores(models.graph, scores.logits, loss_row("binary-cross-entropy")).kind == OutputKind::sigmoid ? "binary-cross-entropy"
                                                                                                                : "mse";
}

std::string fit_labels(const GraphSource& source, CompileOptions& o, const TensorType& sample) {
  const LossRow& row = loss_row(parse_loss(o.loss.name)[0].loss);
  if (row.labels == LabelKind::none) return "";
  if (row.labels == LabelKind::sequence) {
    o.loss.label_length = sample.shape.elements();
    return "";
  }
  const Pair models = pair_of(source, o);
  const CompileOptions first = options_of_losses(o)[0];
  const Labels l = labels_of(models, first);
  const std::int64_t have = sample.shape.elements();
  const Shape given = without_ones(sample.shape);
  std::vector<int> fitting;  // axes of the value
  int usual = -1;            // where the classes stand if nothing says otherwise
  if (l.axis >= 0 && l.kind == OutputKind::plain && !o.loss.class_axis) {
    const Value& value = models.graph[loss_value(models.graph, first)];
    const int last = value.type.shape.rank() - 1, first = l.scores.rank() - last;  // that the value's axis 1 is
    usual = l.axis + 1 - first;
    for (int axis = 1; axis <= last; ++axis)
      if (without_ones(without(l.scores, axis - 1 + first)) == given) fitting.push_back(axis);
  }
  const bool indices = !is_float(sample.dtype) && (!fitting.empty() || (l.axis >= 0 && without_ones(without(l.scores, l.axis)) == given));
  if (l.axis < 0)
    o.loss.dense_labels = o.loss.dense_labels || is_float(l.sample->dtype) || is_float(sample.dtype);
  else
    o.loss.dense_labels = o.loss.dense_labels || is_float(sample.dtype) || (!indices && have > 1 && have == l.scores.elements());
  if (o.loss.dense_labels || fitting.empty()) return "";
  const int taken = std::find(fitting.begin(), fitting.end(), usual) != fitting.end() ? usual : fitting[0];
  const std::string assumed = fitting.size() == 1 || l.assumed.empty()
                                  ? ""
                                  : concat("labels ", sample, " fit classes on axis ", fitting[0], " and on axis ", fitting[1], " of '",
                                           l.value, "': axis ", taken, " is taken; ", option("class_axis"), " names another");
  if (taken != usual || !l.assumed.empty()) o.loss.class_axis = taken;
  return assumed;
}

}  // namespace tandem
