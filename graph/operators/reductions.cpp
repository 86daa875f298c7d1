// Reductions over axes. Kernels exist for sum, mean, max, min and product; the others are compositions.
#include <limits>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

// Axes explicit and ascending. Nothing named means all axes, or none with noop_with_empty_axes, which then stays set.
void infer_reduction(InferContext& c) {
  const Shape& x = c.shape(0);
  if (c.has_input(1)) c.fail("axes must be known when the plan is made");
  Ints axes = axes_of(c, static_ints(c.attributes(), "axes", {}), x.rank());
  if (axes.empty() && c.attributes().integer("noop_with_empty_axes", 0) == 0) axes = all_axes(x.rank());
  const bool keepdims = c.attributes().integer("keepdims", 1) != 0;
  Shape y = x;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (keepdims)
      y[static_cast<int>(*axis)] = 1;
    else
      y.dims.erase(y.dims.begin() + *axis);
  }
  Attributes& a = c.node().attributes;
  a.set("noop_with_empty_axes", std::int64_t{axes.empty()});
  a.set("axes", std::move(axes));
  a.set("keepdims", std::int64_t{keepdims});
  c.set_output(0, c.input(0).dtype, std::move(y));
}

Shape kept(const Shape& x, const Ints& axes) {
  Shape y = x;
  for (const std::int64_t axis : axes) y[static_cast<int>(axis)] = 1;
  return y;
}

// A value of the output's shape as it broadcasts against x.
ValueId keep(GradientContext& g, ValueId v) { return g.reshape(v, kept(g.shape(g.x()), g.attributes().ints("axes"))); }

ValueId reduce(ExpandContext& e, std::string_view op, ValueId x) { return e.emit(op, {x}, e.attributes()); }

// No axes: nothing to do. Booleans are reduced as integers.
std::vector<ValueId> expand_reduction(ExpandContext& e, std::string_view op) {
  if (e.attributes().ints("axes").empty()) return {e.x()};
  if (e.type(e.x()).dtype == DType::boolean) return {cast(e, reduce(e, op, cast(e, e.x(), DType::int32)), DType::boolean)};
  return {};
}

// y = max or min: the gradient is shared equally by the elements that reach it.
void differentiate_extremum(GradientContext& g) {
  const DType dtype = g.type(g.x()).dtype;
  const Ints axes = g.attributes().ints("axes");
  const ValueId reached = cast(g, g.emit("Equal", {g.x(), keep(g, g.y())}), dtype);
  const ValueId share = g.div(keep(g, g.dy()), g.reduce_sum(reached, axes, true));
  g.set_dx(g.mul(reached, share));
}

// y = Π x. With zeros taken out, P = Π x over the rest; an element's factor is P/x where as many zeros are in the
// product as it is itself (0 or 1), else 0.
void differentiate_product(GradientContext& g) {
  const TensorType x = g.type(g.x());
  const Ints axes = g.attributes().ints("axes");
  const ValueId zero = g.scalar(0, x.dtype), one = g.scalar(1, x.dtype);
  const ValueId is_zero = g.emit("Equal", {g.x(), zero});
  const ValueId rest = g.emit("Where", {is_zero, one, g.x()});
  const ValueId own = cast(g, is_zero, x.dtype);
  const ValueId alone = cast(g, g.emit("Equal", {own, g.reduce_sum(own, axes, true)}), x.dtype);
  const ValueId whole = g.emit("ReduceProd", {rest}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  g.set_dx(g.mul(g.mul(keep(g, g.dy()), whole), g.div(alone, rest)));
}

// fold(start, step, finish): start for an empty set, y = step(y, x), y = finish(y, count)
template <auto start, auto step, auto finish>
Folded fold_reduction(const FoldContext& c) {
  return visit_foldable(c.outputs[0].dtype, [&]<class T>() -> Folded {
    const Shape& shape = c.inputs[0].shape();
    const Shape reduced = kept(shape, c.node.attributes.ints("axes"));
    const auto index = broadcast_index(reduced, shape);
    Tensor out(c.outputs[0]);
    const auto y = out.write<T>();
    const auto x = c.inputs[0].values<T>();
    for (T& v : y) v = start.template operator()<T>();
    for (std::size_t i = 0; i < x.size(); ++i) y[index[i]] = static_cast<T>(step(y[index[i]], x[i]));
    for (T& v : y) v = static_cast<T>(finish(v, static_cast<T>(std::max<std::size_t>(1, x.size() / std::max<std::size_t>(1, y.size())))));
    return std::vector{out};
  });
}

constexpr auto zero = []<class T>() { return T{0}; };
constexpr auto one = []<class T>() { return T{1}; };
constexpr auto highest = []<class T>() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
};
constexpr auto lowest = []<class T>() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
};
// NaN stays.
constexpr auto larger = [](auto y, auto x) { return y > x || y != y ? y : x; };
constexpr auto smaller = [](auto y, auto x) { return y < x || y != y ? y : x; };
constexpr auto as_is = [](auto y, auto) { return y; };
constexpr auto plus = [](auto y, auto x) { return wrapping(y) + wrapping(x); };

