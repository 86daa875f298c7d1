// Convolutions and products of integers of few bits, composed: exact in float64, in which no sum of such products rounds.
#include <limits>

#include "graph/operators/integer_arithmetic.h"

namespace tandem {

IntegerRange range_of(DType integers) {
  if (is_small_integer(integers)) {
    const int bits = bits_of(integers);
    const bool has_sign = integers == DType::int4 || integers == DType::int2;
    return {has_sign ? -(1 << (bits - 1)) : 0.0, (1 << (bits - (has_sign ? 1 : 0))) - 1.0};
  }
  return visit_number(integers, []<class T>() -> IntegerRange {
    return {static_cast<double>(std::numeric_limits<T>::lowest()), static_cast<double>(std::numeric_limits<T>::max())};
  });
}

ValueId along_axis(GraphBuilder& b, ValueId v, int axis, int rank) {
  const Shape s = b.shape(v);
  if (s.elements() == 1) return b.reshape(v, Shape{});
  if (s.rank() != 1) return v;
  Shape along(Ints(at(rank), 1));
  along[axis < 0 ? axis + rank : axis] = s[0];
  return b.reshape(v, along);
}

ValueId less_zero_point(ExpandContext& e, int input, int zero_point, int axis, DType to) {
  const ValueId x = cast(e, e.x(input), to);
  if (zero_point < 0 || !e.has_x(zero_point)) return x;
  return e.sub(x, along_axis(e, cast(e, e.x(zero_point), to), axis, e.shape(x).rank()));
}

namespace operator_rows {
namespace {

constexpr TypeSet bytes{DType::int8, DType::uint8};

// The shape that `op` gives for floats of these shapes; the node's attributes are left as its rule settles them.
Shape shape_as(InferContext& c, std::string_view op, const Shape& a, const Shape& b) {
  Graph graph;
  Node node{.op = &internal_operator(op), .name = c.node().name, .attributes = c.attributes()};
  for (const Shape& shape : {a, b}) node.inputs.push_back(graph.add_value({.type = {DType::float64, shape}}));
  node.outputs = {graph.add_value({})};
  InferContext context(graph, node);
  node.op->infer(context);
  c.node().attributes = node.attributes;
  return graph[node.outputs[0]].type.shape;
}

// One number, or a list of `most`, or (of matrices) as many axes as they have.
void expect_one_or(const InferContext& c, int input, std::int64_t most, int rank) {
  if (!c.has_input(input)) return;
  const Shape& s = c.shape(input);
  if (s.elements() == 1 || s == Shape{most} || (rank > 2 && s.rank() == rank)) return;
  c.fail("input ", input, " is ", c.input(input), ", expected one number or ", most);
}

std::int64_t rows_of(const Shape& a) { return a.rank() < 2 ? 1 : a[a.rank() - 2]; }
std::int64_t columns_of(const Shape& b) { return b.rank() < 2 ? 1 : b[b.rank() - 1]; }

void infer_matmul_integer(InferContext& c) {
  expect_one_or(c, 2, rows_of(c.shape(0)), c.shape(0).rank());
  expect_one_or(c, 3, columns_of(c.shape(1)), c.shape(1).rank());
  c.set_output(0, DType::int32, shape_as(c, "MatMul", c.shape(0), c.shape(1)));
}

void infer_conv_integer(InferContext& c) {
  expect_one_or(c, 2, 1, 0);
  const Shape y = shape_as(c, "Conv", c.shape(0), c.shape(1));
  expect_one_or(c, 3, c.shape(1)[0], 0);
  c.set_output(0, DType::int32, y);
}

void infer_qlinear_matmul(InferContext& c) {
  for (const int i : {1, 2}) expect_one_or(c, i, rows_of(c.shape(0)), c.shape(0).rank());
  for (const int i : {4, 5}) expect_one_or(c, i, columns_of(c.shape(3)), c.shape(3).rank());
  const Shape y = shape_as(c, "MatMul", c.shape(0), c.shape(3));
  for (const int i : {6, 7}) expect_one_or(c, i, rows_of(c.shape(0)), 0);
  c.set_output(0, c.input(7).dtype, y);
}

void infer_qlinear_conv(InferContext& c) {
  const Shape y = shape_as(c, "Conv", c.shape(0), c.shape(3));
  for (const int i : {1, 2, 6, 7}) expect_one_or(c, i, 1, 0);
  for (const int i : {4, 5}) expect_one_or(c, i, c.shape(3)[0], 0);
  if (c.has_input(8)) expect_shape(c, 8, Shape{c.shape(3)[0]});
  c.set_output(0, c.input(7).dtype, y);
}

// Of a stack of matrices or rows of a, never what is summed over; b holds none.
void follow_left_factor(FollowContext& c) {
  only_operand(c, 0);
  BatchPlace place = c.place();
  if (place.axis == c.x().rank() - 1) c.fail("it sums over axis ", place.axis, " of ", c.x(), ", which holds the samples");
  for (const int i : {1, 2})
    if (c.x(i).elements() != 1 && place.axis == c.x().rank() - 2)
      c.fail("its scales are different along axis ", place.axis, ", which holds the samples");
  place.axis += c.y().rank() - c.x().rank();
  c.set(0, place);
}

ValueId quantized(ExpandContext& e, ValueId sums, ValueId factor, int scale, int zero_point) {
  const DType wide = e.type(sums).dtype;
  const int rank = e.shape(sums).rank();
  const ValueId y = e.mul(sums, e.div(factor, along_axis(e, cast(e, e.x(scale), wide), -2, rank)));
  const Shape zeros = e.shape(e.x(zero_point));
  if (zeros.elements() == 1) return e.emit("QuantizeLinear", {y, e.scalar(1, wide), e.reshape(e.x(zero_point), Shape{})});
  return e.emit("QuantizeLinear", {y, e.broadcast_to(e.scalar(1, wide), zeros), e.x(zero_point)}, {{"axis", std::int64_t{rank - 2}}});
}

// Of integers as float64, which rounds no sum of their products.
ValueId multiply(ExpandContext& e, int b, int a_zero, int b_zero) {
  return e.emit("MatMul", {less_zero_point(e, 0, a_zero, -2, DType::float64), less_zero_point(e, b, b_zero, -1, DType::float64)});
}
ValueId convolve(ExpandContext& e, int w, int x_zero, int w_zero) {
  return e.emit("Conv", {less_zero_point(e, 0, x_zero, 0, DType::float64), less_zero_point(e, w, w_zero, 0, DType::float64)},
                e.attributes());
}

}  // namespace

// (a − a_zero_point) · (b − b_zero_point)
Operator matmul_integer() {
  return {.name = "MatMulInteger",
          .since = {10}, .inputs = {2, 4}, .types = {{"T1", bytes}, {"T2", bytes}, {"T1", bytes}, {"T2", bytes}},
          .infer = infer_matmul_integer,
          .follow = [](FollowContext& c) { find_operator("MatMul")->follow(c); },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {cast(e, multiply(e, 1, 2, 3), DType::int32)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"A"}, {"B"}, {"a_zero_point", OperandRole::index}, {"b_zero_point", OperandRole::index}}};
}

// Conv(x − x_zero_point, w − w_zero_point): padding is what zero is in x
Operator conv_integer() {
  return {.name = "ConvInteger",
          .since = {10}, .inputs = {2, 4}, .types = {{"T1", bytes}, {"T2", bytes}, {"T1", bytes}, {"T2", bytes}},
          .infer = infer_conv_integer,
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {cast(e, convolve(e, 1, 2, 3), DType::int32)}; },
          .precision = PrecisionRole::parts,
          .operands = {{"x"}, {"w"}, {"x_zero_point", OperandRole::index}, {"w_zero_point", OperandRole::index}}};
}

