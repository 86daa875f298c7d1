// Products of matrices, and of stacks of them that broadcast. Attributes transA and transB, which ONNX does not have, let a gradient
// multiply by a transposed operand without moving it.
#include <algorithm>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

bool transposed(const Attributes& attributes, const char* name) { return attributes.integer(name, 0) != 0; }

Shape swapped(Shape shape, bool swap) {
  if (swap && shape.rank() >= 2) std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return shape;
}

// numpy: a vector on the left is a row, on the right a column, and its axis leaves the result.
void infer_matmul(InferContext& c) {
  expect_dtype(c, 1, c.input(0).dtype);
  Shape a = swapped(c.shape(0), transposed(c.attributes(), "transA")), b = swapped(c.shape(1), transposed(c.attributes(), "transB"));
  if (a.rank() == 0 || b.rank() == 0) c.fail("operands are ", c.input(0), " and ", c.input(1), ", expected no scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.dims.insert(a.dims.begin(), 1);
  if (column) b.dims.push_back(1);
  const std::int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  if (b[b.rank() - 2] != k) c.fail("operands are ", c.shape(0), " and ", c.shape(1), ": ", k, " columns meet ", b[b.rank() - 2], " rows");
  Shape y;
  const Shape batch_a(Ints(a.begin(), a.end() - 2)), batch_b(Ints(b.begin(), b.end() - 2));
  try {
    y = broadcast(batch_a, batch_b);
  } catch (const Error& e) {
    c.fail(e.what());
  }
  if (!row) y.dims.push_back(m);
  if (!column) y.dims.push_back(n);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// Vectors become matrices; a two-dimensional parameter on the right makes it an InnerProduct over all rows of a.
// Integers are multiplied as doubles, exact up to 2^53.
std::vector<ValueId> expand_matmul(ExpandContext& e) {
  const DType dtype = e.type(e.x(0)).dtype;
  if (!is_float(dtype))
    return {cast(e, e.emit("MatMul", {cast(e, e.x(0), DType::float64), cast(e, e.x(1), DType::float64)}, e.attributes()), dtype)};
  const Shape a = e.shape(e.x(0)), b = e.shape(e.x(1));
  const bool ta = transposed(e.attributes(), "transA"), tb = transposed(e.attributes(), "transB");
  const bool weight =
      e.graph()[e.x(1)].kind == ValueKind::parameter && b.rank() == 2 && is_float(e.type(e.x(0)).dtype) && !(ta && a.rank() > 1);
  if (weight && a.elements() > 0) {
    const std::int64_t k = a[a.rank() - 1];
    const ValueId rows = e.reshape(e.x(0), Shape{a.elements() / k, k});
    const ValueId y = e.emit("InnerProduct", {rows, tb ? e.x(1) : e.transpose(e.x(1), {1, 0})});
    return {e.reshape(y, with_dim(a, a.rank() - 1, b[tb ? 0 : 1]))};
  }
  if (a.rank() > 1 && b.rank() > 1) return {};
  const ValueId left = a.rank() == 1 ? e.reshape(e.x(0), Shape{1, a[0]}) : e.x(0);
  const ValueId right = b.rank() == 1 ? e.reshape(e.x(1), Shape{b[0], 1}) : e.x(1);
  const ValueId y =
      e.emit("MatMul", {left, right}, {{"transA", std::int64_t{ta && a.rank() > 1}}, {"transB", std::int64_t{tb && b.rank() > 1}}});
  Shape shape = e.shape(y);
  if (a.rank() == 1) shape.dims.erase(shape.dims.end() - 2);
  if (b.rank() == 1) shape.dims.pop_back();
  return {e.reshape(y, shape)};
}

// With matrices A', B' as the node transposes them: dA' = dy · B'ᵀ, dB' = A'ᵀ · dy, summed over broadcast batches.
void differentiate_matmul(GradientContext& g) {
  const ValueId a = g.x(0), b = g.x(1), dy = g.dy();
  const bool ta = transposed(g.attributes(), "transA"), tb = transposed(g.attributes(), "transB");
  const auto product = [&](ValueId l, bool tl, ValueId r, bool tr) {
    return g.emit("MatMul", {l, r}, {{"transA", std::int64_t{tl}}, {"transB", std::int64_t{tr}}});
  };
  if (g.wants(0)) g.set_dx(0, g.sum_to(ta ? product(b, tb, dy, true) : product(dy, false, b, !tb), g.shape(a)));
  if (g.wants(1)) g.set_dx(1, g.sum_to(tb ? product(dy, true, a, ta) : product(a, !ta, dy, false), g.shape(b)));
}

// Samples are a stack of matrices, rows of a or columns of b; never what is summed over, nor rows and columns at once.
void follow_matmul(FollowContext& c) {
  const int rank_a = std::max(2, c.x(0).rank()), rank_b = std::max(2, c.x(1).rank()), rank = std::max(rank_a, rank_b);
  const int rows = transposed(c.attributes(), "transA") ? 1 : 2, columns = transposed(c.attributes(), "transB") ? 2 : 1;  // from the end
  Shape y = c.y();  // with the axes of vectors
  if (c.x(0).rank() == 1) y.dims.insert(y.dims.end() - (c.x(1).rank() == 1 ? 0 : 1), 1);
  if (c.x(1).rank() == 1) y.dims.push_back(1);
  BatchPlace place = follow_operands(c, 0, 2, y, 2);
  const auto join = [&](int input, int operand_rank, int kept, int to) {
    BatchPlace own = c.place(input);
    if (!own.present() || (c.x(input).rank() > 1 && own.axis < operand_rank - 2)) return;
    if (c.x(input).rank() == 1 || own.axis != operand_rank - kept)
      c.fail("it sums over axis ", own.axis, " of ", c.x(input), ", which holds the samples");
    if (place.present()) c.fail("its operands hold the samples at different places: samples would meet");
    own.axis = rank - to;
    place = own;
  };
  join(0, rank_a, rows, 2);
  join(1, rank_b, columns, 1);
  if (c.x(0).rank() == 1 && place.axis == rank - 1) --place.axis;
  c.set(0, place);
}

// Over the axis that it sums, split alike in both, each device has an addend.
void place_matmul(PlaceContext& c) {
  const int rank_a = c.x(0).rank(), rank_b = c.x(1).rank();
  const int columns = rank_a - (transposed(c.attributes(), "transA") ? 2 : 1),
            rows = rank_b - (transposed(c.attributes(), "transB") ? 1 : 2);
  const bool summed = rank_a > 1 && rank_b > 1 && c.split(0) && c.split(1) && c.place(0).axis == columns && c.place(1).axis == rows &&
                      c.place(0).outer == c.place(1).outer;
  return summed ? c.sum(0) : follow_matmul(c);
}

}  // namespace

Operator matmul() {
  return {.name = "MatMul",
          .since = {1, 9, 13}, .inputs = {2, 2}, .types = {{"T", types::wide_numbers}},
          .infer = infer_matmul,
          .follow = follow_matmul,
          .place = place_matmul,
          .linear = Linear::product,
          .differentiate = differentiate_matmul,
          .expand = expand_matmul,
          .flops =
              [](const Graph& graph, const Node& n) {
                const Shape& a = graph[n.inputs[0]].type.shape;
                const bool ta = transposed(n.attributes, "transA") && a.rank() > 1;
                const std::int64_t k = a.rank() == 0 ? 1 : a[ta ? a.rank() - 2 : a.rank() - 1];
                return 2.0 * static_cast<double>(graph[n.outputs[0]].type.shape.elements()) * static_cast<double>(k);
              },
          .precision = PrecisionRole::narrow,
          .operands = {{"A", OperandRole::matrix}, {"B", OperandRole::matrix}}};
}

}  // namespace tandem::operator_rows
