#include "tests/graph/notation.h"

#include <sstream>

namespace tandem::test {

TensorType type_of(const std::string& text) {
  TensorType type;
  switch (text.at(0)) {
    case 'f': type.dtype = DType::float32; break;
    case 'd': type.dtype = DType::float64; break;
    case 'i': type.dtype = DType::int64; break;
    case 's': type.dtype = DType::int32; break;
    case 'b': type.dtype = DType::boolean; break;
    case 'u': type.dtype = DType::uint8; break;
    default: fail("no type is written '", text, "'");
  }
  std::stringstream list(text.substr(2, text.find(']') - 2));
  for (std::string dim; std::getline(list, dim, ',');) type.shape.dims.push_back(std::stoll(dim));
  return type;
}

std::string text_of(const TensorType& type) {
  switch (type.dtype) {
    case DType::float32: return "f" + to_string(type.shape);
    case DType::float64: return "d" + to_string(type.shape);
    case DType::int64: return "i" + to_string(type.shape);
    case DType::int32: return "s" + to_string(type.shape);
    case DType::boolean: return "b" + to_string(type.shape);
    case DType::uint8: return "u" + to_string(type.shape);
    default: return to_string(type);
  }
}

namespace {

const Operator& operator_of(std::string_view text) {
  const std::size_t colons = text.find("::");
  if (colons == std::string_view::npos) return internal_operator(text);
  const Operator* op = find_operator(text.substr(colons + 2), text.substr(0, colons));
  if (!op) fail("no operator '", text, "'");
  return *op;
}

}  // namespace

OneNode::OneNode(std::string_view op, const std::vector<std::string>& inputs, Attributes attributes, int outputs) {
  std::vector<ValueId> operands;
  for (const std::string& text : inputs) {
    const std::string name = concat("x", operands.size());
    if (text == "-")
      operands.push_back({});
    else if (text.back() == '!')
      operands.push_back(graph.add_parameter(name, type_of(text), std::nullopt, true));
    else
      operands.push_back(graph.add_input(name, type_of(text)));
  }
  node = graph.add_node(operator_of(op), "n", std::move(attributes), std::move(operands), outputs);
  graph.outputs.assign(graph[node].outputs.begin(), graph[node].outputs.end());
}

std::string expression(const Graph& graph, ValueId value) {
  if (!value.present()) return "-";
  const Value& v = graph[value];
  if (v.kind == ValueKind::constant) return v.data->elements() == 1 ? tandem::text_of(v.data->to_doubles()[0]) : v.name;
  if (v.kind != ValueKind::activation) return v.name;
  const Node& node = graph[v.producer];
  std::string text(node.op->name);
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] == value) text += concat(':', i);
  text += '(';
  for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + expression(graph, node.inputs[i]);
  return text + ')';
}

std::vector<std::string> expressions(const Graph& graph) {
  std::vector<std::string> all;
  for (const GraphOutput& out : graph.outputs) all.push_back(expression(graph, out));
  return all;
}

namespace {

// Replaces nodes that expand, from the front, until none does; gives the values that stand for the old outputs.
std::vector<ValueId> expand_all(Graph& graph, NodeId node, bool training) {
  const Node copy = graph[node];
  if (!copy.op->expand) return copy.outputs;
  ExpandContext context(graph, copy);
  context.training = training;
  const std::size_t before = graph.nodes.size();
  const std::vector<ValueId> results = copy.op->expand(context);
  if (results.empty()) return copy.outputs;
  for (std::size_t n = before; n < graph.nodes.size(); ++n) {
    const std::vector<ValueId> old = graph.nodes[n].outputs;
    const std::vector<ValueId> now = expand_all(graph, {static_cast<int>(n)}, training);
    if (now == old) continue;
    for (Node& other : graph.nodes)
      for (ValueId& in : other.inputs)
        for (std::size_t i = 0; i < old.size(); ++i)
          if (in == old[i] && &other != &graph.nodes[n]) in = now[i];
    std::vector<ValueId> mapped = results;
    for (ValueId& r : mapped)
      for (std::size_t i = 0; i < old.size(); ++i)
        if (r == old[i]) r = now[i];
    if (mapped != results) return mapped;
  }
  return results;
}

}  // namespace

std::vector<std::string> expansion(OneNode one, bool training) {
  std::vector<std::string> texts;
  for (const ValueId v : expand_all(one.graph, one.node, training)) texts.push_back(expression(one.graph, v));
  return texts;
}

std::vector<std::string> gradients(OneNode one) {
  Graph& graph = one.graph;
  std::vector<ValueId> dy;
  for (std::size_t i = 0; i < graph[one.node].outputs.size(); ++i) {
    const ValueId y = graph[one.node].outputs[i];
    graph[y].name = concat("y", i);
    dy.push_back(is_float(graph[y].type.dtype) && !graph[y].opaque ? graph.add_input(concat("dy", i), graph[y].type) : ValueId{});
  }
  std::vector<bool> wanted;
  for (const ValueId x : graph[one.node].inputs) wanted.push_back(x.present() && is_float(graph[x].type.dtype));
  GradientContext context(graph, one.node, dy, wanted);
  graph[one.node].op->differentiate(context);
  verify(graph);
  // Forward outputs read by the gradient print by name.
  for (const ValueId y : graph[one.node].outputs) graph[y].kind = ValueKind::input;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) texts.push_back(expression(graph, context.dx()[i]));
  return texts;
}

}  // namespace tandem::test
