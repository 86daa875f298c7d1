// Convolution and its two gradients, which are operators of their own because libraries have kernels for them.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

Attributes with(const Attributes& attributes, const char* name, const Shape& shape) {
  Attributes copy = attributes;
  copy.set(name, shape.dims);
  return copy;
}

// 2 · outputs · (products summed into each)
double convolution_flops(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(product(w, 1, w.rank()));
}

void infer_conv(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  expect_dtype(c, 1, c.input(0).dtype);
  if (w.rank() < 3) c.fail("the weight is ", c.input(1), ", expected [M,C/group,...]");
  WindowAttributes window = read_window(c, Ints(w.begin() + 2, w.end()));
  const std::int64_t group = c.attributes().integer("group", 1);
  if (group < 1 || w[0] % group != 0) c.fail("group is ", group, ", which does not divide the weight's ", w[0], " output channels");
  if (w[1] != x[1] / group || x[1] % group != 0)
    c.fail("x ", x, " has ", x[1], " channels in ", group, " groups, but the weight ", w, " takes ", w[1], " a group");
  if (c.has_input(2)) {
    expect_dtype(c, 2, c.input(0).dtype);
    expect_shape(c, 2, Shape{w[0]});
  }
  resolve_pads(c, window, x);
  Shape y = window_counts(c, window, x, false);
  y.dims.insert(y.dims.begin(), {x[0], w[0]});
  write_window(c, window);
  c.node().attributes.set("group", group);
  c.set_output(0, c.input(0).dtype, std::move(y));
  const DType sums = size_of(c.input(0).dtype) < size_of(DType::float32) ? DType::float32 : c.input(0).dtype;
  for (int i = 1; i < 3; ++i) c.set_output(i, sums, Shape{w[0]});
  for (int i = 3; i < 5; ++i)
    if (c.has_input(i)) expect_shape(c, i, Shape{x[1]});
}

// The axis that counts groups: of channels, or of filters and what there is one of for each channel.
const Ints operands{1, 0, 0, 0, 0}, results{1, 0, 0};
const Ints data_operands{1, 0, 1}, data_results{1};
const Ints weights_operands{1, 1, 0, 0}, weights_results{0, 0};

void follow_conv(FollowContext& c) {
  if (!follow_groups(c, operands, results)) follow_rows(c);
}

// Filters of all channels: a part of the filters gives a part of the channels, and a part of the channels gives addends.
bool is_dense(const PlaceContext& c) { return c.attributes().integer("group", 1) == 1; }

// Where an operand is split otherwise, or is not split, it has to be `place`.
void need_all(PlaceContext& c, std::initializer_list<int> inputs, BatchPlace place) {
  for (const int i : inputs) {
    if (!c.has_input(i) || c.place(i) == place) continue;
    if (c.split(i)) c.fail("its operands are split at different places");
    c.need(i, place);
  }
}

// By filters, by channels, or by samples. The sums by channel are those of a device's own samples: what it normalizes by.
void place_conv(PlaceContext& c) {
  const bool filters = !c.split(0) && c.split(1, 0), channels = c.split(0, 1) || c.split(1, 1);
  if (is_dense(c) && filters) {
    const BatchPlace rows = c.place(1);
    need_all(c, {2}, rows);
    c.set(0, {.axis = 1, .outer = rows.outer});
    for (int i = 1; i < c.outputs(); ++i) c.set(i, rows);
  } else if (is_dense(c) && channels && !c.split(1, 0)) {
    const std::int64_t outer = c.place(c.split(0) ? 0 : 1).outer;
    need_all(c, {0, 1}, {.axis = 1, .outer = outer});
    need_all(c, {3, 4}, {.axis = 0, .outer = outer});
    if (c.has_input(2)) c.once(2);
    if (c.outputs() == 1 && !c.attributes().has("activation")) c.sum(0);  // else the sum is whole before what is made of it
  } else {
    if (!follow_groups(c, operands, results)) place_rows(c);
    for (int i = 1; i < c.outputs(); ++i) c.own(i);
  }
}

