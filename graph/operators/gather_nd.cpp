// GatherND picks rows of x by tuples of coordinates. Its gradient adds what was picked to where it came from, in the order of the
// indices, so that equal runs give equal bits.
#include "graph/operators/fold.h"
#include "graph/operators/index_rows.h"

namespace tandem {

IndexedRows indexed_rows(const Shape& x, const Shape& indices, int batch_dims) {
  const int last = indices.rank() - 1, coordinates = static_cast<int>(indices[last]);
  IndexedRows r{.parts = product(x, 0, batch_dims), .count = product(indices, 0, last)};
  for (int i = 0; i < coordinates; ++i) r.within.dims.push_back(x[batch_dims + i]);
  r.rows = r.parts * r.within.elements();
  r.inner = product(x, batch_dims + coordinates, x.rank());
  return r;
}

Shape infer_indexed_rows(InferContext& c) {
  const Shape &x = c.shape(0), &indices = c.shape(1);
  const std::int64_t b = c.attributes().integer("batch_dims", 0);
  if (c.input(1).dtype != DType::int64) c.fail("indices are ", c.input(1), ", expected int64");
  if (x.rank() == 0 || indices.rank() == 0) c.fail("data ", x, " and indices ", indices, " must have an axis at least");
  if (b < 0 || b >= std::min(x.rank(), indices.rank())) c.fail("batch_dims is ", b, " for data ", x, " and indices ", indices);
  for (int i = 0; i < b; ++i)
    if (x[i] != indices[i]) c.fail("data ", x, " and indices ", indices, " differ along axis ", i, ", one of ", b, " batch_dims");
  const std::int64_t coordinates = indices[indices.rank() - 1];
  if (coordinates < 1 || coordinates > x.rank() - b)
    c.fail("indices ", indices, " have ", coordinates, " coordinates, expected 1 to ", x.rank() - b);
  c.node().attributes.set("batch_dims", b);
  Shape y(Ints(indices.begin(), indices.end() - 1));
  y.dims.insert(y.dims.end(), x.begin() + b + coordinates, x.end());
  return y;
}

namespace operator_rows {
namespace {

Folded fold_gather_nd(const FoldContext& c) {
  const Tensor& x = c.inputs[0];
  const Shape& indices = c.inputs[1].shape();
  const IndexedRows r = indexed_rows(x.shape(), indices, static_cast<int>(c.node.attributes.integer("batch_dims")));
  const std::size_t bytes = static_cast<std::size_t>(r.inner) * size_of(x.dtype());
  const std::int64_t* tuple = c.inputs[1].values<std::int64_t>().data();
  Tensor out(c.outputs[0]);
  std::byte* to = out.write().data();
  for (std::int64_t i = 0; i < r.count; ++i, tuple += r.within.rank(), to += bytes) {
    const std::int64_t row = row_of(tuple, r.within);
    if (row < 0) fail("GatherND '", c.node.name, "': an index is outside ", r.within);
    const std::byte* from = x.bytes().data() + static_cast<std::size_t>(i / (r.count / r.parts) * r.within.elements() + row) * bytes;
    std::copy(from, from + bytes, to);
  }
  return std::vector{out};
}

// Along batch_dims both hold the samples at the same place; behind them either x holds them where no coordinate reaches, or the
// indices do: then all pick from the same.
void follow_gather_nd(FollowContext& c) {
  const int b = static_cast<int>(c.attributes().integer("batch_dims")), last = c.x(1).rank() - 1,
            behind = b + static_cast<int>(c.x(1)[last]);
  BatchPlace place = c.place(0).present() ? c.place(0) : c.place(1);
  if (place.axis < b) {
    if (c.place(0).present() && c.place(1).present() && c.place(0) != c.place(1))
      c.fail("its operands hold the samples at different places: samples would meet");
    for (const int i : {0, 1})
      if (!c.place(i).present()) c.repeat(i, place.axis, place.outer);
  } else if (c.place(0).present()) {
    if (place.axis < behind) c.fail("it picks from axis ", place.axis, " of ", c.x(), ", which holds the samples");
    only_operand(c, 0);
    place.axis += last - behind;
  } else if (place.axis == last) {
    c.fail("the samples lie along axis ", last, " of its indices ", c.x(1), ", which holds coordinates");
  }
  c.set(0, place);
}

}  // namespace

// y[b..., i...] = x[b..., indices[b..., i...]]; dx adds the rows of dy to the places they came from
Operator gather_nd() {
  return {.name = "GatherND",
          .since = {11, 12, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(0).dtype, infer_indexed_rows(c)); },
          .follow = follow_gather_nd,
          .differentiate =
              [](GradientContext& g) {
                if (!g.wants(0)) return;
                const TensorType x = g.type(g.x(0));
                const ValueId zeros = g.broadcast_to(g.scalar(0, x.dtype), x.shape);
                g.set_dx(0, g.emit("ScatterND", {zeros, g.x(1), g.dy()},
                                   {{"batch_dims", g.attributes().integer("batch_dims")}, {"reduction", std::string("add")}}));
              },
          .fold = fold_gather_nd,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::embedding}, {"indices", OperandRole::index}}};
}

}  // namespace operator_rows
}  // namespace tandem
