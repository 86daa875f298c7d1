// OneHot and EyeLike: tensors that hold one value at a few places and another everywhere else.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

ValueId known(GraphBuilder& b, const std::string& name, Tensor value) { return b.graph().add_constant(name, std::move(value)); }

Tensor eye(const TensorType& type, std::int64_t k) {
  Tensor y(TensorType{DType::float64, type.shape});
  const auto values = y.write<double>();
  const std::int64_t rows = type.shape[0], columns = type.shape[1];
  for (std::int64_t i = 0; i < rows; ++i)
    if (k < columns && k > -rows && i + k >= 0 && i + k < columns) values[static_cast<std::size_t>(i * columns + i + k)] = 1;
  return y.cast(type.dtype);
}

}  // namespace

// y[..., d, ...] = values[1] where d is the index, negative ones counted from depth, else values[0]
Operator one_hot() {
  return {.name = "OneHot",
          .since = {9, 11}, .inputs = {3, 3}, .types = {{"T1", types::numbers}, {"T2", types::numbers}, {"T3", types::all}},
          .infer =
              [](InferContext& c) {
                Attributes& a = c.node().attributes;
                if (!a.has("depth")) c.fail("depth must be known when the plan is made");
                const double depth = static_number(a, "depth", 0);
                if (!(depth >= 0 && depth < 2147483648.0)) c.fail("depth is ", depth);
                if (c.has_input(1)) c.fail("depth must be known when the plan is made");
                expect_shape(c, 2, Shape{2});
                Shape y = c.shape(0);
                const int axis = axis_of(c, a.integer("axis", -1), y.rank() + 1);
                y.dims.insert(y.dims.begin() + axis, static_cast<std::int64_t>(depth));
                a.set("axis", std::int64_t{axis});
                a.set("depth", static_cast<std::int64_t>(depth));
                c.set_output(0, c.input(2).dtype, std::move(y));
              },
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                BatchPlace place = c.place();
                place.axis += place.axis >= static_cast<int>(c.attributes().integer("axis")) ? 1 : 0;
                c.set(0, place);
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const std::int64_t depth = e.attributes().integer("depth");
            const int axis = static_cast<int>(e.attributes().integer("axis"));
            Shape one = e.shape(e.x()), line(Ints(at(one.rank() + 1), 1));
            one.dims.insert(one.dims.begin() + axis, 1);
            line[axis] = depth;
            const ValueId given = e.reshape(cast(e, e.x(), DType::int64), one);
            const ValueId index =
                e.emit("Where", {e.emit("Less", {given, e.scalar(0, DType::int64)}), e.add(given, static_cast<double>(depth)), given});
            Tensor places = bounded_tensor({DType::int64, line});
            for (std::int64_t d = 0; d < depth; ++d) places.write<std::int64_t>()[static_cast<std::size_t>(d)] = d;
            const ValueId hot = e.emit("Equal", {index, known(e, e.node().name + "/places", std::move(places))});
            const auto value = [&](std::int64_t i) { return e.reshape(slice_axis(e, e.x(2), 0, i, i + 1), Shape{}); };
            return {e.emit("Where", {hot, value(1), value(0)})};
          },
          .static_operands = {{1, "depth"}},
          .precision = PrecisionRole::parts,
          .operands = {{"indices", OperandRole::index}, {"depth", OperandRole::index}, {"values"}}};
}

// y[i, i + k] = 1, else 0, in x's shape
Operator eye_like() {
  return {.name = "EyeLike",
          .since = {9, 22}, .types = {{"T1", types::all}},
          .infer =
              [](InferContext& c) {
                expect_rank(c, 0, 2);
                Attributes& a = c.node().attributes;
                const auto dtype = static_cast<DType>(a.integer("dtype", static_cast<std::int64_t>(c.input(0).dtype)));
                if (size_of(dtype) == 0) c.fail("dtype is ", static_cast<int>(dtype), ", which is not supported");
                a.set("dtype", static_cast<std::int64_t>(dtype));
                a.set("k", a.integer("k", 0));
                c.set_output(0, dtype, c.shape(0));
              },
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType y{static_cast<DType>(e.attributes().integer("dtype")), e.shape(e.x())};
            return {known(e, e.node().name + "/value", eye(y, e.attributes().integer("k")))};
          },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{eye(c.outputs[0], c.node.attributes.integer("k"))}; },
          .folds_types = true,
          .type_attribute = "dtype",
          .precision = PrecisionRole::parts, .operands = {{"input", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
