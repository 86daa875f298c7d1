// Passes that rewrite node by node map each old value to a new one here; those that only move or drop nodes arrange them.
#include "planner/rewrite/graph_copy.h"

#include <algorithm>
#include <set>

#include "graph/operator.h"

namespace tandem {

GraphCopy::GraphCopy(const Graph& from) : from_(from), map_(from.values.size()) {
  to.name = from.name;
  to.groups = from.groups;
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
    to[now].role = from_[node.outputs[i]].role;
    to[now].of = from_[node.outputs[i]].of;
    lies_as(now, node.outputs[i]);
    set(node.outputs[i], now);
  }
  return id;
}

void GraphCopy::lies_as(ValueId now, ValueId old) {
  to[now].depends_on_batch = from_[old].depends_on_batch;
  to[now].batch = from_[old].batch;
  to[now].placement = from_[old].placement;
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
  for (const GraphOutput& out : from_.outputs) to.outputs.emplace_back(map(out), out.role, out.of);
  put_updates_last(to);
  return std::move(to);
}

void add_origin(std::vector<std::string>& origin, const std::vector<std::string>& more) {
  for (const std::string& node : more)
    if (std::find(origin.begin(), origin.end(), node) == origin.end()) origin.push_back(node);
}

std::vector<std::string> origin_of(const Graph& graph, const Node& last, std::span<const ValueId> operands) {
  std::set<NodeId> between;
  std::vector<ValueId> open = last.inputs;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!v.present() || !graph[v].producer.present() || std::find(operands.begin(), operands.end(), v) != operands.end()) continue;
    if (!between.insert(graph[v].producer).second) continue;
    const std::vector<ValueId>& inputs = graph[graph[v].producer].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  std::vector<std::string> origin = last.origin;
  for (const NodeId n : between) add_origin(origin, graph[n].origin);
  return origin;
}

void arrange_nodes(Graph& graph, std::span<const std::size_t> order) {
  for (const Node& node : graph.nodes)
    for (const ValueId out : node.outputs)
      if (out.present()) graph[out].producer = {};
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const std::size_t n : order) {
    for (const ValueId out : graph.nodes[n].outputs)
      if (out.present()) graph[out].producer = {static_cast<int>(nodes.size())};
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);
}

void drop_unread(Graph& graph, bool (*kept)(const Node&)) {
  const IdVector<NodeId, bool> needed = needed_nodes(graph, kept);
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < needed.size(); ++n)
    if (needed[n]) order.push_back(n);
  arrange_nodes(graph, order);
}

namespace {

enum class Place { computes, optimizes, updates };

Place place_of(const Node& node) {
  if (node.op->in_place.empty()) return Place::computes;
  return node.attributes.has("tensors") && !node.op->keeps_statistic ? Place::optimizes : Place::updates;
}

std::vector<std::size_t> nodes_of(const Graph& graph, std::initializer_list<Place> places) {
  std::vector<std::size_t> list;
  for (const Place place : places)
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (place_of(graph.nodes[n]) == place) list.push_back(n);
  return list;
}

}  // namespace

void put_updates_last(Graph& graph) { arrange_nodes(graph, nodes_of(graph, {Place::computes, Place::optimizes, Place::updates})); }

Graph without_updates(Graph graph) {
  arrange_nodes(graph, nodes_of(graph, {Place::computes}));
  return graph;
}

std::vector<ValueId> trainable_parameters(const Graph& graph) {
  std::vector<ValueId> list;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].kind == ValueKind::parameter && graph.values[i].trainable) list.push_back({static_cast<int>(i)});
  return list;
}

ValueId parameter_named(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (const Value& v = graph.values[i]; v.kind == ValueKind::parameter && v.role == ValueRole::plain && v.name == name)
      return {static_cast<int>(i)};
  return {};
}

ValueId output_as(const Graph& graph, ValueRole role, std::string_view of) {
  for (const GraphOutput& out : graph.outputs)
    if (out.role == role && out.of == of) return out;
  fail("graph '", graph.name, "' gives no ", name_of(role), of.empty() ? "" : " ", of);
}

}  // namespace tandem
