// Nodes and values are appended, and an operator's shape rule runs as soon as its node is added, so that every value has its type
// from the first.
#include "graph/graph.h"

#include <algorithm>
#include <array>

#include "graph/operator.h"

namespace tandem {

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return {static_cast<int>(values.size()) - 1};
}

ValueId Graph::add_input(std::string value_name, TensorType type) {
  const ValueId id =
      add_value({.name = std::move(value_name), .type = std::move(type), .kind = ValueKind::input, .depends_on_batch = true});
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_parameter(std::string value_name, TensorType type, std::optional<Tensor> data, bool trainable) {
  Shape shape = type.shape;
  return add_value({.name = std::move(value_name),
                    .type = std::move(type),
                    .kind = ValueKind::parameter,
                    .data = std::move(data),
                    .trainable = trainable,
                    .template_shape = std::move(shape)});
}

ValueId Graph::add_constant(std::string value_name, Tensor data) {
  TensorType type = data.type();
  return add_value({.name = std::move(value_name), .type = std::move(type), .kind = ValueKind::constant, .data = std::move(data)});
}

NodeId Graph::add_node(const Operator& op, std::string node_name, Attributes attributes, std::vector<ValueId> node_inputs, int node_outputs,
                       std::vector<std::string> origin) {
  const NodeId id{static_cast<int>(nodes.size())};
  Node node{&op, std::move(node_name), std::move(attributes), std::move(node_inputs), {}, std::move(origin)};
  bool batch = false;
  for (const ValueId in : node.inputs) batch = batch || (in.present() && (*this)[in].depends_on_batch);
  for (int i = 0; i < node_outputs; ++i)
    node.outputs.push_back(
        add_value({.name = node_outputs == 1 ? node.name : concat(node.name, ':', i), .producer = id, .depends_on_batch = batch}));
  nodes.push_back(std::move(node));
  InferContext context(*this, nodes.back());
  if (!op.infer) fail("operator ", op.name, " has no shape rule");
  op.infer(context);
  return id;
}

std::optional<ValueId> Graph::find(std::string_view value_name) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].role == ValueRole::plain && values[i].name == value_name) return ValueId{static_cast<int>(i)};
  return std::nullopt;
}

std::optional<ValueId> Graph::find(ValueRole role, std::string_view of) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].role == role && values[i].of == of) return ValueId{static_cast<int>(i)};
  return std::nullopt;
}

std::string Graph::free_name(std::string_view wanted) const {
  std::string name(wanted);
  const auto taken = [&](const Value& v) { return v.name == name; };
  while (std::any_of(values.begin(), values.end(), taken)) name = concat("tandem/", name);
  return name;
}

IdVector<ValueId, std::vector<NodeId>> Graph::consumers() const {
  IdVector<ValueId, std::vector<NodeId>> users(values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (const ValueId in : nodes[n].inputs)
      if (in.present()) users[in].push_back({static_cast<int>(n)});
  return users;
}

IdVector<ValueId, int> Graph::uses() const {
  IdVector<ValueId, int> count(values.size());
  for (const Node& node : nodes)
    for (const ValueId in : node.inputs)
      if (in.present()) ++count[in];
  for (const ValueId out : outputs) ++count[out];
  return count;
}

void verify(const Graph& graph) {
  IdVector<ValueId, bool> ready(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    ready[i] = v.kind != ValueKind::activation;
    if (v.kind == ValueKind::constant && !v.data) fail("graph: constant '", v.name, "' has no data");
  }
  const auto check = [&](ValueId id, const std::string& where) {
    if (id.index >= static_cast<int>(graph.values.size())) fail("graph: ", where, " names value ", id.index, " of ", graph.values.size());
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (const ValueId in : node.inputs) {
      check(in, node.name);
      if (in.present() && !ready[in])
        fail("graph: ", node.op->name, " '", node.name, "' reads '", graph[in].name, "' before it is computed");
    }
    for (const ValueId out : node.outputs) {
      check(out, node.name);
      if (!out.present()) continue;
      if (ready[out]) fail("graph: '", graph[out].name, "' is computed twice");
      if (graph[out].producer.index != static_cast<int>(n))
        fail("graph: '", graph[out].name, "' names another producer than '", node.name, "'");
      if (graph[out].type.dtype == DType::undefined) fail("graph: '", graph[out].name, "' has no type");
      ready[out] = true;
    }
  }
  for (const ValueId out : graph.outputs) {
    check(out, "outputs");
    if (!ready[out]) fail("graph: output '", graph[out].name, "' is never computed");
  }
}

std::optional<double> known_number(const Value& value) {
  if (value.kind != ValueKind::constant || !value.data || value.type.shape.elements() != 1) return std::nullopt;
  return value.data->to_doubles()[0];
}

TemplateAxis template_axis(const Shape& held, const Layout& source, const Shape& of_template, int axis) {
  std::int64_t before = 1;  // places of the axes outside of it, in memory
  for (int i = 0; i < held.rank(); ++i) {
    const int at = source.any() ? i : source.tag()[static_cast<std::size_t>(i)] - 'a';
    if (at == axis) break;
    before *= held[at];
  }
  TemplateAxis found;
  for (int i = 0; i < of_template.rank(); ++i) {
    const std::int64_t dim = of_template[i];
    const bool begins = before == 1 && held[axis] > 0 && dim % held[axis] == 0;
    if (begins && (found.axis < 0 || dim == held[axis])) found = {i, dim / held[axis]};
    if (dim == 0 || before % dim != 0) break;
    before /= dim;
  }
  return found;
}

int held_axis(const Shape& held, const Layout& source, const Shape& of_template, int axis) {
  for (int i = 0; i < held.rank(); ++i)
    if (template_axis(held, source, of_template, i).axis == axis) return i;
  return -1;
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, phases> names{"prepare", "forward", "backward", "weights", "update"};
  return names.at(static_cast<std::size_t>(phase));
}

std::string_view name_of(ValueRole role) {
  static constexpr std::string_view names[] = {"plain",    "label",     "step state", "optimizer state", "copy",    "loss",      "metric",
                                               "gradient", "statistic", "share",      "sample weight",   "teacher", "file loss", "measure"};
  static_assert(std::size(names) == static_cast<std::size_t>(last_role) + 1);
  return names[static_cast<std::size_t>(role)];
}

}  // namespace tandem
