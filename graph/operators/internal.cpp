// What the planner adds of its own: copies between layouts, filled tensors, fused elementwise programs.
#include "graph/operators/fold.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {

// The same elements in another layout
Operator reorder() { return {.name = "Reorder", .domain = "tandem", .since = {1}, .infer = infer_same}; }

namespace {

// Two operands of one type, which the result has.
void infer_as_both(InferContext& c) {
  expect_dtype(c, 1, c.input(0).dtype);
  expect_shape(c, 1, c.shape(0));
  c.set_output(0, c.input(0));
}

}  // namespace

// sum + addend, in the memory of the sum: how the micro-batches of a step add up
Operator accumulate() {
  return {.name = "Accumulate",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_as_both,
          .place = place_as_first,
          .linear = Linear::sum,
          .accumulates = true,
          .runs_as = "Add"};
}

// momentum · sum + (1 − momentum) · value, in the memory of the sum: what the micro-batches of a step move a running statistic by
Operator accumulate_statistic() {
  return {.name = "AccumulateStatistic",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_as_both,
          .place = place_as_first,
          .accumulates = true,
          .runs_as = "RunningStatistics"};
}

// y[i] = Σ over devices of x[i], with `max` the largest of them; the loss is a sum over devices too, so dx[i] = Σ over devices of dy[i]
Operator all_reduce() {
  return {.name = "AllReduce",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, Arity::any},
          .outputs = {1, Arity::any},
          .infer =
              [](InferContext& c) {
                for (int i = 0; i < c.outputs(); ++i) c.set_output(i, c.input(i));
              },
          .place = place_as_first,  // along another axis of the mesh than that of its addends
          .linear = Linear::sum,
          .moves = Moves::sum,
          .differentiate =
              [](GradientContext& g) {
                for (int i = 0; i < g.inputs(); ++i)
                  if (g.wants(i) && g.has_dy(i)) g.set_dx(i, g.emit("AllReduce", {g.dy(i)}));
              },
          .precision = PrecisionRole::wide};
}

namespace {

// A value in other places: its elements stay what they are.
Operator transfer(std::string_view name, Moves moves) {
  return {.name = name,
          .domain = "tandem",
          .since = {1},
          .infer = infer_same,
          .place = place_as_first,
          .linear = Linear::sum,
          .moves = moves};
}

}  // namespace

// Whole on every device from the parts of each; the part of each device of what is whole on all, or of a sum; and an addend
// of what is whole on all: itself on the first, zeros on the others
Operator all_gather() { return transfer("AllGather", Moves::gather); }
Operator once() { return transfer("Once", Moves::addend); }
Operator reduce_scatter() { return transfer("ReduceScatter", Moves::scatter); }
Operator take_part() { return transfer("TakePart", Moves::part); }

// From the devices of one group to those of another. In one device's program: Send gives nothing, Receive takes nothing, and
// gives what its attributes say
Operator send() { return transfer("Send", Moves::send); }
Operator receive() {
  return {.name = "Receive", .domain = "tandem", .since = {1}, .inputs = {0, 0}, .infer = [](InferContext& c) {
            c.set_output(0, static_cast<DType>(c.attributes().integer("dtype")), Shape(c.attributes().ints("shape")));
          },
          .moves = Moves::receive};
}

// `value` everywhere, of the type that `shape` and `dtype` name
Operator fill() {
  return {.name = "Fill", .domain = "tandem", .since = {1}, .inputs = {0, 0}, .infer = [](InferContext& c) {
            const DType dtype = static_cast<DType>(c.attributes().integer("dtype", static_cast<std::int64_t>(DType::float32)));
            c.set_output(0, dtype, Shape(c.attributes().ints("shape")));
          }};
}

// x, from which no gradient flows back. Gone once the graph is differentiated
Operator stop_gradient() {
  return {.name = "StopGradient",
          .domain = "tandem",
          .since = {1}, .types = {{"V", types::stored}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .differentiate = zero_gradient,
          .fold = fold_reshape,
          .precision = PrecisionRole::follows};
}

// y, whose gradient goes to x: dx = dy. Gone once the graph is differentiated
Operator straight_through() {
  return {.name = "StraightThrough",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_as_both,
          .differentiate = [](GradientContext& g) { g.set_dx(g.dy()); },
          .precision = PrecisionRole::follows};
}

// A straight-line program on elements; every result has the broadcast shape of all inputs
Operator elementwise() {
  return {.name = "Elementwise",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, Arity::any},
          .outputs = {1, Arity::any},
          .infer =
              [](InferContext& c) {
                const std::size_t steps = [&] {
                  const AttributeValue* ops = c.attributes().find("ops");
                  const auto* names = ops ? std::get_if<Strings>(ops) : nullptr;
                  if (!names) c.fail("ops is missing");
                  return names->size();
                }();
                const Ints &args = c.attributes().ints("args"), &results = c.attributes().ints("results");
                const std::int64_t operands = c.inputs() + static_cast<std::int64_t>(steps);
                if (args.size() != 3 * steps || c.attributes().floats("params").size() != 2 * steps)
                  c.fail(steps, " instructions have ", args.size(), " arguments and ", c.attributes().floats("params").size(),
                         " parameters");
                for (std::size_t i = 0; i < args.size(); ++i)
                  if (args[i] < -1 || args[i] >= c.inputs() + static_cast<std::int64_t>(i / 3))
                    c.fail("instruction ", i / 3, " reads operand ", args[i], " before it is computed");
                if (static_cast<int>(results.size()) != c.outputs())
                  c.fail("has ", results.size(), " results for ", c.outputs(), " outputs");
                for (const std::int64_t r : results)
                  if (r < 0 || r >= operands) c.fail("result ", r, " is outside the ", operands, " operands");
                for (int i = 1; i < c.inputs(); ++i) expect_dtype(c, i, c.input(0).dtype);
                const Shape shape = broadcast_inputs(c, 0, c.inputs());
                for (int i = 0; i < c.outputs(); ++i) c.set_output(i, c.input(0).dtype, shape);
              },
          .flops =
              [](const Graph& graph, const Node& n) {
                return static_cast<double>(n.attributes.ints("args").size() / 3) *
                       static_cast<double>(graph[n.outputs[0]].type.shape.elements());
              }};
}

}  // namespace tandem::operator_rows
