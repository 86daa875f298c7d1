// Resample: one axis, or two neighbours, as weighted sums of entries that tables name. What Resize is made of; its gradient is the
// same with transposed tables, so one kernel serves both ways, and each result is a sum in a fixed order.
#include "graph/operators/resample.h"

#include <algorithm>

#include "graph/operators/fold.h"

namespace tandem {

bool ResampleTable::is_identity(std::int64_t n) const {
  if (size() != n || std::ssize(index) != n) return false;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (starts[k] != i || index[k] != i || (!weight.empty() && weight[k] != 1)) return false;
  }
  return true;
}

namespace {

ValueId known(GraphBuilder& b, std::span<const std::int32_t> values) {
  return b.graph().add_constant("table", Tensor::of<std::int32_t>(Shape{std::ssize(values)}, values));
}

constexpr int operands_of_axis = 3;  // starts, index, weight
bool is_given(const Node& node, int input) { return input < std::ssize(node.inputs) && node.inputs[at(input)].present(); }

// The table of an axis whose values are known.
ResampleTable table_of(const Graph& graph, const Node& node, int axis) {
  const int first = 1 + operands_of_axis * axis;
  const auto data = [&](int i) -> const Tensor& {
    const Value& value = graph[node.inputs[at(first + i)]];
    if (!value.data) fail("Resample '", node.name, "': its tables must be known when the plan is made");
    return *value.data;
  };
  const auto starts = data(0).values<std::int32_t>(), index = data(1).values<std::int32_t>();
  ResampleTable t{{starts.begin(), starts.end()}, {index.begin(), index.end()}, {}};
  if (is_given(node, first + 2)) t.weight = data(2).to_doubles();
  return t;
}

// Entry j of the result sums what the table lets entry j of n flow to.
ResampleTable transposed(const ResampleTable& table, std::int64_t n) {
  ResampleTable t;
  t.starts.assign(at(static_cast<int>(n)) + 1, 0);
  for (const std::int32_t j : table.index) ++t.starts[static_cast<std::size_t>(j) + 1];
  for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) t.starts[j + 1] += t.starts[j];
  std::vector<std::int32_t> next = t.starts;
  t.index.resize(table.index.size());
  t.weight.resize(table.weight.size());
  for (std::size_t i = 0; i + 1 < table.starts.size(); ++i)
    for (auto k = static_cast<std::size_t>(table.starts[i]); k < static_cast<std::size_t>(table.starts[i + 1]); ++k) {
      const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(table.index[k])]++);
      t.index[to] = static_cast<std::int32_t>(i);
      if (!table.weight.empty()) t.weight[to] = table.weight[k];
    }
  return t;
}

// The sizes that a table says of its axis, once its operands have been checked.
std::int64_t checked_table(InferContext& c, int first) {
  const TensorType& x = c.input(0);
  for (int i = first; i < first + 2; ++i) {
    expect_dtype(c, i, DType::int32);
    expect_rank(c, i, 1);
  }
  if (c.has_input(first + 2)) {
    expect_shape(c, first + 2, c.shape(first + 1));
    expect_dtype(c, first + 2, x.dtype == DType::float64 ? DType::float64 : DType::float32);
    if (!is_float(x.dtype)) c.fail("input 0 is ", x, ", but it is weighted");
  }
  if (c.shape(first)[0] < 1) c.fail("input ", first, " is empty");
  return c.shape(first)[0] - 1;
}

void infer_resample(InferContext& c) {
  Shape y = c.shape(0);
  const int axis = axis_of(c, c.attributes().integer("axis"), y.rank());
  c.node().attributes.set("axis", std::int64_t{axis});
  y[axis] = checked_table(c, 1);
  if (c.has_input(1 + operands_of_axis)) {
    if (axis + 1 >= y.rank()) c.fail("there is no axis behind axis ", axis, " of ", y);
    if (c.has_input(operands_of_axis) != c.has_input(2 * operands_of_axis)) c.fail("one of its tables has weights and the other none");
    y[axis + 1] = checked_table(c, 1 + operands_of_axis);
  }
  c.set_output(0, c.input(0).dtype, std::move(y));
}

void place_resample(PlaceContext& c) {
  if (!c.split(0)) c.fail("its tables are split");
  const int axis = static_cast<int>(c.attributes().integer("axis")), last = c.has_input(1 + operands_of_axis) ? axis + 1 : axis;
  if (c.place().axis >= axis && c.place().axis <= last) c.fail("it works along axis ", c.place().axis, ", which is split");
  c.set(0, c.place());
}