// A sum over what is at hand in parts is one of addends: the whole would have to be made for it alone.
void sum_by_parts(PartsContext& c) {
  if (c.mesh.samples || c.part(0) != Part{}) return;
  for (const std::int64_t axis : c.node.attributes.ints("axes"))
    if (const ValueId parts = c.devices.made_in_parts(c.node.inputs[0], static_cast<int>(axis), c.mesh); parts.present()) {
      c.node.inputs[0] = parts;
      return;
    }
}

}  // namespace

Operator reduce_sum() {
  return {.name = "ReduceSum",
          .since = {1, 11, 13}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .by_parts = sum_by_parts,
          .linear = Linear::sum,
          .differentiate = [](GradientContext& g) { g.set_dx(g.broadcast_to(keep(g, g.dy()), g.shape(g.x()))); },
          .expand = [](ExpandContext& e) { return expand_reduction(e, "ReduceSum"); },
          .fold = fold_reduction<zero, plus, as_is>,
          .flops = flops_an_element<1>,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::wide, .operands = {{"data"}}};
}

namespace {

// A mean over what is split is a sum, and its factor.
void mean_by_parts(PartsContext& c) {
  const ValueId x = c.node.inputs[0];
  const Part part = c.part(0);
  const Ints axes = c.node.attributes.ints("axes");
  if (!part.is_split() || std::find(axes.begin(), axes.end(), part.axis) == axes.end()) return;
  const ValueId sum = c.devices.put(c.emit("ReduceSum", {x}, c.node.attributes), {Spread::partial}, x);
  const std::int64_t sums = c.shape(sum).elements(), elements = std::max<std::int64_t>(1, c.shape(x).elements());
  c.results = {c.devices.put(c.mul(sum, static_cast<double>(sums) / static_cast<double>(elements)), {Spread::partial}, sum)};
}

}  // namespace

Operator reduce_mean() {
  return {.name = "ReduceMean",
          .since = {1, 11, 13, 18},
          .inputs = {1, 2},
          .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .by_parts = mean_by_parts,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                const double n = static_cast<double>(g.shape(g.x()).elements()) /
                                 static_cast<double>(std::max<std::int64_t>(1, g.shape(g.dy()).elements()));
                g.set_dx(g.broadcast_to(keep(g, g.mul(g.dy(), 1 / n)), g.shape(g.x())));
              },
          .expand = [](ExpandContext& e) { return expand_reduction(e, "ReduceMean"); },
          .fold = fold_reduction<zero, plus, [](auto y, auto n) { return y / n; }>,
          .flops = flops_an_element<1>,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::wide,
          .operands = {{"data"}}};
}

