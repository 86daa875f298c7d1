// What the contexts do in which an operator's functions run: shape rules read and write types through InferContext, gradient rules
// and expansions build nodes through GraphBuilder. The operators themselves stand in operators/, one row each.
#include "graph/operator.h"

#include <algorithm>

#include "graph/updates.h"

namespace tandem {

const TensorType& InferContext::input(int i) const {
  if (!has_input(i)) fail("input ", i, " is missing");
  return graph_[node_.inputs[static_cast<std::size_t>(i)]].type;
}

const Tensor* InferContext::constant(int i) const {
  if (!has_input(i)) return nullptr;
  const Value& v = graph_[node_.inputs[static_cast<std::size_t>(i)]];
  return v.kind == ValueKind::constant ? &*v.data : nullptr;
}

void InferContext::set_output(int i, TensorType type) {
  if (!has_output(i)) return;
  type.shape.elements();  // fails where the product overflows
  for (const std::int64_t d : type.shape)
    if (d < 0) fail("output ", i, " would have shape ", type.shape);
  graph_[node_.outputs[static_cast<std::size_t>(i)]].type = std::move(type);
}

void InferContext::set_opaque_output(int i) {
  if (!has_output(i)) return;
  set_output(i, DType::uint8, Shape{0});
  graph_[node_.outputs[static_cast<std::size_t>(i)]].opaque = true;
}

std::string InferContext::where() const { return concat(node_.op->name, " '", node_.name, "': "); }

ValueId GraphBuilder::emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) {
  return emit(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::vector<ValueId> GraphBuilder::emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes, int outputs) {
  const NodeId id = graph_.add_node(internal_operator(op), concat(prefix_, '/', op, '_', graph_.nodes.size()), std::move(attributes),
                                    std::move(inputs), outputs, origin_);
  return graph_[id].outputs;
}

ValueId GraphBuilder::scalar(double value, DType dtype) {
  return graph_.add_constant(concat(prefix_, "/const_", value), Tensor::scalar(value).cast(dtype));
}

ValueId GraphBuilder::reshape(ValueId a, Shape to) {
  if (shape(a) == to) return a;
  Ints dims = to.dims;
  return emit("Reshape", {a}, {{"shape", std::move(dims)}, {"allowzero", std::int64_t{1}}});
}

ValueId GraphBuilder::transpose(ValueId a, Ints perm) {
  return emit("Transpose", {a}, {{"perm", std::move(perm)}});
}

ValueId GraphBuilder::reduce_sum(ValueId a, Ints axes, bool keepdims) {
  return emit("ReduceSum", {a}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}});
}

ValueId GraphBuilder::sum_to(ValueId a, Shape to) {
  const Shape from = shape(a);
  if (from == to) return a;
  const int extra = from.rank() - to.rank();
  Ints axes;
  for (int i = 0; i < from.rank(); ++i)
    if (i < extra || (to[i - extra] == 1 && from[i] != 1)) axes.push_back(i);
  return reshape(axes.empty() ? a : reduce_sum(a, axes, true), to);
}

ValueId GraphBuilder::broadcast_to(ValueId a, Shape to) {
  if (shape(a) == to) return a;
  return emit("Expand", {a}, {{"shape", to.dims}});
}

ValueId GraphBuilder::input(std::string_view name, TensorType type, ValueRole role, std::string_view of) {
  if (const auto known = graph_.find(role, of)) return *known;
  const ValueId added = graph_.add_input(graph_.free_name(name), std::move(type));
  graph_[added].role = role;
  graph_[added].of = of;
  return added;
}

GradientContext::GradientContext(Graph& graph, NodeId node, std::vector<ValueId> dy, std::vector<bool> wanted)
    : GraphBuilder(graph, "grad/" + graph[node].name, graph[node].origin),
      node_(graph[node]),
      dy_(std::move(dy)),
      wanted_(std::move(wanted)),
      dx_(node_.inputs.size()) {}

void GradientContext::set_dx(int i, ValueId dx) {
  if (!wants(i)) return;
  if (shape(dx) != shape(x(i)))
    fail("gradient of ", node_.op->name, " '", node_.name, "': input ", i, " has shape ", shape(x(i)), ", its gradient ", shape(dx));
  dx_[static_cast<std::size_t>(i)] = dx;
}

OperandRow operand_of(const Operator& op, int input) {
  if (static_cast<std::size_t>(input) < op.operands.size()) return op.operands[static_cast<std::size_t>(input)];
  for (const StaticOperand& s : op.static_operands)
    if (s.input == input) return {s.attribute, OperandRole::constant};
  return op.operands.empty() ? OperandRow{} : op.operands.back();
}

PrecisionRole precision_of(const Operator& op) {
  return op.precision == PrecisionRole::unsaid && op.elementwise ? PrecisionRole::follows : op.precision;
}

const Operator& internal_operator(std::string_view name) {
  if (const Operator* op = find_operator(name, "tandem")) return *op;
  if (const Operator* op = find_operator(name, "")) return *op;
  fail("no operator named '", name, "'");
}

const Node* made_by(const Graph& graph, ValueId v, std::string_view op) {
  if (!v.present() || !graph[v].producer.present()) return nullptr;
  const Node& node = graph[graph[v].producer];
  return node.op->name == op && node.outputs[0] == v ? &node : nullptr;
}

IdVector<NodeId, bool> needed_nodes(const Graph& graph, bool (*kept)(const Node&)) {
  IdVector<ValueId, bool> read(graph.values.size());
  IdVector<NodeId, bool> needed(graph.nodes.size());
  for (const ValueId out : graph.outputs) read[out] = true;
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    needed[n] = !node.op->in_place.empty() || kept(node);
    for (const ValueId out : node.outputs) needed[n] = needed[n] || (out.present() && read[out]);
    if (!needed[n]) continue;
    for (const ValueId in : node.inputs)
      if (in.present()) read[in] = true;
  }
  return needed;
}

double flops_of(const Graph& graph, const Node& node) {
  if (node.op->flops) return node.op->flops(graph, node);
  double n = 0;
  for (const ValueId out : node.outputs)
    if (out.present()) n += static_cast<double>(graph[out].type.shape.elements());
  return n;
}

std::vector<ValueId> updated_by(const Node& node) {
  std::vector<ValueId> list;
  if (node.op->in_place.empty()) return list;
  if (!node.attributes.has("tensors")) {
    for (const int in : node.op->in_place) list.push_back(node.inputs[static_cast<std::size_t>(in)]);
    return list;
  }
  const UpdateOperands operands(node.attributes, node.inputs.size());
  for (std::size_t t = 0; t < operands.tensors; ++t)
    for (std::size_t i = 0; i < operands.each; ++i)
      if (i != UpdateOperands::gradient) list.push_back(node.inputs[operands.at(t, i)]);
  return list;
}

}  // namespace tandem
