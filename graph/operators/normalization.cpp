// Normalisations over parts of one sample, composed of reductions and elementwise steps.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

struct Normalized {
  ValueId y, mean, inverse_deviation;
};

// (x − mean) / √(variance + ε) over `axes`
Normalized normalize(GraphBuilder& b, ValueId x, const Ints& axes, double epsilon) {
  const auto mean_of = [&](ValueId v) {
    return axes.empty() ? v : b.emit("ReduceMean", {v}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  };
  const ValueId mean = mean_of(x);
  const ValueId centred = b.sub(x, mean);
  const ValueId variance = mean_of(b.mul(centred, centred));
  const ValueId inverse = b.emit("Reciprocal", {b.emit("Sqrt", {b.add(variance, epsilon)})});
  return {b.mul(centred, inverse), mean, inverse};
}

Ints axes_from(int first, int rank) {
  const Ints all = all_axes(rank);
  return {all.begin() + first, all.end()};
}

int first_axis(const Attributes& attributes, int rank) { return normalize_axis(attributes.integer("axis", -1), rank, "axis"); }

// x[N,C,...] as [N,G,everything of the group], normalised, back in x's shape
ValueId normalize_groups(GraphBuilder& b, ValueId x, std::int64_t groups, double epsilon) {
  const Shape shape = b.shape(x);
  const std::int64_t rest = product(shape, 1, shape.rank()) / std::max<std::int64_t>(1, groups);
  const ValueId flat = b.reshape(x, Shape{shape[0], groups, rest});
  return b.reshape(normalize(b, flat, {2}, epsilon).y, shape);
}

void infer_channels(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
  for (int i = 1; i < 3; ++i) expect_shape(c, i, Shape{x[1]});
  infer_same(c);
}

void infer_layer(InferContext& c) {
  const int rank = c.shape(0).rank();
  const int axis = axis_of(c, c.attributes().integer("axis", -1), rank);
  for (int i = 1; i < c.inputs(); ++i)
    if (c.has_input(i) && broadcast_inputs(c, 0, i + 1) != c.shape(0))
      c.fail("input ", i, " is ", c.input(i), ", which does not broadcast to x ", c.shape(0));
  infer_same(c);
  Shape statistics = c.shape(0);
  for (int i = axis; i < rank; ++i) statistics[i] = 1;
  for (int i = 1; i < 3; ++i) c.set_output(i, c.input(0).dtype, statistics);
}

void follow_last_axes(FollowContext& c) {
  if (c.place().axis >= first_axis(c.attributes(), c.x().rank()))
    c.fail("it normalises axis ", c.place().axis, ", which holds the samples");
  only_operand(c, 0);
  c.set_all(c.place());
}

void follow_normalized_axes(FollowContext& c) {
  for (const std::int64_t axis : c.attributes().ints("axes"))
    if (axis == c.place().axis) c.fail("it normalises axis ", axis, ", which holds the samples");
  c.set(0, c.place());
}

}  // namespace

// Per sample and channel over the spatial axes, then · scale[C] + bias[C]
Operator instance_normalization() {
  return {.name = "InstanceNormalization",
          .since = {1, 6, 22},
          .inputs = {3, 3},
          .types = {{"T", types::floats}},
          .infer = infer_channels,
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const int rank = e.shape(e.x()).rank();
            const ValueId normal = normalize(e, e.x(), axes_from(2, rank), e.attributes().real("epsilon", 1e-5F)).y;
            return {e.add(e.mul(normal, per_channel(e, e.x(1), rank)), per_channel(e, e.x(2), rank))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"input"}, {"scale", OperandRole::scale}, {"B", OperandRole::bias}}};
}

// Per sample and group of channels, then · scale[C] + bias[C] (before opset 21: scale[G], bias[G])
Operator group_normalization() {
  return {.name = "GroupNormalization",
          .since = {18, 21}, .inputs = {3, 3}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                const Shape& x = c.shape(0);
                const std::int64_t groups = c.attributes().integer("num_groups");
                if (x.rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
                if (groups < 1 || x[1] % groups != 0) c.fail("num_groups is ", groups, ", which does not divide ", x[1], " channels");
                for (int i = 1; i < 3; ++i)
                  if (c.shape(i) != Shape{x[1]} && c.shape(i) != Shape{groups})
                    c.fail("input ", i, " is ", c.input(i), ", expected [", x[1], "]");
                infer_same(c);
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape x = e.shape(e.x());
            const std::int64_t groups = e.attributes().integer("num_groups");
            const ValueId normal = normalize_groups(e, e.x(), groups, e.attributes().real("epsilon", 1e-5F));
            const auto spread = [&](ValueId v) {
              if (e.shape(v) == Shape{x[1]}) return per_channel(e, v, x.rank());
              const ValueId rows = e.broadcast_to(e.reshape(v, Shape{groups, 1}), Shape{groups, x[1] / groups});
              return per_channel(e, e.reshape(rows, Shape{x[1]}), x.rank());
            };
            return {e.add(e.mul(normal, spread(e.x(1))), spread(e.x(2)))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::scale}, {"bias", OperandRole::bias}}};
}

