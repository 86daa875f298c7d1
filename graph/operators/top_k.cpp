// TopK: the largest or smallest elements along an axis, in order, and where they lay.
#include <numeric>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

void infer_top_k(InferContext& c) {
  Attributes& a = c.node().attributes;
  if (!a.has("k") || c.has_input(1)) c.fail("k must be known when the plan is made");
  Shape y = c.shape(0);
  const int axis = axis_of(c, a.integer("axis", -1), y.rank());
  const std::int64_t k = static_integer(a, "k", 0);
  if (k < 0 || k > y[axis]) c.fail("k is ", k, ", but x ", y, " has ", y[axis], " elements along axis ", axis);
  y[axis] = k;
  a.set("axis", std::int64_t{axis});
  a.set("k", k);
  a.set("largest", std::int64_t{a.integer("largest", 1) != 0});
  a.set("sorted", std::int64_t{a.integer("sorted", 1) != 0});
  c.set_output(0, c.input(0).dtype, y);
  c.set_output(1, DType::int64, std::move(y));
}

Folded fold_top_k(const FoldContext& c) {
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  const bool largest = c.node.attributes.integer("largest") != 0;
  const Shape& shape = c.inputs[0].shape();
  const std::int64_t length = shape[axis], k = c.outputs[0].shape[axis], inner = product(shape, axis + 1, shape.rank()),
                     outer = product(shape, 0, axis);
  return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    Tensor values(c.outputs[0]), indices(TensorType{DType::int64, c.outputs[0].shape});
    const auto x = c.inputs[0].values<T>();
    const auto y = values.write<T>();
    const auto places = indices.write<std::int64_t>();
    Ints order(static_cast<std::size_t>(length));
    for (std::int64_t line = 0; line < outer * inner; ++line) {
      const auto element = [&](std::int64_t i) { return x[static_cast<std::size_t>((line / inner * length + i) * inner + line % inner)]; };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
        const auto a = element(i), b = element(j);
        return largest ? a > b || (a != a && b == b) : a < b || (b != b && a == a);  // NaN counts as largest
      });
      for (std::int64_t i = 0; i < k; ++i) {
        const auto to = static_cast<std::size_t>((line / inner * k + i) * inner + line % inner);
        places[to] = order[static_cast<std::size_t>(i)];
        y[to] = element(places[to]);
      }
    }
    return std::vector{values, indices};
  });
}

}  // namespace

// The k largest (or smallest), of equal ones the first first; dx is dy where they lay. They are in order whatever `sorted` says
Operator top_k() {
  return {.name = "TopK",
          .since = {1, 10, 11, 24}, .inputs = {1, 2}, .outputs = {2, 2}, .types = {{"T", types::numbers}, {"I", types::integers_64}},
          .infer = infer_top_k,
          .follow =
              [](FollowContext& c) {
                follow_along_axis(c);
                c.set(1, c.place());
              },
          .differentiate =
              [](GradientContext& g) {
                if (!g.has_dy(0)) return;
                g.set_dx(g.emit("GatherElementsBackward", {g.dy(0), g.y(1)},
                                {{"axis", g.attributes().integer("axis")}, {"input_shape", g.shape(g.x()).dims}}));
              },
          .fold = fold_top_k,
          .static_operands = {{1, "k"}},
          .precision = PrecisionRole::follows,
          .operands = {{"X", OperandRole::view}, {"K", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
