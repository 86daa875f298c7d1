// Writing by indices: ScatterND takes rows of x, ScatterElements single elements. What is written to one place several times is
// combined in the order of the indices, by the reduction or, without one, by keeping the last.
#include "graph/operators/fold.h"
#include "graph/operators/index_rows.h"

namespace tandem::operator_rows {
namespace {

void settle_reduction(InferContext& c) {
  const std::string reduction = c.attributes().text("reduction", "none");
  for (const char* known : {"none", "add", "mul", "max", "min"})
    if (reduction == known) return c.node().attributes.set("reduction", reduction);
  c.fail("reduction is '", reduction, "', expected none, add, mul, max or min");
}

bool adds(const Attributes& a) { return a.text("reduction", "none") == "add"; }

template <class T>
T combined(T y, T u, std::string_view reduction) {
  if (reduction == "add") return static_cast<T>(wrapping(y) + wrapping(u));
  if (reduction == "mul") return static_cast<T>(wrapping(y) * wrapping(u));
  if (reduction == "max") return u > y || u != u ? u : y;
  if (reduction == "min") return u < y || u != u ? u : y;
  return u;
}

// y = x with row i of `inner` updates at target(i).
template <class Target>
Folded fold_rows(const FoldContext& c, std::int64_t count, std::int64_t inner, const Target& target) {
  const std::string reduction = c.node.attributes.text("reduction");
  return visit_foldable_or_boolean(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    Tensor out = c.inputs[0];
    const auto y = out.write<T>();
    const auto u = c.inputs[2].values<T>();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = target(i);
      if (row < 0) fail(c.node.op->name, " '", c.node.name, "': an index is outside of ", c.inputs[0].type());
      for (std::int64_t j = 0; j < inner; ++j) {
        T& to = y[static_cast<std::size_t>(row * inner + j)];
        to = combined(to, u[static_cast<std::size_t>(i * inner + j)], reduction);
      }
    }
    return std::vector{out};
  });
}

Folded fold_scatter_nd(const FoldContext& c) {
  const IndexedRows r = indexed_rows(c.inputs[0].shape(), c.inputs[1].shape(), static_cast<int>(c.node.attributes.integer("batch_dims")));
  const std::int64_t* tuples = c.inputs[1].values<std::int64_t>().data();
  return fold_rows(c, r.count, r.inner, [&](std::int64_t i) {
    const std::int64_t row = row_of(tuples + i * r.within.rank(), r.within);
    return row < 0 ? row : i / (r.count / r.parts) * r.within.elements() + row;
  });
}

Folded fold_scatter_elements(const FoldContext& c) {
  const Shape &x = c.inputs[0].shape(), &u = c.inputs[1].shape();
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  const Ints strides = row_major_strides(x), indices = c.inputs[1].to_int64s();
  return fold_rows(c, u.elements(), 1, [&](std::int64_t i) -> std::int64_t {
    std::int64_t index = indices[static_cast<std::size_t>(i)], to = 0;
    if (index < 0) index += x[axis];
    if (index < 0 || index >= x[axis]) return -1;
    for (int d = u.rank() - 1; d >= 0; --d) {
      to += (d == axis ? index : i % u[d]) * strides[at(d)];
      i /= u[d];
    }
    return to;
  });
}

// Where all operands hold the samples, whose axis in operand i is axes[i] (-1: it holds none of them): those without are repeated.
void follow_alike(FollowContext& c, const BatchPlace& place, const int (&axes)[3]) {
  for (int i = 0; i < 3; ++i) {
    const BatchPlace own{.axis = axes[i], .outer = place.outer};
    if (c.place(i).present() && c.place(i) != own) c.fail("its operands hold the samples at different places: samples would meet");
    if (!c.place(i).present() && axes[i] >= 0) c.repeat(i, axes[i], place.outer);
  }
  c.set(0, {.axis = axes[0], .outer = place.outer});
}

