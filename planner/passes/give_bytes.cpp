// Inputs of floats that are given as bytes: a quarter of what moves to a device, and what is computed of a byte is looked up there.
#include "graph/operator.h"
#include "graph/views.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem {

TensorType given_type(const GivenBytes& bytes, const Shape& model) {
  Shape given = model;
  for (std::size_t i = 0; i < bytes.perm.size(); ++i) given.dims.at(static_cast<std::size_t>(bytes.perm[i])) = model.dims.at(i);
  return {DType::uint8, std::move(given)};
}

namespace {

constexpr std::int64_t entries = 256;

// What the node makes holds samples as its first operand does, along axis 0.
ValueId add(Graph& graph, std::string_view op, std::string name, Attributes attributes, std::vector<ValueId> inputs) {
  const ValueId x = inputs[0];
  const NodeId id = graph.add_node(internal_operator(op), std::move(name), std::move(attributes), std::move(inputs), 1);
  const ValueId y = graph[id].outputs[0];
  graph[y].depends_on_batch = graph[x].depends_on_batch;
  graph[y].batch = graph[x].batch;
  return y;
}

ValueId looked_up(Graph& graph, ValueId input, const GivenBytes& bytes) {
  const Value given = graph[input];
  if (given.type.dtype != DType::float32)
    fail(ExitCode::usage, "input '", given.name, "' is ", given.type, ": bytes are given in place of float32 alone");
  graph[input].type = given_type(bytes, given.type.shape);
  ValueId x = input;
  if (!bytes.perm.empty()) x = add(graph, "Transpose", concat(given.name, "/axes"), {{"perm", bytes.perm}}, {x});
  const auto rows = static_cast<std::int64_t>(bytes.table.size()) / entries;
  const ValueId table = graph.add_constant(concat(given.name, "/table"), Tensor::of<float>(Shape{rows, entries}, bytes.table));
  return add(graph, "LookUp", concat(given.name, "/numbers"), {{"axis", bytes.axis}}, {x, table});
}

Graph with_bytes(const Graph& graph, const CompileOptions& o) {
  GraphCopy copy(graph);
  for (const auto& [name, bytes] : o.given_bytes) {
    const auto input = graph.find(name);
    if (!input || graph[*input].kind != ValueKind::input)
      fail(ExitCode::usage, "model '", graph.name, "' has no input '", name, "' to be given as bytes");
    copy.set(*input, looked_up(copy.to, copy.map(*input), bytes));
  }
  for (const Node& node : graph.nodes) copy.copy(node);
  return copy.finish();
}
}  // namespace

namespace pass_rows {

// Inputs that are given as bytes become these, and a LookUp what the model reads. First of all.
Pass give_bytes() {
  return {.name = "give_bytes",
          .run = [](Graph g, PassContext& c) { return with_bytes(g, c.options); },
          .when = [](const PassContext& c) { return !c.options.given_bytes.empty(); },
          .why = "a quarter of what moves to a device, and preparation is looked up there",
          .required = "the inputs are given as bytes"};
}

}  // namespace pass_rows

}  // namespace tandem
