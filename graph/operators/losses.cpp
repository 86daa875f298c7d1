// Losses over class indices: ONNX's own, which a model may compute itself, and SoftmaxCrossEntropyTraining, which plans put in and
// which gives loss and gradient in one pass.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

// x[N,C,...], labels[N,...] as class indices, weight[C]?
void check_loss(const InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
  Shape labels = x;
  labels.dims.erase(labels.dims.begin() + 1);
  expect_shape(c, 1, labels);
  if (c.input(1).dtype != DType::int64 && c.input(1).dtype != DType::int32) c.fail("labels are ", c.input(1), ", expected int32 or int64");
  if (c.has_input(2)) expect_shape(c, 2, Shape{x[1]});
}

void infer_loss(InferContext& c) {
  check_loss(c);
  const std::string reduction = c.attributes().text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    c.fail("reduction is '", reduction, "', expected none, sum or mean");
  c.node().attributes.set("reduction", reduction);
  c.set_output(0, c.input(0).dtype, reduction == "none" ? c.shape(1) : Shape{});
}

Attributes loss_attributes(const Attributes& from) {
  Attributes to{{"reduction", from.text("reduction", "mean")}};
  if (from.has("ignore_index")) to.set("ignore_index", from.integer("ignore_index"));
  return to;
}

void follow_loss(FollowContext& c) {
  BatchPlace labels = c.place(0);
  if (labels.axis == 1) c.fail("axis 1 of ", c.x(), ", its classes, holds the samples");
  if (labels.axis > 1) --labels.axis;
  if (c.place(2).present()) c.fail("its weights by class hold samples");
  if (c.place(1) != labels) c.fail("scores and labels do not hold the samples at the same place");
  c.set(0, c.attributes().text("reduction") == "none" ? labels : BatchPlace{.mixed = true});
  c.set(1, c.place(0));
}

// Where the samples lie in the scores if they lie there in the labels.
BatchPlace scores_of(BatchPlace labels) {
  if (labels.axis >= 1) ++labels.axis;
  return labels;
}

// A mean over some of the labels, or one with weights, is none of the parts'.
void place_loss(PlaceContext& c) {
  follow_loss(c);
  const std::string reduction = c.attributes().text("reduction");
  if (reduction == "mean") c.fail("its mean is over all samples");
  if (reduction == "sum") c.sum(0);
}

void place_loss_backward(PlaceContext& c) {
  if (c.attributes().text("reduction") == "mean") c.fail("its mean is over all samples");
  if (!c.split(1) || (c.split(0) && c.place(0) != c.place(1)) || c.split(2)) c.fail("labels and gradients are not split alike");
  if (c.attributes().text("reduction") == "none" && !c.split(0)) c.need(0, c.place(1));
  c.set(0, scores_of(c.place(1)));
}

// The sum of the labels' weights on all devices: the loss of scores that are all -1. Put in once for a loss and its gradient.
ValueId sum_of_weights(PartsContext& c, Part scores) {
  const Node& node = c.node;
  const AttributeValue* const ignore = node.attributes.find("ignore_index");
  const std::string ignored = ignore ? to_string(*ignore) : std::string();
  const int by_class = node.inputs.size() > 2 ? node.inputs[2].index : -1;
  ValueId& whole = c.devices.known(concat("weights of ", node.inputs[1].index, ' ', by_class, ' ', ignored));
  if (whole.present()) return whole;
  GraphBuilder b(c.graph(), concat("weights/", c.graph()[node.inputs[1]].name), node.origin);
  const TensorType type = b.type(node.inputs[0]);
  const Ints shape = node.attributes.has("input_shape") ? node.attributes.ints("input_shape") : type.shape.dims;
  const ValueId ones = b.emit("Fill", {}, {{"value", -1.0F}, {"shape", shape}, {"dtype", static_cast<std::int64_t>(type.dtype)}});
  Attributes sum = node.attributes;
  sum.set("reduction", std::string("sum"));
  sum.erase("input_shape");
  std::vector<ValueId> operands = node.inputs;
  operands[0] = c.devices.put(ones, scores, node.inputs[1]);
  const ValueId addends = c.devices.put(b.emit("NegativeLogLikelihoodLoss", std::move(operands), sum), {Spread::partial}, ones);
  return whole = c.devices.sum(addends, c.graph()[addends].name);
}

