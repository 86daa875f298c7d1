// Softmax and LogSoftmax along one axis; a loss behind them is computed from their operand (OutputKind). Hardmax is composed.
#include <algorithm>
#include <numeric>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void infer_axis(InferContext& c) {
  const int rank = c.shape(0).rank();
  // A scalar has no axis; softmax of one number is over itself.
  const int axis = rank == 0 ? 0 : axis_of(c, c.attributes().integer("axis", -1), rank);
  c.node().attributes.set("axis", std::int64_t{axis});
  infer_same(c);
}

// Attribute `to`: y's type, where it is not x's (fold_casts).
void infer_softmax(InferContext& c) {
  infer_axis(c);
  if (c.attributes().has("to")) c.set_output(0, static_cast<DType>(c.attributes().integer("to")), c.shape(0));
}

// Of an axis that is split no device has all elements. What all have to know of it are two numbers, the largest m and Σ e^(x − m):
//   softmax = e^(x − m) / Σ e^(x − m),   log softmax = x − m − log Σ e^(x − m)
void normalize_over_parts(PartsContext& c) {
  const Part part = c.part(0);
  if (!part.is_split() || part.axis != c.node.attributes.integer("axis")) return;
  if (std::ranges::count(c.mesh.as(part).sizes, 0) > 0) {  // who has nothing has no largest element
    c.node.inputs[0] = c.devices.transfer(c.node.inputs[0], {}, c.mesh);
    return;
  }
  const LargestAlong all = largest_along(c, c.node.inputs[0], part.axis);
  const std::string of = c.graph()[c.node.inputs[0]].name;
  const auto each = [&](std::string_view op, std::vector<ValueId> in) { return c.emit_as(part, all.x, op, std::move(in)); };
  const ValueId below = each("Sub", {all.x, all.largest}), powers = each("Exp", {below});
  const Attributes along{{"axes", Ints{part.axis}}, {"keepdims", std::int64_t{1}}};
  const ValueId total = c.devices.sum(c.emit_as({Spread::partial}, all.x, "ReduceSum", {powers}, along), of);
  const bool logarithm = c.node.op->gives == OutputKind::log_softmax;
  const ValueId y = logarithm ? each("Sub", {below, c.emit_as({}, all.x, "Log", {total})}) : each("Div", {powers, total});
  const DType to = c.type(c.node.outputs[0]).dtype;
  c.results = {c.type(y).dtype == to ? y : c.emit_as(part, all.x, "Cast", {y}, {{"to", static_cast<std::int64_t>(to)}})};
}

double softmax_flops(const Graph& graph, const Node& n) { return 5.0 * static_cast<double>(graph[n.outputs[0]].type.shape.elements()); }

}  // namespace
}  // namespace tandem::operator_rows

tandem::LargestAlong tandem::largest_along(PartsContext& c, ValueId x, int axis) {
  const std::string key = concat("along ", axis, " of ", x.index);
  ValueId computed = c.devices.known(concat("computed ", key));
  if (!computed.present()) {
    const DType dtype = size_of(c.type(x).dtype) < 4 ? DType::float32 : c.type(x).dtype;
    computed = c.type(x).dtype == dtype ? x : c.emit_as(c.devices.part(x), x, "Cast", {x}, {{"to", static_cast<std::int64_t>(dtype)}});
    const ValueId own = c.emit_as({Spread::own}, x, "ReduceMax", {computed}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}});
    c.devices.known(concat("largest ", key)) = c.devices.largest(own, c.graph()[x].name);
    c.devices.known(concat("computed ", key)) = computed;
  }
  return {computed, c.devices.known(concat("largest ", key))};
}

namespace tandem::operator_rows {

// y = eˣ / Σ eˣ along axis; dx = y · (dy − Σ dy · y)
Operator softmax() {
  return {.name = "Softmax",
          .since = {1, 11, 13}, .types = {{"T", types::floats}},
          .infer = infer_softmax,
          .follow = follow_along_axis,
          .place = place_as_first,
          .by_parts = normalize_over_parts,
          .differentiate =
              [](GradientContext& g) {
                const ValueId inner = g.reduce_sum(g.mul(g.dy(), g.y()), {g.attributes().integer("axis")}, true);
                g.set_dx(g.mul(g.y(), g.sub(g.dy(), inner)));
              },
          .flops = softmax_flops,
          .precision = PrecisionRole::wide, .gives = OutputKind::softmax, .operands = {{"input"}}};
}

// y = x − log Σ eˣ along axis; dx = dy − eʸ · Σ dy
Operator log_softmax() {
  return {.name = "LogSoftmax",
          .since = {1, 11, 13}, .types = {{"T", types::floats}},
          .infer = infer_softmax,
          .follow = follow_along_axis,
          .place = place_as_first,
          .by_parts = normalize_over_parts,
          .differentiate =
              [](GradientContext& g) {
                const ValueId total = g.reduce_sum(g.dy(), {g.attributes().integer("axis")}, true);
                g.set_dx(g.sub(g.dy(), g.mul(g.emit("Exp", {g.y()}), total)));
              },
          .flops = softmax_flops,
          .precision = PrecisionRole::wide, .gives = OutputKind::log_softmax, .operands = {{"input"}}};
}

// y = 1 at the first largest element along axis, else 0
Operator hardmax() {
  return {.name = "Hardmax",
          .since = {1, 11, 13},
          .types = {{"T", types::floats}},
          .infer = infer_axis,
          .follow = follow_along_axis,
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType x = e.type(e.x());
            const std::int64_t axis = e.attributes().integer("axis");
            const ValueId largest =
                e.emit("ArgMax", {e.x()}, {{"axis", axis}, {"keepdims", std::int64_t{1}}, {"select_last_index", std::int64_t{0}}});
            Shape along(Ints(at(x.shape.rank()), 1));
            along[static_cast<int>(axis)] = x.shape[static_cast<int>(axis)];
            Tensor places = bounded_tensor({DType::int64, along});
            const auto values = places.write<std::int64_t>();
            std::iota(values.begin(), values.end(), 0);
            const ValueId equal = e.emit("Equal", {e.graph().add_constant(e.node().name + "/places", places), largest});
            return {cast(e, equal, x.dtype)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

}  // namespace tandem::operator_rows
