// Values that are known when the plan is made.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

Tensor constant_value(const Attributes& a) {
  if (a.has("value")) return a.tensor("value");
  if (a.has("value_float")) return Tensor::scalar(a.real("value_float"));
  if (a.has("value_int")) return Tensor::scalar(a.integer("value_int"));
  if (a.has("value_floats"))
    return Tensor::of<float>(Shape{static_cast<std::int64_t>(a.floats("value_floats").size())},
                             std::span<const float>(a.floats("value_floats")));
  if (a.has("value_ints"))
    return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(a.ints("value_ints").size())},
                                    std::span<const std::int64_t>(a.ints("value_ints")));
  fail("holds no number: only value, value_float, value_floats, value_int and value_ints are supported");
}

Tensor fill_value(const Attributes& a) {
  if (!a.has("value")) return Tensor::scalar(0.0F);
  const Tensor& value = a.tensor("value");
  if (value.elements() != 1) fail("value has ", value.elements(), " elements, expected 1");
  return value.reshaped(Shape{});
}

Tensor shape_tensor(const Shape& x, const Attributes& a) {
  const std::int64_t rank = x.rank();
  const auto clamp = [&](std::int64_t v) { return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const std::int64_t start = clamp(a.integer("start", 0)), end = std::max(start, clamp(a.integer("end", rank)));
  return Tensor::of<std::int64_t>(Shape{end - start}, std::span<const std::int64_t>(x.dims).subspan(static_cast<std::size_t>(start),
                                                                                                    static_cast<std::size_t>(end - start)));
}

// start, start + delta, ... while before limit
template <class T>
std::int64_t range_length(T start, T limit, T delta) {
  if (delta == 0) fail("delta is 0");
  const double n = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
  if (!(n < 2147483648.0)) fail("has ", n, " elements, expected fewer than 2^31");
  return n > 0 ? static_cast<std::int64_t>(n) : 0;
}

bool is_half(DType t) { return t == DType::float16 || t == DType::bfloat16; }
Tensor widened(const Tensor& t) { return is_half(t.dtype()) ? t.cast(DType::float32) : t; }

Folded range_tensor(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (is_half(start.dtype())) return std::vector{(*range_tensor(widened(start), widened(limit), widened(delta)))[0].cast(start.dtype())};
  return visit_foldable(start.dtype(), [&]<class T>() -> Folded {
    const T first = start.values<T>()[0], step = delta.values<T>()[0];
    const std::int64_t n = range_length(first, limit.values<T>()[0], step);
    Tensor out(TensorType{start.dtype(), Shape{n}});
    const auto y = out.write<T>();
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(wrapping(first) + wrapping(static_cast<T>(i)) * wrapping(step));
    return std::vector{out};
  });
}

void infer_range(InferContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (!c.constant(i)) c.fail("start, limit and delta must be known when the plan is made");
    expect_dtype(c, i, c.input(0).dtype);
    if (c.shape(i).elements() != 1) c.fail("input ", i, " is ", c.input(i), ", expected one number");
  }
  std::int64_t n = -1;
  const Tensor start = widened(*c.constant(0)), limit = widened(*c.constant(1)), delta = widened(*c.constant(2));
  visit_foldable(start.dtype(), [&]<class T>() -> Folded {
    n = range_length(start.values<T>()[0], limit.values<T>()[0], delta.values<T>()[0]);
    return std::nullopt;
  });
  if (n < 0) c.fail("counts in ", c.input(0).dtype, ", which is not supported");
  c.set_output(0, c.input(0).dtype, Shape{n});
}

ValueId known(ExpandContext& e, Tensor value) { return e.graph().add_constant(e.node().name + "/value", std::move(value)); }

}  // namespace

Operator constant() {
  return {.name = "Constant",
          .since = {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, .inputs = {0, 0},
          .infer = [](InferContext& c) { c.set_output(0, constant_value(c.attributes()).type()); },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {known(e, constant_value(e.attributes()))}; },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{constant_value(c.node.attributes)}; },
          .precision = PrecisionRole::parts};
}

Operator constant_of_shape() {
  return {.name = "ConstantOfShape",
          .since = {9, 20, 21, 23, 24, 25}, .types = {{"T1", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (!c.attributes().has("shape")) c.fail("shape must be known when the plan is made");
                c.set_output(0, fill_value(c.attributes()).dtype(), Shape(static_ints(c.attributes(), "shape")));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.broadcast_to(known(e, fill_value(e.attributes())), Shape(static_ints(e.attributes(), "shape")))};
          },
          .fold = [](const FoldContext& c) -> Folded {
            const Shape& shape = c.outputs[0].shape;
            return std::vector{strided_copy(fill_value(c.node.attributes), shape, 0, Ints(at(shape.rank()), 0))};
          },
          .static_operands = {{0, "shape"}},
          .precision = PrecisionRole::parts};
}

Operator range() {
  return {.name = "Range",
          .since = {11, 27}, .inputs = {3, 3}, .types = {{"T", types::signed_numbers}},
          .infer = infer_range,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const auto data = [&](int i) { return *e.graph()[e.x(i)].data; };
            return {known(e, (*range_tensor(data(0), data(1), data(2)))[0])};
          },
          .fold = [](const FoldContext& c) -> Folded { return range_tensor(c.inputs[0], c.inputs[1], c.inputs[2]); },
          .precision = PrecisionRole::parts, .operands = {{"start"}, {"limit"}, {"delta"}}};
}

Operator shape_operator() {
  return {.name = "Shape",
          .since = {1, 13, 15, 19, 21, 23, 24, 25}, .types = {{"T", types::stored}},
          .infer = [](InferContext& c) { c.set_output(0, shape_tensor(c.shape(0), c.attributes()).type()); },
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {known(e, shape_tensor(e.shape(e.x()), e.attributes()))}; },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{shape_tensor(c.input_types[0].shape, c.node.attributes)}; },
          .folds_types = true,
          .precision = PrecisionRole::parts, .operands = {{"data", OperandRole::index}}};
}

Operator size_operator() {
  return {.name = "Size",
          .since = {1, 13, 19, 21, 23, 24, 25}, .types = {{"T", types::stored}},
          .infer = [](InferContext& c) { c.set_output(0, DType::int64, Shape{}); },
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {known(e, Tensor::scalar(e.shape(e.x()).elements()))}; },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{Tensor::scalar(c.input_types[0].shape.elements())}; },
          .folds_types = true,
          .precision = PrecisionRole::parts, .operands = {{"data", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