// MatMulInteger, then quantized by y_scale / (a_scale · b_scale)
Operator qlinear_matmul() {
  return {.name = "QLinearMatMul",
          .since = {10, 21},
          .inputs = {8, 8},
          .types = {{"T1", bytes},
                    {"TS", types::floats},
                    {"T1", bytes},
                    {"T2", bytes},
                    {"TS", types::floats},
                    {"T2", bytes},
                    {"TS", types::floats},
                    {"T3", bytes}},
          .infer = infer_qlinear_matmul,
          .follow = follow_left_factor,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const ValueId sums = multiply(e, 3, 2, 5);
            const int rank = e.shape(sums).rank();
            const DType wide = e.type(sums).dtype;
            const ValueId factor = e.mul(along_axis(e, cast(e, e.x(1), wide), -2, rank), along_axis(e, cast(e, e.x(4), wide), -1, rank));
            return {quantized(e, sums, factor, 6, 7)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"a"},
                       {"a_scale", OperandRole::constant},
                       {"a_zero_point", OperandRole::index},
                       {"b"},
                       {"b_scale", OperandRole::constant},
                       {"b_zero_point", OperandRole::index},
                       {"y_scale", OperandRole::constant},
                       {"y_zero_point", OperandRole::index}}};
}

// ConvInteger + bias, then quantized by y_scale / (x_scale · w_scale)
Operator qlinear_conv() {
  return {.name = "QLinearConv",
          .since = {10},
          .inputs = {8, 9},
          .types = {{"T1", bytes},
                    {"S", types::floats},
                    {"T1", bytes},
                    {"T2", bytes},
                    {"S", types::floats},
                    {"T2", bytes},
                    {"S", types::floats},
                    {"T3", bytes},
                    {"T4", {DType::int32}}},
          .infer = infer_qlinear_conv,
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            ValueId sums = convolve(e, 3, 2, 5);
            const int rank = e.shape(sums).rank();
            const DType wide = e.type(sums).dtype;
            if (e.has_x(8)) sums = e.add(sums, per_channel(e, cast(e, e.x(8), wide), rank));
            const ValueId factor = e.mul(along_axis(e, cast(e, e.x(1), wide), 1, rank), along_axis(e, cast(e, e.x(4), wide), 1, rank));
            return {quantized(e, sums, factor, 6, 7)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"x"},
                       {"x_scale", OperandRole::constant},
                       {"x_zero_point", OperandRole::index},
                       {"w"},
                       {"w_scale", OperandRole::constant},
                       {"w_zero_point", OperandRole::index},
                       {"y_scale", OperandRole::constant},
                       {"y_zero_point", OperandRole::index},
                       {"B"}}};
}

}  // namespace operator_rows
}  // namespace tandem
