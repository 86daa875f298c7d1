#include "planner/passes/graph_copy.h"

#include "graph/operator.h"

namespace tandem {

GraphCopy::GraphCopy(const Graph& from) : from_(from), map_(from.values.size()) {
  to.name = from.name;
  to.values.reserve(from.values.size());
  to.nodes.reserve(from.nodes.size());
  for (std::size_t i = 0; i < from.values.size(); ++i)
    if (from.values[i].kind != ValueKind::activation) map_[i] = to.add_value(from.values[i]);
  for (const ValueId in : from.inputs) to.inputs.push_back(map(in));
}

Node GraphCopy::mapped(const Node& node) const {
  Node out = node;
  for (ValueId& in : out.inputs) in = map(in);
  return out;
}

void GraphCopy::copy(const Node& node) {
  Node out = mapped(node);
  const NodeId id{static_cast<int>(to.nodes.size())};
  for (ValueId& o : out.outputs) {
    if (!o.present()) continue;
    Value value = from_[o];
    value.producer = id;
    const ValueId now = to.add_value(std::move(value));
    set(o, now);
    o = now;
  }
  to.nodes.push_back(std::move(out));
}

NodeId GraphCopy::copy(const Node& node, std::vector<ValueId> inputs, std::size_t outputs) {
  const NodeId id = to.add_node(*node.op, node.name, node.attributes, std::move(inputs), static_cast<int>(outputs), node.origin);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    ValueId& now = to[id].outputs[i];
    if (!node.outputs[i].present()) {
      now = {};
      continue;
    }
    to[now].name = from_[node.outputs[i]].name;
    to[now].depends_on_batch = from_[node.outputs[i]].depends_on_batch;
    to[now].batch = from_[node.outputs[i]].batch;
    set(node.outputs[i], now);
  }
  return id;
}

void GraphCopy::replace(const Node& node, std::span<const ValueId> now) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId old = node.outputs[i];
    if (!old.present() || i >= now.size() || !now[i].present()) continue;
    set(old, now[i]);
    Value& v = to[now[i]];
    if (v.kind == ValueKind::activation && v.name.find('/') != std::string::npos) v.name = from_[old].name;
    if (v.type != from_[old].type && !from_[old].opaque)
      fail("rewriting ", node.op->name, " '", node.name, "': output ", static_cast<int>(i), " was ", from_[old].type, ", became ", v.type);
  }
}

Graph GraphCopy::finish() {
  for (const ValueId out : from_.outputs) to.outputs.push_back(map(out));
  for (const StateUpdate& u : from_.state_updates) to.state_updates.push_back({map(u.parameter), map(u.value), u.momentum});
  return std::move(to);
}

}  // namespace tandem