void follow_scatter_nd(FollowContext& c) {
  const int b = static_cast<int>(c.attributes().integer("batch_dims")), last = c.x(1).rank() - 1,
            behind = b + static_cast<int>(c.x(1)[last]);
  const int first = c.place(0).present() ? 0 : c.place(1).present() ? 1 : 2;
  const BatchPlace place = c.place(first);
  if (place.axis < b) return follow_alike(c, place, {place.axis, place.axis, place.axis});
  const int axis = first == 0 ? place.axis : first == 2 && place.axis >= last ? place.axis - last + behind : -1;
  if (axis < behind) c.fail("samples would write to the same: they lie along axis ", place.axis, " of input ", first, ' ', c.x(first));
  follow_alike(c, place, {axis, -1, axis - behind + last});
}

void follow_scatter_elements(FollowContext& c) {
  const int first = c.place(0).present() ? 0 : c.place(1).present() ? 1 : 2;
  const BatchPlace place = c.place(first);
  if (place.axis == static_cast<int>(c.attributes().integer("axis")))
    c.fail("samples would write to the same: they lie along axis ", place.axis, " of input ", first, ' ', c.x(first));
  if (c.x(0)[place.axis] != c.x(1)[place.axis])
    c.fail("data ", c.x(0), " and indices ", c.x(1), " differ along axis ", place.axis, ", which holds the samples");
  follow_alike(c, place, {place.axis, place.axis, place.axis});
}

// What parts of the updates add is an addend of the result, and x that of one device.
bool place_addends(PlaceContext& c, int first, int last) {
  const BatchPlace place = c.split(1) ? c.place(1) : c.place(2);
  if (!adds(c.attributes()) || c.split(0) || place.axis < first || place.axis >= last) return false;
  for (const int i : {1, 2}) {
    if (c.split(i) && c.place(i) != place) c.fail("its operands are split at different places");
    if (!c.split(i)) c.need(i, place);
  }
  c.once(0);
  c.sum(0);
  return true;
}

void place_scatter_nd(PlaceContext& c) {
  if (!place_addends(c, static_cast<int>(c.attributes().integer("batch_dims")), c.x(1).rank() - 1)) follow_scatter_nd(c);
}

void place_scatter_elements(PlaceContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  if (!place_addends(c, axis, axis + 1)) follow_scatter_elements(c);
}

// What a scatter's gradient is made of: the same scatter of other values, and what its indices pick.
struct Parts {
  GradientContext& g;
  bool elements;