Operator reduce_max() {
  return {.name = "ReduceMax",
          .since = {1, 11, 12, 13, 18, 20}, .inputs = {1, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .differentiate = differentiate_extremum,
          .expand = [](ExpandContext& e) { return expand_reduction(e, "ReduceMax"); },
          .fold = fold_reduction<lowest, larger, as_is>,
          .flops = flops_an_element<1>,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::wide, .operands = {{"data"}}};
}

Operator reduce_min() {
  return {.name = "ReduceMin",
          .since = {1, 11, 12, 13, 18, 20}, .inputs = {1, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .differentiate = differentiate_extremum,
          .expand = [](ExpandContext& e) { return expand_reduction(e, "ReduceMin"); },
          .fold = fold_reduction<highest, smaller, as_is>,
          .flops = flops_an_element<1>,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::wide, .operands = {{"data"}}};
}

Operator reduce_prod() {
  return {.name = "ReduceProd",
          .since = {1, 11, 13, 18}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .differentiate = differentiate_product,
          .expand = [](ExpandContext& e) { return expand_reduction(e, "ReduceProd"); },
          .fold = fold_reduction<one, [](auto y, auto x) { return wrapping(y) * wrapping(x); }, as_is>,
          .flops = flops_an_element<1>,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::wide, .operands = {{"data"}}};
}

// Σ |x|
Operator reduce_l1() {
  return {.name = "ReduceL1",
          .since = {1, 11, 13, 18}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {reduce(e, "ReduceSum", e.emit("Abs", {e.x()}))}; },
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

// √ Σ x²; its gradient is 0 where x is
Operator reduce_l2() {
  return {.name = "ReduceL2",
          .since = {1, 11, 13, 18}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {norm_of(e, reduce(e, "ReduceSum", e.mul(e.x(), e.x())), 2)}; },
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

// log Σ x
Operator reduce_log_sum() {
  return {.name = "ReduceLogSum",
          .since = {1, 11, 13, 18, 28}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.emit("Log", {reduce(e, "ReduceSum", e.x())})}; },
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

// m + log Σ e^(x − m) with m = max x, so that nothing overflows; 0 for an infinite m, as ∞ − ∞ is no number
Operator reduce_log_sum_exp() {
  return {.name = "ReduceLogSumExp",
          .since = {1, 11, 13, 18, 28}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Ints axes = e.attributes().ints("axes");
            if (axes.empty()) return {e.x()};
            const ValueId most = e.emit("ReduceMax", {e.x()}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
            const DType dtype = e.type(most).dtype;
            ValueId largest = most;
            if (is_float(dtype)) {
              const ValueId infinite = e.emit("Equal", {e.emit("Abs", {most}), e.scalar(std::numeric_limits<double>::infinity(), dtype)});
              largest = e.emit("Where", {infinite, e.scalar(0, dtype), most});
            }
            const ValueId sum = e.reduce_sum(e.emit("Exp", {e.sub(e.x(), largest)}), axes, true);
            const ValueId y = e.add(e.emit("Log", {sum}), largest);
            if (e.attributes().integer("keepdims") != 0) return {y};
            Shape shape = e.shape(y);
            for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) shape.dims.erase(shape.dims.begin() + *axis);
            return {e.reshape(y, shape)};
          },
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

// Σ x²
Operator reduce_sum_square() {
  return {.name = "ReduceSumSquare",
          .since = {1, 11, 13, 18}, .inputs = {1, 2}, .types = {{"T", types::wide_numbers}, {"I", types::integers_64}},
          .infer = infer_reduction,
          .follow = follow_reduction,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {reduce(e, "ReduceSum", e.mul(e.x(), e.x()))}; },
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

namespace {

void infer_arg(InferContext& c) {
  const Shape& x = c.shape(0);
  const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
  const bool keepdims = c.attributes().integer("keepdims", 1) != 0;
  if (x[axis] == 0) c.fail("x ", x, " has nothing along axis ", axis);
  Shape y = x;
  if (keepdims)
    y[axis] = 1;
  else
    y.dims.erase(y.dims.begin() + axis);
  Attributes& a = c.node().attributes;
  a.set("axis", std::int64_t{axis});
  a.set("keepdims", std::int64_t{keepdims});
  a.set("select_last_index", std::int64_t{a.integer("select_last_index", 0) != 0});
  c.set_output(0, DType::int64, std::move(y));
}

}  // namespace

// Place of the largest element along axis: the first of equals, or the last with select_last_index
Operator arg_max() {
  return {.name = "ArgMax",
          .since = {1, 11, 12, 13},
          .types = {{"T", types::numbers}},
          .infer = infer_arg,
          .follow = follow_reduction,
          .differentiate = zero_gradient,
          .precision = PrecisionRole::wide,
          .operands = {{"data"}}};
}

// Place of the largest of −x
Operator arg_min() {
  return {.name = "ArgMin",
          .since = {1, 11, 12, 13},
          .types = {{"T", types::numbers}},
          .infer = infer_arg,
          .follow = follow_reduction,
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.emit("ArgMax", {e.neg(e.x())}, e.attributes())}; },
          .precision = PrecisionRole::parts,
          .operands = {{"data"}}};
}

}  // namespace tandem::operator_rows