// A mean of losses, or its gradient: their sum, divided by that of the labels' weights on all devices.
void mean_by_parts(PartsContext& c) {
  const bool backward = c.node.attributes.has("input_shape");
  const Part labels = c.part(1), scores = Part::split(labels.axis > 0 ? labels.axis + 1 : labels.axis, labels.outer);
  if (c.node.attributes.text("reduction") != "mean" || !labels.is_split() || c.part(0) != (backward ? Part{} : scores)) return;
  const ValueId weights = sum_of_weights(c, scores);
  std::vector<ValueId> operands = c.node.inputs;
  if (backward) operands[0] = c.devices.put(c.div(operands[0], weights), {}, weights);
  Attributes sum = c.node.attributes;
  sum.set("reduction", std::string("sum"));
  const ValueId summed = c.emit(c.node.op->name, std::move(operands), sum);
  const ValueId of_sum = c.devices.put(summed, backward ? scores : Part{Spread::partial}, c.node.inputs[1]);
  c.results = {backward ? of_sum : c.devices.put(c.div(of_sum, weights), {Spread::partial}, of_sum)};
}

// What is known of rows of scores [N,C] whose classes are split: the largest of each, [N,1]; and where each device's classes stand among
// all, [1,C].
struct SplitClasses {
  ValueId scores, largest, classes;
};
SplitClasses split_classes(PartsContext& c) {
  const ValueId x = c.node.inputs[0];
  const auto [scores, largest] = largest_along(c, x, 1);
  ValueId& known = c.devices.known(concat("classes of ", x.index));
  if (known.present()) return {scores, largest, known};
  Tensor numbers(TensorType{DType::int64, Shape{1, c.shape(x)[1]}});
  std::int64_t i = 0;
  for (std::int64_t& v : numbers.write<std::int64_t>()) v = i++;
  const ValueId classes = c.graph().add_constant(concat("classes of ", c.graph()[x].name), numbers.cast(c.type(c.node.inputs[1]).dtype));
  return {scores, largest, known = c.devices.put(classes, c.part(0), classes)};
}

// Whether the classes are split, beside whole indices of them. Beside other labels the scores are gathered.
bool are_classes_split(PartsContext& c) {
  const Part scores = c.part(0);
  if (!scores.is_split() || scores.axis != 1 || scores.outer != 1 || is_float(c.type(c.node.inputs[1]).dtype)) return false;
  if (c.part(1) == Part{}) return true;
  c.node.inputs[0] = c.devices.transfer(c.node.inputs[0], {}, c.mesh);
  return false;
}

