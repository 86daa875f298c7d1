// All steps of an LSTM, GRU or RNN as one node, forward and backward: what match_recurrent (planner/fuse) makes of them. The products
// by W lie before it. Gates are stacked as ONNX has them.
#include "graph/operators/recurrent.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

// Numbers a unit that a step leaves for the gradient: its gates, what else they need, and the states before it.
std::int64_t saved_numbers(Cell cell) { return cell == Cell::lstm ? 6 : cell == Cell::gru ? 5 : 2; }

const CellFacts& settled(InferContext& c) {
  Attributes& a = c.node().attributes;
  const CellFacts& cell = facts_of(a.text("cell"));
  const std::string direction = a.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") c.fail("direction is '", direction, "'");
  a.set("direction", direction);
  for (const char* name : {"linear_before_reset", "relu"}) a.set(name, std::int64_t{a.integer(name, 0) != 0});
  return cell;
}

void expect_matrix(const InferContext& c, int input, const CellFacts& cell) {
  expect_rank(c, input, 3);
  const Shape& r = c.shape(input);
  const std::int64_t directions = c.attributes().text("direction") == "bidirectional" ? 2 : 1;
  if (r[0] != directions || r[2] < 1 || r[1] != cell.gates * r[2]) c.fail("R is ", r, ", expected [", directions, ',', cell.gates, "·H,H]");
}

void expect_like(const InferContext& c, int input, const Shape& shape, DType dtype) {
  if (!c.has_input(input)) return;
  expect_shape(c, input, shape);
  expect_dtype(c, input, dtype);
}

void infer_forward(InferContext& c) {
  const CellFacts& cell = settled(c);
  expect_rank(c, 0, 3);
  expect_matrix(c, 1, cell);
  const DType dtype = c.input(0).dtype;
  const Shape &p = c.shape(0), &r = c.shape(1);
  const std::int64_t T = p[0], B = p[1], D = r[0], H = r[2];
  if (!is_float(dtype) || p[2] != D * r[1]) c.fail("the products are ", c.input(0), ", R is ", r, ": expected floats [T,B,", D * r[1], ']');
  expect_dtype(c, 1, dtype);
  for (const int i : {2, 3}) expect_like(c, i, Shape{D, B, H}, dtype);
  expect_like(c, 4, Shape{B}, DType::int32);
  expect_like(c, 5, Shape{D, H}, dtype);
  const int states = cell.cell == Cell::lstm ? 2 : 1;
  c.set_output(0, dtype, Shape{T, D, B, H});
  for (int i = 1; i <= states; ++i) c.set_output(i, dtype, Shape{D, B, H});
  if (c.outputs() > states + 1) c.set_output(states + 1, dtype, Shape{D, T, B, saved_numbers(cell.cell) * H});
}

void infer_backward(InferContext& c) {
  const CellFacts& cell = settled(c);
  expect_matrix(c, 0, cell);
  expect_rank(c, 1, 4);
  const DType dtype = c.input(0).dtype;
  const Shape &r = c.shape(0), &saved = c.shape(1);
  const std::int64_t D = r[0], H = r[2], T = saved[1], B = saved[2];
  expect_like(c, 1, Shape{D, T, B, saved_numbers(cell.cell) * H}, dtype);
  expect_like(c, 2, Shape{B}, DType::int32);
  expect_like(c, 3, Shape{T, D, B, H}, dtype);
  for (const int i : {4, 5}) expect_like(c, i, Shape{D, B, H}, dtype);
  const int states = cell.cell == Cell::lstm ? 2 : 1;
  c.set_output(0, dtype, Shape{T, B, D * r[1]});
  for (int i = 1; i <= states; ++i) c.set_output(i, dtype, Shape{D, B, H});
  if (c.outputs() > states + 1) c.set_output(states + 1, dtype, r);
  if (c.outputs() > states + 2) c.set_output(states + 2, dtype, Shape{D, H});
}

