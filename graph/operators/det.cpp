// Determinants of the matrices along the last two axes.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

Shape matrices(InferContext& c, int input) {
  const Shape& x = c.shape(input);
  if (x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2]) c.fail("input ", input, " is ", c.input(input), ", expected [...,n,n]");
  return Shape(Ints(x.begin(), x.end() - 2));
}

void follow_matrices(FollowContext& c) {
  only_operand(c, 0);
  if (c.place().axis >= c.x().rank() - 2) c.fail("it works along axis ", c.place().axis, ", which holds the samples");
  c.set(0, c.place());
}

double elimination_flops(const Graph& graph, const Node& n) {
  const Shape& x = graph[n.inputs[0]].type.shape;
  return static_cast<double>(x.elements()) * static_cast<double>(x[x.rank() - 1]);
}

}  // namespace

// dx = dy · adjᵀ(x), which is dy · y · x⁻ᵀ where x has an inverse
Operator det() {
  return {.name = "Det",
          .since = {11, 22}, .types = {{"T", types::floats}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(0).dtype, matrices(c, 0)); },
          .follow = follow_matrices,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("DetBackward", {g.x(), g.dy()})); },
          .flops = elimination_flops,
          .precision = PrecisionRole::wide,
          .operands = {{"X"}}};
}

Operator det_backward() {
  return {.name = "DetBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer =
              [](InferContext& c) {
                expect_shape(c, 1, matrices(c, 0));
                expect_dtype(c, 1, c.input(0).dtype);
                infer_same(c);
              },
          .place =
              [](PlaceContext& c) {
                const BatchPlace place = c.split(0) ? c.place(0) : c.place(1);
                if (place.axis >= c.x(0).rank() - 2) c.fail("a matrix of it is split");
                for (int i = 0; i < 2; ++i) {
                  if (c.split(i) && c.place(i) != place) c.fail("its operands are split along different axes");
                  if (!c.split(i)) c.need(i, place);
                }
                c.set(0, place);
              },
          .flops = elimination_flops};
}

}  // namespace tandem::operator_rows