template <class T>
void resample_axis(std::span<const T> x, std::span<T> y, const Shape& shape, int axis, const ResampleTable& t) {
  const std::int64_t inner = product(shape, axis + 1, shape.rank()), n = shape[axis];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i), outer = place / inner / t.size();
    const auto entry = static_cast<std::size_t>(place / inner % t.size());
    T sum = 0;
    for (auto k = static_cast<std::size_t>(t.starts[entry]); k < static_cast<std::size_t>(t.starts[entry + 1]); ++k) {
      const T value = x[static_cast<std::size_t>((outer * n + t.index[k]) * inner + place % inner)];
      sum += t.weight.empty() ? value : static_cast<T>(t.weight[k] * static_cast<double>(value));
    }
    y[i] = sum;
  }
}

double resample_flops(const Graph& graph, const Node& n) {
  double each = 0;
  for (int axis = 0; axis < 2; ++axis) {
    const int first = 1 + operands_of_axis * axis;
    if (is_given(n, first))
      each += 2.0 * static_cast<double>(graph[n.inputs[at(first + 1)]].type.shape.elements()) /
              static_cast<double>(std::max<std::int64_t>(1, graph[n.inputs[at(first)]].type.shape.elements() - 1));
  }
  return each * static_cast<double>(graph[n.outputs[0]].type.shape.elements());
}

}  // namespace

ValueId emit_resample(GraphBuilder& b, ValueId x, int axis, const ResampleTable& first, const ResampleTable* second) {
  const DType dtype = b.type(x).dtype == DType::float64 ? DType::float64 : DType::float32;
  std::vector<ValueId> inputs{x};
  for (const ResampleTable* t : {&first, second}) {
    if (!t) continue;
    inputs.push_back(known(b, t->starts));
    inputs.push_back(known(b, t->index));
    inputs.push_back(t->weight.empty()
                         ? ValueId{}
                         : b.graph().add_constant("weight", Tensor::of<double>(Shape{std::ssize(t->weight)}, t->weight).cast(dtype)));
  }
  while (!inputs.back().present()) inputs.pop_back();
  return b.emit("Resample", std::move(inputs), {{"axis", std::int64_t{axis}}});
}

namespace operator_rows {

Operator resample() {
  return {.name = "Resample",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 7},
          .infer = infer_resample,
          .place = place_resample,
          .linear = Linear::first,
          .differentiate =
              [](GradientContext& g) {
                const int axis = static_cast<int>(g.attributes().integer("axis"));
                const Shape x = g.shape(g.x());
                const ResampleTable first = transposed(table_of(g.graph(), g.node(), 0), x[axis]);
                if (!g.has_x(1 + operands_of_axis)) return g.set_dx(emit_resample(g, g.dy(), axis, first));
                const ResampleTable second = transposed(table_of(g.graph(), g.node(), 1), x[axis + 1]);
                g.set_dx(emit_resample(g, g.dy(), axis, first, &second));
              },
          .fold = [](const FoldContext& c) -> Folded {
            return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
              const int axis = static_cast<int>(c.node.attributes.integer("axis")), axes = c.inputs.size() > 1 + operands_of_axis ? 2 : 1;
              Tensor x = c.inputs[0];
              for (int i = 0; i < axes; ++i) {
                const auto first = static_cast<std::size_t>(1 + operands_of_axis * i);
                const auto starts = c.inputs[first].values<std::int32_t>(), index = c.inputs[first + 1].values<std::int32_t>();
                ResampleTable t{{starts.begin(), starts.end()}, {index.begin(), index.end()}, {}};
                if (c.inputs.size() > first + 2 && c.inputs[first + 2].defined()) t.weight = c.inputs[first + 2].to_doubles();
                Tensor y(TensorType{x.dtype(), with_dim(x.shape(), axis + i, t.size())});
                resample_axis<T>(x.values<T>(), y.write<T>(), x.shape(), axis + i, t);
                x = y;
              }
              return std::vector{x};
            });
          },
          .flops = resample_flops,
          .precision = PrecisionRole::follows,
          .operands = {{"x"},
                       {"starts", OperandRole::index},
                       {"index", OperandRole::index},
                       {"weight", OperandRole::constant, true},
                       {"starts_second", OperandRole::index},
                       {"index_second", OperandRole::index},
                       {"weight_second", OperandRole::constant, true}}};
}

}  // namespace operator_rows
}  // namespace tandem