// Of classes that are split no device has all scores of a row. What all have to know of it is four numbers: the largest score m,
// Σ e^(x − m), the label's own x − m, and whether some device has the label. Then
//   loss = scale · Σ (log Σ e^(x − m) − (x[label] − m)),  dx = scale · (e^(x − m) / Σ e^(x − m) − 1 at the label)
// and NaN in rows whose label is no class. Source: Shoeybi et al., "Megatron-LM", 2019 (cross entropy of split logits).
void sum_over_classes(PartsContext& c) {
  if (!are_classes_split(c)) return;
  const Part part = c.part(0);
  const ValueId x = c.node.inputs[0], labels = c.node.inputs[1], loss = c.node.outputs[0], dx = c.node.outputs[1];
  const auto [scores, largest, classes] = split_classes(c);
  const TensorType type = c.type(scores);
  const std::int64_t n = type.shape[0];
  const auto split = [&](std::string_view op, std::vector<ValueId> in, Attributes a = {}) {
    return c.emit_as(part, x, op, std::move(in), std::move(a));
  };
  const auto rows = [&](std::string_view op, std::vector<ValueId> in, Attributes a = {}) {
    return c.emit_as({}, x, op, std::move(in), std::move(a));
  };
  const auto addends = [&](ValueId each) {
    return c.emit_as({Spread::partial}, x, "ReduceSum", {each}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
  };
  const Attributes as_computed{{"to", static_cast<std::int64_t>(type.dtype)}};
  const ValueId column = c.devices.put(c.reshape(labels, Shape{n, 1}), {}, x);
  const ValueId is_label = split("Equal", {column, classes}), below = split("Sub", {scores, largest}), powers = split("Exp", {below});
  const ValueId zero = c.scalar(0, type.dtype), one = split("Cast", {is_label}, as_computed);
  const ValueId sums = c.devices.sum(
      c.emit_as({Spread::partial}, x, "Concat", {addends(powers), addends(split("Where", {is_label, below, zero})), addends(one)},
                {{"axis", std::int64_t{1}}}),
      c.graph()[x].name);
  const auto number = [&](std::int64_t i) {
    return rows("Slice", {sums}, {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"axes", Ints{1}}, {"steps", Ints{1}}});
  };
  const ValueId total = number(0),
                wrong = rows("Sub", {rows("Reciprocal", {number(2)}), c.scalar(1, type.dtype)});  // 0; infinite: no class
  const ValueId invalid = rows("Mul", {wrong, zero});                                                                // 0; NaN
  ValueId losses = rows("Add", {rows("Sub", {rows("Log", {total}), number(1)}), invalid});
  ValueId gradient = split("Add", {split("Sub", {split("Div", {powers, total}), one}), invalid});
  if (const AttributeValue* const ignored = c.node.attributes.find("ignore_index")) {
    const ValueId none = rows("Equal", {column, c.scalar(static_cast<double>(std::get<std::int64_t>(*ignored)), c.type(labels).dtype)});
    losses = rows("Where", {none, zero, losses});
    gradient = split("Where", {none, zero, gradient});
  }
  const double scale = static_cast<double>(c.node.attributes.real("scale", 1.0F));
  const ValueId sum = c.emit_as({}, loss, "ReduceSum", {losses}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
  gradient = split("Mul", {gradient, c.scalar(scale, type.dtype)});
  if (const DType to = c.type(dx).dtype; to != type.dtype) gradient = split("Cast", {gradient}, {{"to", static_cast<std::int64_t>(to)}});
  c.results = {c.emit_as({}, loss, "Mul", {sum, c.scalar(scale, type.dtype)}), gradient};
}

// The first of the classes with the largest score is the label: each device tells the first of its own.
void count_over_classes(PartsContext& c) {
  if (!are_classes_split(c)) return;
  const Part part = c.part(0);
  const ValueId x = c.node.inputs[0], labels = c.node.inputs[1], count = c.node.outputs[0];
  const auto [scores, largest, classes] = split_classes(c);
  const std::int64_t n = c.shape(x)[0];
  const Attributes as_number{{"to", static_cast<std::int64_t>(DType::float32)}}, by_row{{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}};
  const ValueId number = c.emit_as(part, classes, "Neg", {c.emit_as(part, classes, "Cast", {classes}, as_number)});
  const ValueId reached =
      c.emit_as(part, x, "Where", {c.emit_as(part, x, "Equal", {scores, largest}), number, c.scalar(-0x1p24, DType::float32)});
  const ValueId first =
      c.devices.largest(c.emit_as({Spread::own}, x, "ReduceMax", {reached}, by_row), concat("first of ", c.graph()[x].name));
  const ValueId column = c.devices.put(c.reshape(labels, Shape{n, 1}), {}, x);
  const ValueId wanted = c.emit_as({}, x, "Neg", {c.emit_as({}, x, "Cast", {column}, as_number)});
  const ValueId right = c.emit_as({}, x, "Cast", {c.emit_as({}, x, "Equal", {first, wanted})}, as_number);
  c.results = {c.emit_as({}, count, "ReduceSum", {right}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}})};
}

// By rows; of split classes the count is whole on every device.
void place_count(PlaceContext& c) {
  const bool classes = c.split(0, 1) && c.place(0).outer == 1 && !c.split(1) && c.x(1).elements() == c.x(0)[0];
  if (!classes || c.x(0)[1] > (std::int64_t{1} << 24)) place_summed_rows(c);
}

}  // namespace

