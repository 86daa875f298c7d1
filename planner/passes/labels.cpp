// Finds the value that the loss stands on, the axis of its classes, and the shape of one sample's labels, and says which of
// that was taken for want of a word in the model or the options.
#include "planner/passes/labels.h"

#include <algorithm>

#include "graph/operator.h"
#include "graph/suggest.h"

namespace tandem {
namespace {

constexpr std::string_view losses[] = {"softmax-cross-entropy", "binary-cross-entropy", "mse", "l1", "output"};
// Whose loss takes the scores that such an output was made of.
std::string_view loss_on_scores(OutputKind kind) {
  if (kind == OutputKind::plain) return "";
  return kind == OutputKind::sigmoid ? "binary-cross-entropy" : "softmax-cross-entropy";
}

// What stands at the end of a model.
struct Scores {
  OutputKind kind = OutputKind::plain;
  ValueId logits;
  int axis = -1;  // of the logits: a softmax's
};

// Behind the operator that makes numbers of scores others may stand that hand these on unchanged.
Scores find_scores(const Graph& graph, ValueId output, std::string_view loss) {
  for (ValueId v = output; graph[v].producer.present();) {
    const Node& node = graph[graph[v].producer];
    const OutputKind kind = node.op->gives;
    if (kind != OutputKind::plain && loss_on_scores(kind) == loss) {
      const ValueId x = node.inputs[0];
      const bool has_axis = kind != OutputKind::sigmoid;
      return {kind, x, has_axis ? normalize_axis(node.attributes.integer("axis", -1), graph[x].type.shape.rank(), node.op->name) : -1};
    }
    if (node.inputs.empty() || operand_of(*node.op, 0).role != OperandRole::unchanged) break;
    v = node.inputs[0];
  }
  return {OutputKind::plain, output, -1};
}

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

std::int64_t largest_slice(const CompileOptions& o) {
  if (o.devices.empty()) return std::max<std::int64_t>(1, o.batch);
  std::vector<double> weights;
  for (const DeviceSpec& d : o.devices) weights.push_back(d.weight);
  const std::vector<std::int64_t> sizes = slice_sizes(o.batch, weights);
  return std::max<std::int64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
}

// The model for twice the samples; none where it cannot be built for them.
std::optional<Graph> doubled(const GraphSource& source, std::int64_t samples) {
  try {
    return source(2 * samples);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whether the importer followed the samples to a place that is not rows of axis 0, those of a sample together: [T·N,C].
bool apart(const Value& v) {
  return v.batch.present() && (v.batch.axis != 0 || v.batch.outer != 1);
}

std::int64_t rows_of(const Value& v, std::int64_t samples, const Shape* larger) {
  const Shape& shape = v.type.shape;
  if (!v.depends_on_batch || apart(v)) return 0;
  if (v.batch.present()) return shape[0] / samples;
  if (larger) return rows_per_sample(shape, samples, *larger, 2 * samples);
  return shape.rank() > 0 && shape[0] % samples == 0 ? shape[0] / samples : 0;
}

// A model's graph and the one for twice the samples.
struct Pair {
  Graph graph;
  std::optional<Graph> larger;
  std::int64_t samples;
};
Pair pair_of(const GraphSource& source, const CompileOptions& o) {
  const std::int64_t samples = largest_slice(o);
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
    fail("'", v.name, "' ", v.type, " holds its ", models.samples, " samples along axis ", v.batch.axis, v.batch.outer > 1 ? concat(", ", v.batch.outer, " times") : "",
         "; the loss wants the rows of each sample together, along axis 0: option loss_on names another value");
  if (count < 1) {
    const std::string other = larger ? concat(", ", *larger, " for ", 2 * models.samples) : "";
    fail("'", v.name, "' does not grow with the batch along axis 0: it is ", v.type, " for ", models.samples, models.samples == 1 ? " sample" : " samples", other,
         "; the loss wants rows of each sample: option loss_on names another value, option loss output takes a loss that the model computes");
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
  const int rank = value.type.shape.rank(), axis = *o.class_axis < 0 ? *o.class_axis + rank : *o.class_axis;
  if (axis < 1 || axis >= rank)
    fail(ExitCode::usage, "option class_axis ", *o.class_axis, ": '", value.name, "' is ", value.type, ", expected an axis of 1 to ", rank - 1);
  return axis - 1 + part.first;
}

void take_classes(Labels& l, const Pair& models, const CompileOptions& o, ValueId value, const Scores& s, const Part& part) {
  const Value& v = models.graph[value];
  l.scores = part.shape;
  if (part.shape.rank() == part.first)
    fail(ExitCode::usage, "loss softmax-cross-entropy needs a value [N,classes,...], '", v.name, "' is ", v.type);
  l.axis = part.first;
  if (l.kind == OutputKind::plain) {
    int wide = 0;
    for (int i = part.shape.rank() - 1; i >= part.first; --i)
      if (part.shape[i] > 1) {  // the first axis of more than one element
        ++wide;
        l.axis = i;
      }
    if (wide > 1) l.axis = part.first;
    if (o.class_axis)
      l.axis = asked_axis(o, v, part);
    else if (wide > 1)
      l.assumed = concat("the classes of '", v.name, "' ", v.type, " are taken to stand on axis 1; option class_axis names another");
  } else {
    if (s.axis == 0) fail("'", v.name, "': its softmax is over the batch, there are no classes");
    l.axis = s.axis - 1 + part.first;
    if (o.class_axis && v.type.shape == models.graph[s.logits].type.shape && asked_axis(o, v, part) != l.axis)
      fail(ExitCode::usage, "option class_axis ", *o.class_axis, ": the softmax of '", v.name, "' ", v.type, " is over axis ", s.axis);
  }
  l.classes = l.scores[l.axis];
  if (l.classes == 1 && l.kind == OutputKind::plain)
    l.assumed = concat("'", v.name, "' ", v.type, " holds scores of one class alone, of which softmax-cross-entropy is always 0; option loss mse is for numbers, binary-cross-entropy for yes and no");
  if (o.dense_labels)
    l.sample = TensorType{v.type.dtype, l.scores};
  else
    l.sample = TensorType{DType::int64, l.positions() == 1 ? Shape{} : without(l.scores, l.axis)};
}

Labels labels_of(const Pair& models, const CompileOptions& o) {
  check_loss(o.loss);
  const Graph& graph = models.graph;
  const ValueId value = loss_value(graph, o);
  const Scores s = find_scores(graph, value, o.loss);
  Labels l{.kind = s.kind, .loss = o.loss, .value = graph[value].name};
  if (o.loss == "output") return l;
  const bool classes = o.loss == "softmax-cross-entropy";
  const ValueId seen = classes ? s.logits : value;
  ValueId in_larger;
  if (models.larger) {
    const ValueId v = loss_value(*models.larger, o);
    in_larger = classes ? find_scores(*models.larger, v, o.loss).logits : v;
  }
  const Part part = part_of(models, seen, in_larger);
  if (classes) {
    take_classes(l, models, o, value, s, part);
    return l;
  }
  l.scores = part.shape;
  const bool indices = o.loss == "binary-cross-entropy" && l.scores.elements() == 1;  // 0 and 1
  l.classes = indices ? 2 : 0;
  l.sample = indices && !o.dense_labels ? TensorType{DType::int64, {}} : TensorType{graph[value].type.dtype, l.scores};
  return l;
}

}  // namespace

Labels labels_of(const GraphSource& source, const CompileOptions& o) {
  check_loss(o.loss);
  return labels_of(pair_of(source, o), o);
}

std::string fit_labels(const GraphSource& source, CompileOptions& o, const TensorType& sample) {
  if (o.loss == "output") return "";
  const Pair models = pair_of(source, o);
  const Labels l = labels_of(models, o);
  const std::int64_t have = sample.shape.elements();
  const Shape given = without_ones(sample.shape);
  std::vector<int> fitting;  // axes of the value
  int usual = -1;            // where the classes stand if nothing says otherwise
  if (l.axis >= 0 && l.kind == OutputKind::plain && !o.class_axis) {
    const Value& value = models.graph[loss_value(models.graph, o)];
    const int last = value.type.shape.rank() - 1, first = l.scores.rank() - last;  // that the value's axis 1 is
    usual = l.axis + 1 - first;
    for (int axis = 1; axis <= last; ++axis)
      if (without_ones(without(l.scores, axis - 1 + first)) == given) fitting.push_back(axis);
  }
  const bool indices = !is_float(sample.dtype) && (!fitting.empty() || (l.axis >= 0 && without_ones(without(l.scores, l.axis)) == given));
  if (l.axis < 0)
    o.dense_labels = o.dense_labels || is_float(l.sample->dtype) || is_float(sample.dtype);
  else
    o.dense_labels = o.dense_labels || is_float(sample.dtype) || (!indices && have > 1 && have == l.scores.elements());
  if (o.dense_labels || fitting.empty()) return "";
  const std::string assumed = fitting.size() == 1 || l.assumed.empty()
                                  ? ""
                                  : concat("labels ", sample, " fit classes on axis ", fitting[0], " and on axis ", fitting[1], " of '", l.value,
                                           "': axis ", fitting[0], " is taken; option class_axis names another");
  if (fitting[0] != usual || !l.assumed.empty()) o.class_axis = fitting[0];
  return assumed;
}

ValueId loss_value(const Graph& model, const CompileOptions& o) {
  if (model.outputs.empty()) fail("model '", model.name, "' has no output to compute a loss on");
  if (o.loss_on.empty()) {  // labels that a classifier gives as integers are no scores
    const auto floats = std::find_if(model.outputs.begin(), model.outputs.end(), [&](const GraphOutput& out) { return is_float(model[out.value].type.dtype); });
    return floats == model.outputs.end() ? model.outputs[0].value : floats->value;
  }
  for (const ValueId out : model.outputs)
    if (model[out].name == o.loss_on) return out;
  const auto found = model.find(o.loss_on);
  if (!found) fail(ExitCode::usage, "option loss_on ", o.loss_on, ": model '", model.name, "' has no value of that name");
  if (!is_float(model[*found].type.dtype)) fail(ExitCode::usage, "option loss_on ", o.loss_on, ": it is ", model[*found].type, ", expected floating point");
  return *found;
}

ValueId logits_of(const Graph& model, const CompileOptions& o) {
  return find_scores(model, loss_value(model, o), o.loss).logits;
}

std::int64_t rows_per_sample(const Shape& shape, std::int64_t samples, const Shape& other, std::int64_t other_samples) {
  if (shape.rank() == 0 || shape.rank() != other.rank()) return 0;
  for (int i = 1; i < shape.rank(); ++i)
    if (shape[i] != other[i]) return 0;
  const bool grows = shape[0] % samples == 0 && shape[0] / samples * other_samples == other[0] && shape[0] != other[0];
  return grows ? shape[0] / samples : 0;
}

std::vector<std::int64_t> output_rows(const GraphSource& source, const Graph& model, std::int64_t samples) {
  const std::optional<Graph> larger = doubled(source, samples);
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const Value& v = model[model.outputs[i]];
    list.push_back(rows_of(v, samples, larger ? &(*larger)[larger->outputs[i]].type.shape : nullptr));
  }
  return list;
}

void check_loss(std::string_view loss) {
  if (std::find(std::begin(losses), std::end(losses), loss) != std::end(losses)) return;
  fail(ExitCode::usage, "loss '", loss, "' is unknown", suggestion(loss, std::vector<std::string>(std::begin(losses), std::end(losses))));
}

}  // namespace tandem
