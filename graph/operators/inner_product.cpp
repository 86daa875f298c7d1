// The product of rows by a weight, with a bias: what Gemm and MatMul become where their right factor is a weight. Libraries have
// kernels for it and for both of its gradients, and the weight may have any layout they like.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

double inner_product_flops(const Shape& rows, const Shape& w) {
  return 2.0 * static_cast<double>(rows[0]) * static_cast<double>(w.elements());
}

void place_alike(PlaceContext& c, BatchPlace place) {
  for (int i = 0; i < c.outputs(); ++i) c.set(i, place);
}

// Both factors are split alike along an axis that is summed over.
void add_inner(PlaceContext& c, BatchPlace inner) {
  for (int i = 0; i < 2; ++i) {
    if (!c.split(i)) c.need(i, inner);
    if (c.split(i) && c.place(i) != inner) c.fail("its operands are split at different places");
  }
}

}  // namespace

}  // namespace tandem::operator_rows

void tandem::place_inner_product(PlaceContext& c, int bias) {
  if (c.split(0, 0) && !c.split(1)) return operator_rows::place_alike(c, c.place(0));
  if (!c.split(0) && c.split(1, 0)) {
    if (c.has_input(bias) && c.place(bias) != c.place(1)) c.need(bias, c.place(1));
    return operator_rows::place_alike(c, {.axis = 1, .outer = c.place(1).outer});
  }
  if (c.place(0).axis < 1 && c.place(1).axis < 1) c.fail("its operands are split by rows and by columns");
  if (c.has_input(bias)) c.once(bias);
  operator_rows::add_inner(c, c.split(0) ? c.place(0) : c.place(1));
  if (!c.attributes().has("activation")) c.sum(0);  // else the sum is whole before it
}

namespace tandem::operator_rows {

// y[n,o] = b[o] + Σ x[n,...] · w[o,...]; with an activation f(that), and perhaps what it is of as a second output
Operator inner_product() {
  return {.name = "InnerProduct",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 3},
          .outputs = {1, 2},
          .infer =
              [](InferContext& c) {
                const Shape &x = c.shape(0), &w = c.shape(1);
                expect_dtype(c, 1, c.input(0).dtype);
                if (x.rank() < 2 || w.rank() != x.rank() || !std::equal(x.begin() + 1, x.end(), w.begin() + 1))
                  c.fail("x ", x, " and the weight ", w, " must agree in all axes but the first");
                if (c.has_input(2)) expect_shape(c, 2, Shape{w[0]});
                const std::int64_t rows = x[0], columns = w[0];
                for (int i = 0; i < c.outputs(); ++i) c.set_output(i, c.input(0).dtype, Shape{rows, columns});
              },
          .place = [](PlaceContext& c) { place_inner_product(c, 2); },
          .by_parts =
              [](PartsContext& c) {
                if (!c.node.attributes.has("activation")) return;
                const ValueId sum = sum_of_addends(c, 3);
                if (sum.present()) c.results = {activated(c, sum), sum};
              },
          .linear = Linear::product,
          .differentiate =
              [](GradientContext& g) {
                Attributes precision;  // of the gradients, too
                if (g.attributes().has("fp8")) precision.set("fp8", g.attributes().integer("fp8"));
                Attributes data = precision;
                data.set("input_shape", g.shape(g.x(0)).dims);
                if (g.wants(0)) g.set_dx(0, g.emit("InnerProductBackwardData", {g.dy(), g.x(1)}, data));
                if (g.wants(1)) {
                  const std::vector<ValueId> dw = g.emit("InnerProductBackwardWeights", {g.x(0), g.dy()}, precision, g.wants(2) ? 2 : 1);
                  g.set_dx(1, dw[0]);
                  if (g.wants(2)) g.set_dx(2, dw[1]);
                } else if (g.wants(2)) {
                  g.set_dx(2, g.reduce_sum(g.dy(), {0}, false));
                }
              },
          .flops = [](const Graph& graph,
                      const Node& n) { return inner_product_flops(graph[n.inputs[0]].type.shape, graph[n.inputs[1]].type.shape); },
          .precision = PrecisionRole::narrow,
          .operands = {{"x"}, {"w", OperandRole::matrix}, {"b", OperandRole::bias}}};
}

