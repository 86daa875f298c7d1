// Gemm has no kernel: it becomes an InnerProduct where its right factor is a weight, else a MatMul, with what is left of alpha, beta
// and the bias as steps of their own.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void infer_gemm(InferContext& c) {
  expect_rank(c, 0, 2);
  expect_rank(c, 1, 2);
  expect_dtype(c, 1, c.input(0).dtype);
  const bool ta = c.attributes().integer("transA", 0) != 0, tb = c.attributes().integer("transB", 0) != 0;
  const Shape &a = c.shape(0), &b = c.shape(1);
  const std::int64_t m = a[ta ? 1 : 0], k = a[ta ? 0 : 1], n = b[tb ? 0 : 1];
  if (b[tb ? 1 : 0] != k) c.fail("A ", a, ta ? " transposed" : "", " and B ", b, tb ? " transposed" : "", " do not multiply");
  const Shape y{m, n};
  if (c.has_input(2)) {
    expect_dtype(c, 2, c.input(0).dtype);
    if (broadcast_inputs(c, 2, 3).rank() > 2 || broadcast(c.shape(2), y) != y) c.fail("C ", c.shape(2), " does not broadcast to ", y);
  }
  c.set_output(0, c.input(0).dtype, y);
}

// InnerProduct by a weight known from step to step (its transpose is only another view), else MatMul. A bias of one
// number an output column goes with the InnerProduct; alpha, beta and other biases take their own steps.
std::vector<ValueId> expand_gemm(ExpandContext& e) {
  const Attributes& attributes = e.attributes();
  const std::int64_t ta = attributes.integer("transA", 0), tb = attributes.integer("transB", 0);
  const float alpha = attributes.real("alpha", 1), beta = attributes.real("beta", 1);
  const ValueKind kind = e.graph()[e.x(1)].kind;
  const std::int64_t n = e.shape(e.x(1))[tb ? 0 : 1];
  bool has_bias = e.has_x(2) && beta != 0;
  ValueId y;
  if (is_float(e.type(e.x(0)).dtype) && (kind == ValueKind::parameter || kind == ValueKind::constant)) {
    std::vector<ValueId> operands{ta ? e.transpose(e.x(0), {1, 0}) : e.x(0), tb ? e.x(1) : e.transpose(e.x(1), {1, 0})};
    if (has_bias && alpha == 1 && beta == 1) {
      const Shape c = e.shape(e.x(2));
      if (c == Shape{n} || c == Shape{1, n}) {
        operands.push_back(e.reshape(e.x(2), Shape{n}));
        has_bias = false;
      }
    }
    y = e.emit("InnerProduct", std::move(operands));
  } else {
    y = e.emit("MatMul", {e.x(0), e.x(1)}, {{"transA", ta}, {"transB", tb}});
  }
  if (alpha != 1) y = e.mul(y, alpha);
  if (has_bias) y = e.add(y, beta == 1 ? e.x(2) : e.mul(e.x(2), beta));
  return {y};
}

// Of A' · B': two a product.
double gemm_flops(const Graph& graph, const Node& n) {
  const Shape& a = graph[n.inputs[0]].type.shape;
  const std::int64_t k = a[n.attributes.integer("transA", 0) != 0 ? 0 : 1];
  return 2.0 * static_cast<double>(k) * static_cast<double>(graph[n.outputs[0]].type.shape.elements());
}

// Samples are rows of A' or columns of B'.
void follow_gemm(FollowContext& c) {
  const int rows = c.attributes().integer("transA", 0) != 0 ? 1 : 0, columns = c.attributes().integer("transB", 0) != 0 ? 0 : 1;
  BatchPlace place = follow_operands(c, 2, 3, c.y());
  const auto join = [&](int input, int axis, int to) {
    BatchPlace own = c.place(input);
    if (!own.present()) return;
    if (own.axis != axis) c.fail("it sums over axis ", own.axis, " of ", c.x(input), ", which holds the samples");
    own.axis = to;
    if (place.present() && place != own) c.fail("its operands hold the samples at different places: samples would meet");
    place = own;
  };
  join(0, rows, 0);
  join(1, columns, 1);
  if (c.has_input(2) && !c.place(2).present()) {
    const int axis = place.axis - (2 - c.x(2).rank());
    if (axis >= 0 && c.x(2)[axis] != 1) c.repeat(2, axis, place.outer);
  }
  // A first state that is alike for every sample, times a matrix, plus what differs.
  if (place.axis == 0 && !c.place(0).present()) c.repeat(0, rows, place.outer);
  if (place.axis == 1 && !c.place(1).present()) c.repeat(1, columns, place.outer);
  c.set(0, place);
}

}  // namespace

// y = alpha · A' · B' + beta · C, where ' transposes if transA, transB say so
Operator gemm() {
  return {.name = "Gemm",
          .since = {1, 6, 7, 9, 11, 13},
          .inputs = {2, 3},
          .types = {{"T", types::wide_numbers}},
          .infer = infer_gemm,
          .follow = follow_gemm,
          .expand = expand_gemm,
          .flops = gemm_flops,
          .precision = PrecisionRole::parts,
          .operands = {{"A", OperandRole::matrix}, {"B", OperandRole::matrix}, {"C", OperandRole::bias}}};
}

}  // namespace tandem::operator_rows
