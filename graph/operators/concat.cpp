// Tensors joined along one axis.
#include <cstring>

#include "graph/operators/fold.h"
#include "graph/place.h"

namespace tandem::operator_rows {
namespace {

void infer_concat(InferContext& c) {
  Shape y = c.shape(0);
  const int axis = axis_of(c, c.attributes().integer("axis", 1), y.rank());
  for (int i = 1; i < c.inputs(); ++i) {
    expect_dtype(c, i, c.input(0).dtype);
    const Shape& x = c.shape(i);
    if (x.rank() != y.rank() || with_dim(x, axis, y[axis]) != y)
      c.fail("input ", i, " is ", c.input(i), ", which does not join ", c.input(0), " along axis ", axis);
    y[axis] += x[axis];
    if (y[axis] < 0 || y[axis] >= std::int64_t{1} << 48) c.fail("the result is too long along axis ", axis);
  }
  c.node().attributes.set("axis", std::int64_t{axis});
  c.set_output(0, c.input(0).dtype, std::move(y));
}

Folded fold_concat(const FoldContext& c) {
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  Tensor out(c.outputs[0]);
  const std::size_t size = size_of(out.dtype());
  std::byte* to = out.write().data();
  const std::int64_t outer = product(out.shape(), 0, axis);
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const Tensor& x : c.inputs) {
      const std::size_t bytes = static_cast<std::size_t>(product(x.shape(), axis, x.shape().rank())) * size;
      if (bytes > 0) std::memcpy(to, x.bytes().data() + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
  }
  return std::vector{out};
}

// Joined along the samples: runs of all of them lie one behind the other.
void follow_joined_runs(FollowContext& c, int axis) {
  BatchPlace joined{.axis = axis, .outer = 0};
  const std::int64_t run = c.x()[axis] / c.place().outer;
  for (int i = 0; i < c.inputs(); ++i) {
    if (c.place(i).axis != axis || c.x(i)[axis] != run * c.place(i).outer)
      c.fail("it joins along axis ", axis, ", which holds the samples of ", c.x(), ", what does not hold them so: ", c.x(i));
    joined.outer += c.place(i).outer;
  }
  c.set(0, joined);
}

// Samples lie at one place in all operands, along another axis than the joined one; those without are repeated.
void follow_concat(FollowContext& c) {
  BatchPlace place;
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  if (c.place().axis == axis) return follow_joined_runs(c, axis);
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.place(i).present()) continue;
    if (place.present() && c.place(i) != place) c.fail("its operands hold the samples at different places: samples would meet");
    place = c.place(i);
  }
  if (place.axis == axis) c.fail("it joins along axis ", axis, ", which holds the samples");
  for (int i = 0; i < c.inputs(); ++i)
    if (!c.place(i).present()) c.repeat(i, place.axis, place.outer);
  c.set(0, place);
}

// Parts of each operand's runs lie one behind the other.
void place_concat(PlaceContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  Ints joined;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.split(i, axis) || c.x(i)[axis] == 0) return follow_concat(c);
    const Ints own = c.runs(i);
    joined.insert(joined.end(), own.begin(), own.end());
  }
  c.set_runs(0, axis, std::move(joined));
}

}  // namespace

// dx(i) = the slice of dy that x(i) became
Operator concat() {
  return {.name = "Concat",
          .since = {1, 4, 11, 13},
          .inputs = {1, Arity::any},
          .types = {{"T", types::all}},
          .infer = infer_concat,
          .follow = follow_concat,
          .place = place_concat,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                const int axis = static_cast<int>(g.attributes().integer("axis"));
                std::int64_t begin = 0;
                for (int i = 0; i < g.inputs(); ++i) {
                  const std::int64_t end = begin + g.shape(g.x(i))[axis];
                  if (g.wants(i)) g.set_dx(i, slice_axis(g, g.dy(), axis, begin, end));
                  begin = end;
                }
              },
          .expand = [](ExpandContext& e) { return e.node().inputs.size() == 1 ? std::vector<ValueId>{e.x()} : std::vector<ValueId>{}; },
          .fold = fold_concat,
          .precision = PrecisionRole::follows,
          .operands = {{"inputs", OperandRole::view}}};
}

}  // namespace tandem::operator_rows
