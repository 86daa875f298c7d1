// Running sums and products along an axis.
#include "graph/operators/fold.h"
#include "graph/operators/gradient_rules.h"

namespace tandem::operator_rows {
namespace {

void infer_cumulative(InferContext& c) {
  Attributes& a = c.node().attributes;
  if (!a.has("axis")) c.fail("axis must be known when the plan is made");
  a.set("axis", std::int64_t{axis_of(c, static_integer(a, "axis", 0), c.shape(0).rank())});
  for (const char* name : {"exclusive", "reverse"}) {
    const std::int64_t flag = a.integer(name, 0);
    if (flag != 0 && flag != 1) c.fail(name, " is ", flag, ", expected 0 or 1");
    a.set(name, flag);
  }
  infer_same(c);
}

template <class Combine>
Folded fold_cumulative(const FoldContext& c, int start, const Combine& combine) {
  const Attributes& a = c.node.attributes;
  const Shape& shape = c.inputs[0].shape();
  const int axis = static_cast<int>(a.integer("axis"));
  const bool exclusive = a.integer("exclusive") != 0, reverse = a.integer("reverse") != 0;
  const std::int64_t length = shape[axis], inner = product(shape, axis + 1, shape.rank()),
                     lines = length == 0 ? 0 : shape.elements() / length;
  return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    Tensor out(c.inputs[0].type());
    const auto x = c.inputs[0].values<T>();
    const auto y = out.write<T>();
    for (std::int64_t line = 0; line < lines; ++line) {
      T running = static_cast<T>(start);
      for (std::int64_t k = 0; k < length; ++k) {
        const auto i = static_cast<std::size_t>((line / inner * length + (reverse ? length - 1 - k : k)) * inner + line % inner);
        const T next = static_cast<T>(combine(wrapping(running), wrapping(x[i])));
        y[i] = exclusive ? running : next;
        running = next;
      }
    }
    return std::vector{out};
  });
}

}  // namespace

// y_i = Σ x_k over k ≤ i (exclusive: k < i; reverse: from the end); dx is the sum of dy the other way
Operator cum_sum() {
  return {.name = "CumSum",
          .since = {11, 14}, .inputs = {2, 2}, .types = {{"T", types::wide_numbers}, {"T2", types::indices}},
          .infer = infer_cumulative,
          .follow = follow_along_axis,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                Attributes a = g.attributes();
                a.set("reverse", 1 - a.integer("reverse"));
                g.set_dx(g.emit("CumSum", {g.dy()}, a));
              },
          .fold = [](const FoldContext& c) { return fold_cumulative(c, 0, [](auto y, auto x) { return y + x; }); },
          .static_operands = {{1, "axis"}},
          .precision = PrecisionRole::wide,
          .operands = {{"x"}, {"axis", OperandRole::index}}};
}

// y_i = Π x_k over k ≤ i (exclusive: k < i; reverse: from the end)
Operator cum_prod() {
  return {.name = "CumProd",
          .since = {26}, .inputs = {2, 2}, .types = {{"T", types::wide_numbers}, {"T2", types::indices}},
          .infer = infer_cumulative,
          .follow = follow_along_axis,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("CumProdBackward", {g.dy(), g.x()}, g.attributes())); },
          .fold = [](const FoldContext& c) { return fold_cumulative(c, 1, [](auto y, auto x) { return y * x; }); },
          .static_operands = {{1, "axis"}},
          .precision = PrecisionRole::wide,
          .operands = {{"x"}, {"axis", OperandRole::index}}};
}

// dx_k = Π x_j (j < k) · s_k with s_k = dy_k + x_(k+1) · s_(k+1); exclusive: s_k = dy_(k+1) + x_(k+1) · s_(k+1). No zero divides.
Operator cum_prod_backward() {
  return {.name = "CumProdBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2},
          .infer =
              [](InferContext& c) {
                expect_same(c, 1, 2);
                infer_cumulative(c);
              },
          .place =
              [](PlaceContext& c) {
                if (!c.split(0) || !c.split(1) || c.place(0) != c.place(1)) c.fail("its operands are not split alike");
                if (c.place().axis == c.attributes().integer("axis")) c.fail("it works along axis ", c.place().axis, ", which is split");
                c.set(0, c.place());
              },
          .linear = Linear::first};
}

}  // namespace tandem::operator_rows
