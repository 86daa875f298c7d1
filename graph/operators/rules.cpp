// Checks and small graph fragments that shape, gradient and expansion rules share.
#include "graph/operators/rules.h"

#include <algorithm>

namespace tandem {

Tensor bounded_tensor(const TensorType& type) {
  constexpr std::int64_t most = std::int64_t{1} << 29;  // bytes
  if (type.shape.elements() > most / static_cast<std::int64_t>(size_of(type.dtype)))
    fail("it needs a table of ", type, ", more than the ", most, " bytes allowed");
  return Tensor(type);
}

Ints static_ints(const Attributes& attributes, std::string_view name) {
  const AttributeValue* value = attributes.find(name);
  if (!value) fail("'", name, "' is missing, or not known when the plan is made");
  if (const auto* list = std::get_if<Ints>(value)) return *list;
  if (const auto* one = std::get_if<std::int64_t>(value)) return {*one};
  if (const auto* tensor = std::get_if<Tensor>(value)) return tensor->to_int64s();
  fail("'", name, "' is ", to_string(*value), ", expected integers");
}

Ints static_ints(const Attributes& attributes, std::string_view name, Ints absent) {
  return attributes.has(name) ? static_ints(attributes, name) : std::move(absent);
}

std::int64_t static_integer(const Attributes& attributes, std::string_view name, std::int64_t absent) {
  if (!attributes.has(name)) return absent;
  const Ints list = static_ints(attributes, name);
  if (list.size() != 1) fail("'", name, "' has ", list.size(), " entries, expected 1");
  return list[0];
}

double static_number(const Attributes& attributes, std::string_view name, double absent) {
  const AttributeValue* value = attributes.find(name);
  if (!value) return absent;
  if (const auto* real = std::get_if<float>(value)) return *real;
  if (const auto* one = std::get_if<std::int64_t>(value)) return static_cast<double>(*one);
  std::vector<double> list;
  if (const auto* floats = std::get_if<Floats>(value)) list.assign(floats->begin(), floats->end());
  if (const auto* ints = std::get_if<Ints>(value)) list.assign(ints->begin(), ints->end());
  if (const auto* tensor = std::get_if<Tensor>(value)) list = tensor->to_doubles();
  if (list.size() != 1) fail("'", name, "' is ", to_string(*value), ", expected one number");
  return list[0];
}

int axis_of(const InferContext& c, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) c.fail("axis ", axis, " is outside [", -rank, ",", rank - 1, "]");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Ints axes_of(const InferContext& c, const Ints& axes, int rank) {
  Ints out;
  for (const std::int64_t axis : axes) out.push_back(axis_of(c, axis, rank));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) c.fail("axes ", to_string(AttributeValue(axes)), " name one axis twice");
  return out;
}

Ints all_axes(int rank) {
  Ints axes(at(rank));
  for (int i = 0; i < rank; ++i) axes[at(i)] = i;
  return axes;
}

void expect_rank(const InferContext& c, int input, int rank) {
  if (c.shape(input).rank() != rank) c.fail("input ", input, " is ", c.input(input), ", expected rank ", rank);
}

void expect_shape(const InferContext& c, int input, const Shape& shape) {
  if (c.shape(input) != shape) c.fail("input ", input, " is ", c.input(input), ", expected shape ", shape);
}

void expect_dtype(const InferContext& c, int input, DType dtype) {
  if (c.input(input).dtype != dtype) c.fail("input ", input, " is ", c.input(input), ", expected ", dtype);
}

Shape broadcast_inputs(const InferContext& c, int first, int last) {
  Shape out = c.shape(first);
  for (int i = first + 1; i < last; ++i) {
    try {
      out = broadcast(out, c.shape(i));
    } catch (const Error& e) {
      c.fail(e.what());
    }
  }
  return out;
}

void infer_same(InferContext& c) { c.set_output(0, c.input(0)); }

void infer_broadcast(InferContext& c) {
  for (int i = 1; i < c.inputs(); ++i) expect_dtype(c, i, c.input(0).dtype);
  c.set_output(0, c.input(0).dtype, broadcast_inputs(c, 0, c.inputs()));
}

void infer_comparison(InferContext& c) {
  expect_dtype(c, 1, c.input(0).dtype);
  c.set_output(0, DType::boolean, broadcast_inputs(c, 0, 2));
}

void zero_gradient(GradientContext&) {}

Shape with_dim(Shape shape, int axis, std::int64_t size) {
  shape[axis] = size;
  return shape;
}

std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t n = 1;
  for (int i = first; i < last; ++i) n *= shape[i];
  return n;
}

ValueId slice_axis(GraphBuilder& b, ValueId x, int axis, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && end == b.shape(x)[axis]) return x;
  return b.emit("Slice", {x}, {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}, {"steps", Ints{1}}});
}

ValueId cast(GraphBuilder& b, ValueId x, DType to) {
  if (b.type(x).dtype == to) return x;
  return b.emit("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}

ValueId per_channel(GraphBuilder& b, ValueId x, int rank) {
  Shape shape(Ints(at(std::max(rank - 1, 1)), 1));
  shape[0] = b.shape(x).elements();
  return b.reshape(x, shape);
}

ValueId norm_of(GraphBuilder& b, ValueId sum, double p) {
  if (p == 1) return sum;
  const DType dtype = b.type(sum).dtype;
  const ValueId none = b.emit("Equal", {sum, b.scalar(0, dtype)});
  const ValueId base = b.emit("Where", {none, b.scalar(1, dtype), sum});
  return b.emit("Where", {none, b.scalar(0, dtype), p == 2 ? b.emit("Sqrt", {base}) : b.emit("Pow", {base, b.scalar(1 / p, dtype)})});
}

}  // namespace tandem
