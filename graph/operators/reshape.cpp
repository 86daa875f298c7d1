// The same elements in another shape.
#include <algorithm>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

// In `wanted` 0 keeps x's dimension (unless allowzero) and one −1 takes what is left.
Shape reshaped(const InferContext& c, const Shape& x, const Ints& wanted, bool allowzero) {
  Shape y(wanted);
  int open = -1;
  for (int i = 0; i < y.rank(); ++i) {
    if (y[i] == 0 && !allowzero) {
      if (i >= x.rank()) c.fail("shape ", y, " keeps axis ", i, ", which x ", x, " does not have");
      y[i] = x[i];
    } else if (y[i] == -1) {
      if (open >= 0) c.fail("shape ", Shape(wanted), " has more than one -1");
      open = i;
    } else if (y[i] < 0) {
      c.fail("shape ", Shape(wanted), " holds ", y[i]);
    }
  }
  if (open >= 0) {
    y[open] = 1;
    const std::int64_t others = y.elements();
    if (others == 0 ? x.elements() != 0 : x.elements() % others != 0) c.fail("x ", x, " does not fit in shape ", Shape(wanted));
    y[open] = others == 0 ? 0 : x.elements() / others;
  }
  if (y.elements() != x.elements()) c.fail("x ", x, " does not fit in shape ", Shape(wanted));
  return y;
}

Shape flattened(const Shape& x, std::int64_t axis) {
  const int a = static_cast<int>(axis);
  return {product(x, 0, a), product(x, a, x.rank())};
}

// Without the axes of size 1 that are named, or all of them.
Shape squeezed(const Shape& x, const Ints& axes) {
  Shape y;
  for (int i = 0; i < x.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) y.dims.push_back(x[i]);
  return y;
}

Shape unsqueezed(const Shape& x, const Ints& sorted_axes) {
  Shape y = x;
  for (const std::int64_t axis : sorted_axes) y.dims.insert(y.dims.begin() + axis, 1);
  return y;
}

void follow_flatten(FollowContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis")), own = c.place().axis;
  const int first = own < axis ? 0 : axis;
  c.set(0, {.axis = own < axis ? 0 : 1, .outer = product(c.x(), first, own) * c.place().outer});
}

// An axis of samples that is squeezed out, in a file for one sample, goes on in another.
void follow_squeeze(FollowContext& c) {
  BatchPlace place = c.place();
  const Ints& axes = c.attributes().ints("axes");
  if (std::find(axes.begin(), axes.end(), place.axis) != axes.end()) return follow_view(c);
  place.axis -= static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](std::int64_t a) { return a < place.axis; }));
  c.set(0, place);
}

void follow_unsqueeze(FollowContext& c) {
  BatchPlace place = c.place();
  for (const std::int64_t axis : c.attributes().ints("axes"))
    if (axis <= place.axis) ++place.axis;
  c.set(0, place);
}

}  // namespace

Operator reshape() {
  return {.name = "Reshape",
          .since = {1, 5, 13, 14, 19, 21, 23, 24, 25}, .inputs = {2, 2}, .types = {{"T", types::stored}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (!c.attributes().has("shape")) c.fail("shape must be known when the plan is made");
                const Shape y = reshaped(c, c.shape(0), static_ints(c.attributes(), "shape"), c.attributes().integer("allowzero", 0) != 0);
                c.node().attributes.set("shape", y.dims);
                c.node().attributes.set("allowzero", std::int64_t{1});
                c.set_output(0, c.input(0).dtype, y);
              },
          .follow = follow_view,
          .linear = Linear::sum,
          .differentiate = [](GradientContext& g) { g.set_dx(g.reshape(g.dy(), g.shape(g.x()))); },
          .fold = fold_reshape,
          .static_operands = {{1, "shape"}},
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::unchanged}, {"shape", OperandRole::index}}};
}

Operator flatten() {
  return {.name = "Flatten",
          .since = {1, 9, 11, 13, 21, 23, 24, 25},
          .types = {{"T", types::stored}},
          .infer =
              [](InferContext& c) {
                const int rank = c.shape(0).rank();
                const std::int64_t axis = c.attributes().integer("axis", 1);
                if (axis < -rank || axis > rank) c.fail("axis ", axis, " is outside [", -rank, ",", rank, "]");
                const std::int64_t positive = axis < 0 ? axis + rank : axis;
                c.node().attributes.set("axis", positive);
                c.set_output(0, c.input(0).dtype, flattened(c.shape(0), positive));
              },
          .follow = follow_flatten,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.reshape(e.x(), flattened(e.shape(e.x()), e.attributes().integer("axis")))};
          },
          .fold = fold_reshape,
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::unchanged}}};
}

Operator squeeze() {
  return {.name = "Squeeze",
          .since = {1, 11, 13, 21, 23, 24, 25},
          .inputs = {1, 2},
          .types = {{"T", types::stored}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                const Shape& x = c.shape(0);
                if (c.has_input(1)) c.fail("axes must be known when the plan is made");
                Ints axes;
                if (c.attributes().has("axes")) {
                  axes = axes_of(c, static_ints(c.attributes(), "axes"), x.rank());
                } else {
                  for (int i = 0; i < x.rank(); ++i)
                    if (x[i] == 1) axes.push_back(i);
                }
                for (const std::int64_t axis : axes)
                  if (x[static_cast<int>(axis)] != 1) c.fail("axis ", axis, " of x ", x, " is not 1");
                c.node().attributes.set("axes", axes);
                c.set_output(0, c.input(0).dtype, squeezed(x, axes));
              },
          .follow = follow_squeeze,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.reshape(e.x(), squeezed(e.shape(e.x()), e.attributes().ints("axes")))};
          },
          .fold = fold_reshape,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts,
          .operands = {{"data", OperandRole::unchanged}, {"axes", OperandRole::index}}};
}

Operator unsqueeze() {
  return {.name = "Unsqueeze",
          .since = {1, 11, 13, 21, 23, 24, 25},
          .inputs = {1, 2},
          .types = {{"T", types::stored}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (!c.attributes().has("axes")) c.fail("axes must be known when the plan is made");
                const Ints given = static_ints(c.attributes(), "axes");
                const Ints axes = axes_of(c, given, c.shape(0).rank() + static_cast<int>(given.size()));
                c.node().attributes.set("axes", axes);
                c.set_output(0, c.input(0).dtype, unsqueezed(c.shape(0), axes));
              },
          .follow = follow_unsqueeze,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.reshape(e.x(), unsqueezed(e.shape(e.x()), e.attributes().ints("axes")))};
          },
          .fold = fold_reshape,
          .static_operands = {{1, "axes"}},
          .precision = PrecisionRole::parts,
          .operands = {{"data", OperandRole::unchanged}, {"axes", OperandRole::index}}};
}

Operator identity() {
  return {.name = "Identity",
          .since = {1, 13, 14, 16, 19, 21, 23, 24, 25}, .types = {{"V", types::stored}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.x()}; },
          .fold = fold_reshape,
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::unchanged}}};
}

}  // namespace tandem::operator_rows