// dx[n,...] = Σ_o dy[n,o] · w[o,...]; with an activation, the gradient of what it was of: that times its slope, by the third operand
Operator inner_product_backward_data() {
  return {.name = "InnerProductBackwardData",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 3},
          .infer =
              [](InferContext& c) {
                const TensorType x{c.input(0).dtype, Shape(c.attributes().ints("input_shape"))};
                expect_gradient_of(c, "InnerProduct", {x, c.input(1)}, 0);
                if (c.has_input(2)) expect_shape(c, 2, x.shape);
                if (c.has_input(2) != c.attributes().has("activation")) c.fail("an activation and what it was of come together");
                c.set_output(0, x);
              },
          .place =
              [](PlaceContext& c) {
                const auto whole_sums = [&](BatchPlace place) {
                  if (c.has_input(2) && c.place(2) != place) c.need(2, place);
                  c.set(0, place);
                };
                if (c.split(0, 0) && !c.split(1)) return whole_sums(c.place(0));
                if (!c.split(0) && c.place(1).axis >= 1) return whole_sums(c.place(1));
                const std::int64_t outer = c.place(c.split(0) ? 0 : 1).outer;
                const BatchPlace columns{.axis = 1, .outer = outer}, rows{.axis = 0, .outer = outer};
                if (!c.split(0)) c.need(0, columns);
                if (!c.split(1)) c.need(1, rows);
                if ((c.split(0) && c.place(0) != columns) || (c.split(1) && c.place(1) != rows))
                  c.fail("its operands are split at different places");
                if (!c.has_input(2)) c.sum(0);  // else the sum is whole before its activation's slope
              },
          .by_parts =
              [](PartsContext& c) {
                if (!c.node.attributes.has("activation")) return;
                const ValueId sum = sum_of_addends(c, 2);
                if (sum.present()) c.results = {activated(c, sum, c.devices.transfer(c.node.inputs[2], {}, c.mesh))};
              },
          .linear = Linear::product,
          .flops = [](const Graph& graph,
                      const Node& n) { return inner_product_flops(graph[n.inputs[0]].type.shape, graph[n.inputs[1]].type.shape); }};
}

// dw[o,...] = Σ_n dy[n,o] · x[n,...]; db[o] = Σ_n dy[n,o]
Operator inner_product_backward_weights() {
  return {.name = "InnerProductBackwardWeights",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .outputs = {1, 2},
          .infer =
              [](InferContext& c) {
                expect_rank(c, 1, 2);
                expect_dtype(c, 1, c.input(0).dtype);
                if (c.shape(0).rank() < 2 || c.shape(0)[0] != c.shape(1)[0]) c.fail("x is ", c.input(0), " and dy ", c.input(1));
                const std::int64_t outputs = c.shape(1)[1];
                c.set_output(0, c.input(0).dtype, with_dim(c.shape(0), 0, outputs));
                c.set_output(1, c.input(0).dtype, Shape{outputs});
              },
          .place =
              [](PlaceContext& c) {
                if (c.split(0, 0) || c.split(1, 0)) {
                  add_inner(c, c.place(c.split(0, 0) ? 0 : 1));
                  for (int i = 0; i < c.outputs(); ++i) c.sum(i);
                } else if (c.split(0) && !c.split(1)) {
                  c.set(0, c.place(0));
                } else if (!c.split(0)) {
                  c.set_all({.axis = 0, .outer = c.place(1).outer});
                } else {
                  c.fail("its operands are split at different places");
                }
              },
          .linear = Linear::product,
          .flops = [](const Graph& graph,
                      const Node& n) { return inner_product_flops(graph[n.inputs[0]].type.shape, graph[n.outputs[0]].type.shape); }};
}

}  // namespace tandem::operator_rows