// What is made of a sum over channels: its activation, and the sums by channel that a normalization takes.
void finish_sum(PartsContext& c) {
  const std::vector<ValueId> outputs = c.node.outputs;
  if (outputs.size() == 1 && !c.node.attributes.has("activation")) return;
  if (c.part(0).is_split() && c.part(0).axis == 0) return;
  const ValueId y = sum_of_addends(c, c.node.inputs.size());
  if (!y.present()) return;
  c.results = {c.node.attributes.has("activation") ? activated(c, y) : y};
  Ints axes = all_axes(c.shape(y).rank());
  axes.erase(axes.begin() + 1);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    const DType dtype = c.type(outputs[i]).dtype;
    ValueId each = y;
    if (c.type(y).dtype != dtype) each = c.emit_as({}, outputs[0], "Cast", {each}, {{"to", static_cast<std::int64_t>(dtype)}});
    if (i == 2) each = c.emit_as({}, outputs[0], "Mul", {each, each});
    c.results.push_back(c.emit_as({}, outputs[i], "ReduceSum", {each}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
  }
}

void place_backward_data(PlaceContext& c) {
  if (is_dense(c) && c.split(1, 1) && !c.split(0)) {
    need_all(c, {2}, c.place(1));
    c.set(0, c.place(1));
  } else if (is_dense(c) && (c.split(0, 1) || c.split(1, 0)) && !c.split(2)) {
    const std::int64_t outer = c.place(c.split(0) ? 0 : 1).outer;
    need_all(c, {0}, {.axis = 1, .outer = outer});
    need_all(c, {1}, {.axis = 0, .outer = outer});
    c.sum(0);
  } else if (!follow_groups(c, data_operands, data_results)) {
    place_rows(c);
  }
}

void place_backward_weights(PlaceContext& c) {
  if (is_dense(c) && c.split(1, 1) && !c.split(0)) {
    c.set_all({.axis = 0, .outer = c.place(1).outer});
  } else if (is_dense(c) && c.split(0, 1) && !c.split(1)) {
    need_all(c, {2, 3}, {.axis = 0, .outer = c.place(0).outer});
    c.set(0, c.place(0));
  } else if (!follow_groups(c, weights_operands, weights_results)) {
    place_summed_rows(c);
  }
}

}  // namespace

// y[n,m,o] = b[m] + Σ_{c,k} x[n, c of m's group, o·stride + k·dilation − pad] · w[m,c,k]; Σ y and Σ y² by channel where
// BatchNormalizationTraining takes them, which also knows what flows back through them. With factor and shift by channel as
// fourth and fifth operand, which are put in after differentiation, max(0, x · factor + shift) stands for x
Operator conv() {
  return {.name = "Conv",
          .since = {1, 11, 22},
          .inputs = {2, 3},
          .types = {{"T", types::floats}},
          .infer = infer_conv,
          .follow = follow_conv,
          .place = place_conv,
          .by_parts = finish_sum,
          .differentiate =
              [](GradientContext& g) {
                const ValueId x = g.x(0), w = g.x(1), dy = g.dy();
                if (g.wants(0)) g.set_dx(0, g.emit("ConvolutionBackwardData", {dy, w}, with(g.attributes(), "input_shape", g.shape(x))));
                if (g.wants(1)) {
                  const int outputs = g.wants(2) ? 2 : 1;
                  const std::vector<ValueId> dw =
                      g.emit("ConvolutionBackwardWeights", {x, dy}, with(g.attributes(), "weight_shape", g.shape(w)), outputs);
                  g.set_dx(1, dw[0]);
                  if (g.wants(2)) g.set_dx(2, dw[1]);
                } else if (g.wants(2)) {
                  Ints axes = all_axes(g.shape(dy).rank());
                  axes.erase(axes.begin() + 1);
                  g.set_dx(2, g.reduce_sum(dy, axes, false));
                }
              },
          .flops = [](const Graph& graph,
                      const Node& n) { return convolution_flops(graph[n.outputs[0]].type.shape, graph[n.inputs[1]].type.shape); },
          .precision = PrecisionRole::narrow,
          .operands = {{"X"}, {"W", OperandRole::filter}, {"B", OperandRole::bias}}};
}

// With a third operand, 0 where that is not positive
Operator convolution_backward_data() {
  return {.name = "ConvolutionBackwardData",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 3},
          .infer =
              [](InferContext& c) {
                const TensorType x{c.input(0).dtype, Shape(c.attributes().ints("input_shape"))};
                expect_gradient_of(c, "Conv", {x, c.input(1)}, 0);
                if (c.has_input(2)) expect_shape(c, 2, x.shape);
                c.set_output(0, x);
              },
          .place = place_backward_data,
          .flops = [](const Graph& graph,
                      const Node& n) { return convolution_flops(graph[n.inputs[0]].type.shape, graph[n.inputs[1]].type.shape); }};
}

Operator convolution_backward_weights() {
  return {.name = "ConvolutionBackwardWeights",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 4},
          .outputs = {1, 2},
          .infer =
              [](InferContext& c) {
                const Shape w(c.attributes().ints("weight_shape"));
                expect_dtype(c, 1, c.input(0).dtype);
                expect_gradient_of(c, "Conv", {c.input(0), {c.input(0).dtype, w}}, 1);
                for (int i = 2; i < 4; ++i)
                  if (c.has_input(i)) expect_shape(c, i, Shape{c.shape(0)[1]});
                c.set_output(0, c.input(0).dtype, w);
                c.set_output(1, c.input(0).dtype, Shape{w[0]});
              },
          .place = place_backward_weights,
          .flops = [](const Graph& graph,
                      const Node& n) { return convolution_flops(graph[n.inputs[1]].type.shape, graph[n.outputs[0]].type.shape); }};
}

}  // namespace tandem::operator_rows