// Samples, or the two directions, are split in all operands that hold them: `axes` says where, -1: they hold none.
void place_operands(PlaceContext& c, std::initializer_list<int> axes) {
  std::int64_t outer = 0;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.split(i)) continue;
    if (c.place(i).axis != axes.begin()[i])
      c.fail("axis ", c.place(i).axis, " of its operand ", i, ' ', c.x(i), " is split, which it works on as a whole");
    if (outer != 0 && outer != c.place(i).outer) c.fail("its operands are not split alike");
    outer = c.place(i).outer;
  }
  for (int i = 0; i < c.inputs(); ++i)
    if (c.has_input(i) && !c.split(i) && axes.begin()[i] >= 0) c.need(i, {.axis = axes.begin()[i], .outer = outer});
}
// Whether each of two devices has one of two directions: `axes` of these in the operands.
bool is_by_directions(const PlaceContext& c, std::initializer_list<int> axes) {
  if (c.attributes().text("direction") != "bidirectional" || c.batch() != 2) return false;
  for (int i = 0; i < c.inputs(); ++i)
    if (c.split(i) && (c.place(i).outer != 1 || c.place(i).axis != axes.begin()[i])) return false;
  return true;
}
BatchPlace split_along(const PlaceContext& c, int axis) {
  for (int i = 0; i < c.inputs(); ++i)
    if (c.split(i)) return {.axis = axis, .outer = c.place(i).outer};
  return {};
}
int states_of(const PlaceContext& c) { return facts_of(c.attributes().text("cell")).cell == Cell::lstm ? 2 : 1; }

double recurrent_flops(const Graph& graph, const Node& n, int of_r, const Shape& steps, double products) {
  const Shape& r = graph[n.inputs[at(of_r)]].type.shape;
  return 2 * products * static_cast<double>(steps.elements() / steps[steps.rank() - 1]) * static_cast<double>(r.elements()) /
         static_cast<double>(of_r == 0 ? r[0] : 1);
}

}  // namespace

Operator recurrent_training() {
  return {.name = "RecurrentTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 6},
          .outputs = {2, 4},
          .infer = infer_forward,
          .place =
              [](PlaceContext& c) {
                const auto directions = {2, 0, 0, 0, -1, 0}, samples = {1, -1, 1, 1, 0, -1};
                const bool by_directions = is_by_directions(c, directions);
                place_operands(c, by_directions ? directions : samples);
                c.set(0, split_along(c, by_directions ? 1 : 2));
                for (int i = 1; i <= states_of(c); ++i) c.set(i, split_along(c, by_directions ? 0 : 1));
                c.set(states_of(c) + 1, split_along(c, by_directions ? 0 : 2));
              },
          .differentiate =
              [](GradientContext& g) {
                const bool lstm = g.attributes().text("cell") == "LSTM";
                const int states = lstm ? 2 : 1;
                const auto dy = [&](int i) { return g.has_dy(i) ? g.dy(i) : ValueId{}; };
                std::vector<ValueId> inputs{g.x(1), g.y(states + 1), g.has_x(4) ? g.x(4) : ValueId{},
                                            dy(0),  dy(1),           lstm ? dy(2) : ValueId{}};
                while (!inputs.back().present()) inputs.pop_back();
                const int outputs = 1 + states + (g.wants(5) ? 2 : g.wants(1) ? 1 : 0);
                const std::vector<ValueId> d = g.emit("RecurrentBackward", std::move(inputs), g.attributes(), outputs);
                if (g.wants(0)) g.set_dx(0, d[0]);
                if (g.wants(2)) g.set_dx(2, d[1]);
                if (g.wants(3) && lstm) g.set_dx(3, d[2]);
                if (g.wants(1)) g.set_dx(1, d[at(states + 1)]);
                if (g.wants(5)) g.set_dx(5, d[at(states + 2)]);
              },
          .flops = [](const Graph& graph, const Node& n) { return recurrent_flops(graph, n, 1, graph[n.inputs[0]].type.shape, 1); },
          .precision = PrecisionRole::wide,
          .operands = {{"products"},
                       {"R", OperandRole::matrix},
                       {"initial_h"},
                       {"initial_c"},
                       {"sequence_lens", OperandRole::index},
                       {"reset_bias", OperandRole::bias}}};
}

// From the last step to the first: what the gates' sums get, and by Rᵀ the state before; dR is one product of all steps.
Operator recurrent_backward() {
  return {.name = "RecurrentBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 6},
          .outputs = {2, 5},
          .infer = infer_backward,
          .place =
              [](PlaceContext& c) {
                const auto directions = {0, 0, -1, 1, 0, 0}, samples = {-1, 2, 0, 2, 1, 1};
                const bool by_directions = is_by_directions(c, directions);
                place_operands(c, by_directions ? directions : samples);
                c.set(0, split_along(c, by_directions ? 2 : 1));
                for (int i = 1; i <= states_of(c); ++i) c.set(i, split_along(c, by_directions ? 0 : 1));
                for (int i = states_of(c) + 1; i < c.outputs(); ++i)
                  if (by_directions)
                    c.set(i, split_along(c, 0));
                  else
                    c.sum(i);
              },
          .flops = [](const Graph& graph, const Node& n) { return recurrent_flops(graph, n, 0, graph[n.inputs[1]].type.shape, 2); }};
}

}  // namespace tandem::operator_rows
