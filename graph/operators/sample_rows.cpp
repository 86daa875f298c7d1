// SampleRows: weighted sums of rows that are picked by computed indices, with its two gradients. An index outside of x counts
// nothing, so that what lies outside of an image needs no mask.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void check(const InferContext& c, const Shape& x, int index, const Shape* weight) {
  if (x.rank() != 3) c.fail("x is ", x, ", expected [B,M,C]");
  expect_dtype(c, index, DType::int64);
  expect_rank(c, index, 3);
  if (c.shape(index)[0] != x[0]) c.fail("x is ", x, ", the indices are ", c.shape(index));
  if (weight && *weight != c.shape(index)) c.fail("the weights are ", *weight, ", the indices ", c.shape(index));
}

void expect_weight_type(const InferContext& c, int input) {
  expect_dtype(c, input, c.input(0).dtype == DType::float64 ? DType::float64 : DType::float32);
}

Shape result(const InferContext& c, const Shape& x, int index) { return {x[0], c.shape(index)[1], x[2]}; }

double sampling_flops(const Graph& graph, const Node& n, int index) {
  const Shape& x = graph[n.inputs[0]].type.shape;
  return 2.0 * static_cast<double>(graph[n.inputs[at(index)]].type.shape.elements()) * static_cast<double>(x[2]);
}

// By B; a whole operand is needed by parts.
void place_by_first_axis(PlaceContext& c) {
  BatchPlace place;
  for (int i = 0; i < c.inputs(); ++i)
    if (c.split(i)) place = c.place(i);
  if (place.axis != 0) c.fail("its operands are split along axis ", place.axis);
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.split(i)) c.need(i, place);
    else if (c.place(i) != place) c.fail("its operands are not split alike");
  }
  c.set(0, place);
}

}  // namespace

// y[b,p] = Σ_k weight[b,p,k] · x[b, index[b,p,k]]
Operator sample_rows() {
  return {.name = "SampleRows",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 3},
          .infer =
              [](InferContext& c) {
                check(c, c.shape(0), 1, &c.shape(2));
                expect_weight_type(c, 2);
                c.node().attributes.set("fixed_weights", c.attributes().integer("fixed_weights", 0));
                c.set_output(0, c.input(0).dtype, result(c, c.shape(0), 1));
              },
          .place = place_by_first_axis,
          .differentiate =
              [](GradientContext& g) {
                if (g.wants(0))
                  g.set_dx(0, g.emit("SampleRowsBackwardData", {g.dy(), g.x(1), g.x(2)}, {{"input_shape", g.shape(g.x(0)).dims}}));
                if (g.wants(2) && g.attributes().integer("fixed_weights") == 0)
                  g.set_dx(2, g.emit("SampleRowsBackwardWeights", {g.x(0), g.dy(), g.x(1)}));
              },
          .flops = [](const Graph& graph, const Node& n) { return sampling_flops(graph, n, 1); },
          .precision = PrecisionRole::follows,
          .operands = {{"x"}, {"index", OperandRole::index}, {"weight", OperandRole::data, true}}};
}

// dx[b, index[b,p,k]] += weight[b,p,k] · dy[b,p], in the order of p and k
Operator sample_rows_backward_data() {
  return {.name = "SampleRowsBackwardData",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 3},
          .infer =
              [](InferContext& c) {
                const Shape x(c.attributes().ints("input_shape"));
                check(c, x, 1, &c.shape(2));
                expect_weight_type(c, 2);
                expect_shape(c, 0, result(c, x, 1));
                c.set_output(0, c.input(0).dtype, x);
              },
          .place = place_by_first_axis,
          .flops = [](const Graph& graph, const Node& n) { return sampling_flops(graph, n, 1); },
          .precision = PrecisionRole::follows,
          .operands = {{"dy"}, {"index", OperandRole::index}, {"weight", OperandRole::data, true}}};
}

// dweight[b,p,k] = Σ_c dy[b,p,c] · x[b, index[b,p,k], c], in float32 where these are 16 bits
Operator sample_rows_backward_weights() {
  return {.name = "SampleRowsBackwardWeights",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 3},
          .infer =
              [](InferContext& c) {
                check(c, c.shape(0), 2, nullptr);
                expect_dtype(c, 1, c.input(0).dtype);
                expect_shape(c, 1, result(c, c.shape(0), 2));
                c.set_output(0, c.input(0).dtype == DType::float64 ? DType::float64 : DType::float32, c.shape(2));
              },
          .place = place_by_first_axis,
          .flops = [](const Graph& graph, const Node& n) { return sampling_flops(graph, n, 2); },
          .precision = PrecisionRole::follows,
          .operands = {{"x"}, {"dy"}, {"index", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