// loss[n,...] = −weight[label] · logp[n,label,...], 0 where the label is ignore_index; its sum, or (mean) its sum over
// that of the weights
Operator negative_log_likelihood_loss() {
  return {.name = "NegativeLogLikelihoodLoss",
          .since = {12, 13, 22}, .inputs = {2, 3}, .types = {{"T", types::floats}, {"Tind", types::indices}, {"T", types::floats}},
          .infer = infer_loss,
          .follow = follow_loss,
          .place = place_loss,
          .by_parts = mean_by_parts,
          .differentiate = [](GradientContext& g) {
            if (g.wants(2))
              fail(g.node().op->name, " '", g.node().name,
                   "': its class weights depend on a trainable parameter, and there is no gradient with respect to them; freeze that "
                   "parameter");
            Attributes attributes = loss_attributes(g.attributes());
            attributes.set("input_shape", g.shape(g.x(0)).dims);
            std::vector<ValueId> operands{g.dy(), g.x(1)};
            if (g.has_x(2)) operands.push_back(g.x(2));
            if (g.wants(0)) g.set_dx(0, g.emit("NegativeLogLikelihoodLossBackward", std::move(operands), std::move(attributes)));
          },
          .precision = PrecisionRole::wide,
          .operands = {{"input"}, {"target", OperandRole::classes}, {"weight", OperandRole::class_weights}}};
}

Operator negative_log_likelihood_loss_backward() {
  return {.name = "NegativeLogLikelihoodLossBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 3},
          .infer = [](InferContext& c) { infer_gradient(c, "NegativeLogLikelihoodLoss", 1); },
          .place = place_loss_backward,
          .by_parts = mean_by_parts};
}

// The loss above of log softmax(scores), which is the second output
Operator softmax_cross_entropy_loss() {
  return {.name = "SoftmaxCrossEntropyLoss",
          .since = {12, 13},
          .inputs = {2, 3},
          .outputs = {1, 2},
          .types = {{"T", types::floats}, {"Tind", types::indices}, {"T", types::floats}},
          .infer =
              [](InferContext& c) {
                infer_loss(c);
                c.set_output(1, c.input(0));
              },
          .follow = follow_loss,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const ValueId logp = e.emit("LogSoftmax", {e.x(0)}, {{"axis", std::int64_t{1}}});
            std::vector<ValueId> operands{logp, e.x(1)};
            if (e.has_x(2)) operands.push_back(e.x(2));
            std::vector<ValueId> results{e.emit("NegativeLogLikelihoodLoss", std::move(operands), loss_attributes(e.attributes())), logp};
            results.resize(e.node().outputs.size());
            return results;
          },
          .precision = PrecisionRole::parts,
          .operands = {{"scores"}, {"labels", OperandRole::classes}, {"weights", OperandRole::class_weights}}};
}

// loss = scale · Σ rows, and its gradient with respect to the logits in one pass; both float32 for logits of 16 bits, the gradient
// as attribute "to" says
Operator softmax_cross_entropy_training() {
  return {.name = "SoftmaxCrossEntropyTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .outputs = {2, 2},
          .infer =
              [](InferContext& c) {
                expect_rank(c, 0, 2);
                const Shape& x = c.shape(0);
                if (is_float(c.input(1).dtype))
                  expect_shape(c, 1, x);
                else
                  expect_shape(c, 1, Shape{x[0]});
                const DType computed = size_of(c.input(0).dtype) < 4 ? DType::float32 : c.input(0).dtype;
                c.set_output(0, computed, Shape{});
                c.set_output(1, static_cast<DType>(c.attributes().integer("to", static_cast<std::int64_t>(computed))), x);
              },
          .place =
              [](PlaceContext& c) {
                const bool indices = c.x(1).rank() == 1;
                if (indices && c.split(0, 1) && c.place(0).outer == 1 && !c.split(1)) return c.set(1, c.place(0));
                place_rows(c);
                c.sum(0);
              },
          .by_parts = sum_over_classes,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.y(1), g.dy(0))); },
          .flops = flops_an_element<8>,
          .precision = PrecisionRole::wide};
}

// How many rows of scores have their largest element at the label
Operator count_correct() {
  return {.name = "CountCorrect", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = [](InferContext& c) {
            expect_rank(c, 0, 2);
            if (c.shape(1).rank() == 0 || c.shape(1)[0] != c.shape(0)[0] || (is_float(c.input(1).dtype) && c.shape(1) != c.shape(0)))
              c.fail("labels are ", c.input(1), " for scores ", c.input(0));
            c.set_output(0, DType::float32, Shape{});
          },
          .place = place_count,
          .by_parts = count_over_classes,
          .precision = PrecisionRole::wide};
}

}  // namespace tandem::operator_rows
