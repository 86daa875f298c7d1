// Normalization of groups of channels as one kernel: what InstanceNormalization and GroupNormalization become where backends offer it.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

DType statistics_type(DType x) { return size_of(x) == 2 ? DType::float32 : x; }

// x is [N,C,...], of which the groups are; gives N and the number of groups.
Shape groups_of(const InferContext& c, const Shape& x) {
  const std::int64_t groups = c.attributes().integer("groups");
  if (x.rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
  if (groups < 1 || x[1] % groups != 0) c.fail("groups is ", groups, ", which does not divide ", x[1], " channels");
  return Shape{x[0], groups};
}

void expect_wide(const InferContext& c, int input, const Shape& shape) {
  if (!c.has_input(input)) return;
  expect_shape(c, input, shape);
  expect_dtype(c, input, statistics_type(c.input(0).dtype));
}

// Samples are split, none is cut; so are `like_x`, and what is not is whole.
void place_split_samples(PlaceContext& c, int like_x, int statistics) {
  if (!c.split(0, 0)) c.fail("a sample of it is split");
  for (int i = 1; i < c.inputs(); ++i) {
    if (!c.has_input(i)) continue;
    const bool like = i == like_x || i >= statistics;
    if (like && c.place(i) != c.place()) {
      if (c.split(i)) c.fail("its operands are split along different axes");
      c.need(i, c.place());
    }
    if (!like && c.split(i)) c.fail("its input ", i, " is split");
  }
}

constexpr int none = Arity::any;

}  // namespace

// y = (x − mean)·r·scale + bias with mean and r = 1/√(variance + ε) of each sample's groups of channels.
// dx = r·(g − Σg/n − x̂·Σ(g·x̂)/n) with g = dy·scale, x̂ = (x − mean)·r, n elements a group
Operator group_normalization_training() {
  return {.name = "GroupNormalizationTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, 3},
          .outputs = {3, 3},
          .infer =
              [](InferContext& c) {
                const TensorType x = c.input(0);
                const Shape statistics = groups_of(c, x.shape);
                for (int i = 1; i < 3; ++i) expect_wide(c, i, Shape{x.shape[1]});
                c.set_output(0, x);
                for (int i = 1; i < 3; ++i) c.set_output(i, statistics_type(x.dtype), statistics);
              },
          .place =
              [](PlaceContext& c) {
                place_split_samples(c, none, none);
                c.set_all(c.place());
              },
          .differentiate =
              [](GradientContext& g) {
                if (g.has_dy(1) || g.has_dy(2)) fail("GroupNormalizationTraining '", g.node().name, "': the loss reads its statistics");
                const std::vector<ValueId> d =
                    g.emit("GroupNormalizationBackward", {g.dy(0), g.x(0), g.has_x(1) ? g.x(1) : ValueId{}, g.y(1), g.y(2)},
                           {{"groups", g.attributes().integer("groups")}},
                           g.wants(2)   ? 3
                           : g.wants(1) ? 2
                                        : 1);
                for (int i = 0; i < 3; ++i)
                  if (g.wants(i)) g.set_dx(i, d[at(i)]);
              },
          .flops = flops_an_element<8>,
          .precision = PrecisionRole::follows,
          .operands = {{"x"}, {"scale", OperandRole::scale, true}, {"bias", OperandRole::bias, true}}};
}

Operator group_normalization_backward() {
  return {.name = "GroupNormalizationBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {5, 5},
          .outputs = {1, 3},
          .infer =
              [](InferContext& c) {
                const TensorType x = c.input(0);
                const Shape statistics = groups_of(c, x.shape);
                expect_shape(c, 1, x.shape);
                expect_dtype(c, 1, x.dtype);
                expect_wide(c, 2, Shape{x.shape[1]});
                for (int i = 3; i < 5; ++i) expect_wide(c, i, statistics);
                c.set_output(0, x);
                for (int i = 1; i < 3; ++i)
                  if (i < c.outputs()) c.set_output(i, statistics_type(x.dtype), Shape{x.shape[1]});
              },
          .place =
              [](PlaceContext& c) {
                place_split_samples(c, 1, 3);
                c.set(0, c.place());
                for (int i = 1; i < c.outputs(); ++i) c.sum(i);
              },
          .flops = flops_an_element<8>};
}

}  // namespace tandem::operator_rows