  ValueId scatter(ValueId x, ValueId u, const char* reduction) const {
    Attributes a = g.attributes();
    a.set("reduction", std::string(reduction));
    return g.emit(elements ? "ScatterElements" : "ScatterND", {x, g.x(1), u}, a);
  }
  ValueId gather(ValueId x) const {
    if (!elements) return g.emit("GatherND", {x, g.x(1)}, {{"batch_dims", g.attributes().integer("batch_dims")}});
    const int axis = static_cast<int>(g.attributes().integer("axis"));
    const Shape u = g.shape(g.x(1));
    for (int i = 0; i < u.rank(); ++i)
      if (i != axis) x = slice_axis(g, x, i, 0, u[i]);
    return g.emit("GatherElements", {x, g.x(1)}, {{"axis", std::int64_t{axis}}});
  }
  ValueId filled(ValueId like, double value) const { return g.broadcast_to(g.scalar(value, g.type(like).dtype), g.shape(like)); }
  ValueId is(ValueId a, ValueId b) const { return g.emit("Equal", {a, b}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) const { return g.emit("Where", {condition, a, b}); }
};

// y = x Π u: dx = dy · (1 Π u'), with x replaced by 1; du = dy[i] · Π of the other factors, a zero among which is left out by hand.
void differentiate_product(const Parts& p) {
  GradientContext& g = p.g;
  const ValueId x = g.x(0), u = g.x(2), zero = g.scalar(0, g.type(x).dtype), one = g.scalar(1, g.type(x).dtype);
  if (g.wants(0)) g.set_dx(0, g.mul(g.dy(), p.scatter(p.filled(x, 1), u, "mul")));
  if (!g.wants(2)) return;
  const ValueId is_zero = p.is(u, zero), nonzero = p.where(is_zero, one, u);
  const ValueId zeros = p.gather(p.scatter(p.filled(x, 0), cast(g, is_zero, g.type(x).dtype), "add"));  // at the same place
  const ValueId others = g.div(p.gather(p.scatter(x, nonzero, "mul")), nonzero);
  const ValueId alone = g.sub(zeros, cast(g, is_zero, g.type(x).dtype));  // zeros among the other factors
  g.set_dx(2, g.mul(p.gather(g.dy()), p.where(p.is(alone, zero), others, zero)));
}

// Those that are as large as the largest share its gradient.
void differentiate_extremum(const Parts& p) {
  GradientContext& g = p.g;
  const DType dtype = g.type(g.x(0)).dtype;
  const ValueId x_is = cast(g, p.is(g.x(0), g.y()), dtype), u_is = cast(g, p.is(g.x(2), p.gather(g.y())), dtype);
  const ValueId share = g.div(g.dy(), p.scatter(x_is, u_is, "add"));
  if (g.wants(0)) g.set_dx(0, g.mul(x_is, share));
  if (g.wants(2)) g.set_dx(2, g.mul(u_is, p.gather(share)));
}

void differentiate(GradientContext& g, bool elements) {
  const Parts p{g, elements};
  const std::string reduction = g.attributes().text("reduction");
  if (reduction == "mul") return differentiate_product(p);
  if (reduction == "max" || reduction == "min") return differentiate_extremum(p);
  if (g.wants(0)) g.set_dx(0, reduction == "add" ? g.dy() : p.scatter(g.dy(), p.filled(g.x(2), 0), "none"));
  if (g.wants(2)) g.set_dx(2, p.gather(g.dy()));
}

}  // namespace

// y = x, but y[indices[i...]] = updates[i...], or what the reduction makes of both. `batch_dims` is ours: as GatherND's
Operator scatter_nd() {
  return {.name = "ScatterND",
          .since = {11, 13, 16, 18}, .inputs = {3, 3}, .types = {{"T", types::all}, {"I", types::integers_64}, {"T", types::all}},
          .infer =
              [](InferContext& c) {
                settle_reduction(c);
                expect_shape(c, 2, infer_indexed_rows(c));
                expect_dtype(c, 2, c.input(0).dtype);
                infer_same(c);
              },
          .follow = follow_scatter_nd,
          .place = place_scatter_nd,
          .differentiate = [](GradientContext& g) { differentiate(g, false); },
          .fold = fold_scatter_nd,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::view}, {"indices", OperandRole::index}, {"updates", OperandRole::view}}};
}

// y = x, but y[indices[i, j, k], j, k] = updates[i, j, k] where axis is 0, and so on
Operator scatter_elements() {
  return {.name = "ScatterElements",
          .since = {11, 13, 16, 18}, .inputs = {3, 3}, .types = {{"T", types::all}, {"Tind", types::indices}, {"T", types::all}},
          .infer =
              [](InferContext& c) {
                const Shape &x = c.shape(0), &indices = c.shape(1);
                const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
                if (c.input(1).dtype != DType::int64 && c.input(1).dtype != DType::int32)
                  c.fail("indices are ", c.input(1), ", expected int32 or int64");
                settle_reduction(c);
                expect_rank(c, 1, x.rank());
                expect_shape(c, 2, indices);
                expect_dtype(c, 2, c.input(0).dtype);
                for (int i = 0; i < x.rank(); ++i)
                  if (i != axis && indices[i] > x[i]) c.fail("indices ", indices, " reach beyond data ", x, " along axis ", i);
                c.node().attributes.set("axis", std::int64_t{axis});
                infer_same(c);
              },
          .follow = follow_scatter_elements,
          .place = place_scatter_elements,
          .differentiate = [](GradientContext& g) { differentiate(g, true); },
          .fold = fold_scatter_elements,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::view}, {"indices", OperandRole::index}, {"updates", OperandRole::view}}};
}

}  // namespace tandem::operator_rows