// Over the axes from `axis` on, then · scale + bias; also gives the mean and 1/√(variance + ε). ONNX has it since opset 17; ONNX
// Runtime's optimizer writes it under ONNX's name into files of any opset.
Operator layer_normalization() {
  return {.name = "LayerNormalization",
          .since = {1, 17},
          .inputs = {2, 3},
          .outputs = {1, 3},
          .types = {{"T", types::floats}},
          .infer = infer_layer,
          .follow = follow_last_axes,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const int rank = e.shape(e.x()).rank();
            const Normalized n =
                normalize(e, e.x(), axes_from(first_axis(e.attributes(), rank), rank), e.attributes().real("epsilon", 1e-5F));
            ValueId y = e.mul(n.y, e.x(1));
            if (e.has_x(2)) y = e.add(y, e.x(2));
            std::vector<ValueId> results{y, n.mean, n.inverse_deviation};
            results.resize(e.node().outputs.size());
            return results;
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"Scale", OperandRole::scale}, {"B", OperandRole::bias}}};
}

// x / √(mean(x²) + ε) over the axes from `axis` on, · scale
Operator rms_normalization() {
  return {.name = "RMSNormalization",
          .since = {23},
          .inputs = {2, 2},
          .types = {{"T", types::floats}, {"V", types::floats}},
          .infer = infer_layer,
          .follow = follow_last_axes,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const int rank = e.shape(e.x()).rank();
            const ValueId square = e.emit("ReduceMean", {e.mul(e.x(), e.x())},
                                          {{"axes", axes_from(first_axis(e.attributes(), rank), rank)}, {"keepdims", std::int64_t{1}}});
            const ValueId root = e.emit("Sqrt", {e.add(square, e.attributes().real("epsilon", 1e-5F))});
            return {e.mul(e.div(e.x(), root), e.x(1))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::scale}}};
}

// x / (Σ |x|ᵖ)^(1/p) along an axis, p = 1 or 2; lines of zeros stay zero, and so is the gradient of their length.
Operator lp_normalization() {
  return {.name = "LpNormalization",
          .since = {1, 22}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                const std::int64_t p = c.attributes().integer("p", 2);
                if (p != 1 && p != 2) c.fail("p is ", p, ", expected 1 or 2");
                c.node().attributes.set("axis", std::int64_t{axis_of(c, c.attributes().integer("axis", -1), c.shape(0).rank())});
                infer_same(c);
              },
          .follow = follow_along_axis,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const bool square = e.attributes().integer("p", 2) == 2;
            const DType dtype = e.type(e.x()).dtype;
            const ValueId terms = square ? e.mul(e.x(), e.x()) : e.emit("Abs", {e.x()});
            const ValueId sum = e.reduce_sum(terms, {e.attributes().integer("axis")}, true);
            const ValueId some = e.emit("Where", {e.emit("Equal", {sum, e.scalar(0, dtype)}), e.scalar(1, dtype), sum});
            return {e.div(e.x(), square ? e.emit("Sqrt", {some}) : some)};
          },
          .precision = PrecisionRole::parts, .operands = {{"input"}}};
}

// (x − mean) / (deviation + 1e-9) over `axes`
Operator mean_variance_normalization() {
  return {.name = "MeanVarianceNormalization",
          .since = {9, 13},
          .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                c.node().attributes.set("axes", axes_of(c, c.attributes().ints("axes", {0, 2, 3}), c.shape(0).rank()));
                infer_same(c);
              },
          .follow = follow_normalized_axes,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const auto mean = [&](ValueId v) {
              return e.emit("ReduceMean", {v}, {{"axes", e.attributes().ints("axes")}, {"keepdims", std::int64_t{1}}});
            };
            const ValueId centred = e.sub(e.x(), mean(e.x()));
            return {e.div(centred, e.add(e.emit("Sqrt", {mean(e.mul(centred, centred))}), 1e-9))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
