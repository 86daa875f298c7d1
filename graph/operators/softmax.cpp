// Softmax and LogSoftmax along one axis; a loss behind them is computed from their operand (OutputKind). Hardmax is composed.
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

double softmax_flops(const Graph& graph, const Node& n) { return 5.0 * static_cast<double>(graph[n.outputs[0]].type.shape.elements()); }

}  // namespace

// y = eˣ / Σ eˣ along axis; dx = y · (dy − Σ dy · y)
Operator softmax() {
  return {.name = "Softmax",
          .since = {1, 11, 13}, .types = {{"T", types::floats}},
          .infer = infer_softmax,
          .follow = follow_along_axis,
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
