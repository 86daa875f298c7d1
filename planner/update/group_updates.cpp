// Updates of many parameters become one node, which kernels of some backends compute in one launch: those of the optimizer that do the
// same, and those of running statistics. Over several devices updates whose gradients come out of one bucket stay together, so that
// they run beside the sum of the next.
#include <algorithm>
#include <map>
#include <set>

#include "graph/updates.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{256} << 20;  // of gradients, which wait for the last of their group

// A statistic by itself, its scalars last, in the form of several: scalars first.
Node as_several(Node node) {
  if (!node.op->keeps_statistic || node.attributes.has("tensors")) return node;
  const ValueId scalars = node.inputs.size() > 2 ? node.inputs[2] : ValueId{};
  node.inputs = {scalars, node.inputs[0], node.inputs[1]};
  node.attributes.set("tensors", std::int64_t{1});
  return node;
}

Node merged(const Node& a, const Node& b) {
  Node both = a;
  both.attributes.set("tensors", a.attributes.integer("tensors") + b.attributes.integer("tensors"));
  for (const auto& [list, absent] : {std::pair{"inverse", std::int64_t{0}}, {"counts", std::int64_t{1}}}) {  // of statistics, one a tensor
    if (!a.attributes.has(list) && !b.attributes.has(list)) continue;
    Ints of_both;
    for (const Node* const node : {&a, &b}) {
      const Ints own = node->attributes.ints(list, Ints(static_cast<std::size_t>(node->attributes.integer("tensors")), absent));
      of_both.insert(of_both.end(), own.begin(), own.end());
    }
    both.attributes.set(list, std::move(of_both));
  }
  if (both.attributes.has("inverse")) both.attributes.set("epsilon", (a.attributes.has("inverse") ? a : b).attributes.real("epsilon"));
  both.inputs.insert(both.inputs.end(), b.inputs.begin() + 1, b.inputs.end());
  both.outputs.insert(both.outputs.end(), b.outputs.begin(), b.outputs.end());
  add_origin(both.origin, b.origin);
  return both;
}

// The sum over devices that brings a value; absent: none.
NodeId bucket_of(const Graph& graph, ValueId v) {
  const NodeId producer = graph[v].producer;
  if (!producer.present()) return {};
  const Node& node = graph[producer];
  if (node.op->moves == Moves::sum) return producer;
  return node.op->name == "Reshape" || node.op->name == "Transpose" || node.op->name == "Cast" ? bucket_of(graph, node.inputs[0])
                                                                                               : NodeId{};
}

// What must be the same of all in a group.
std::string key_of(const Graph& graph, const Node& node) {
  Attributes attributes = node.attributes;
  attributes.set("tensors", std::int64_t{0});
  attributes.set("inverse", Ints{});
  attributes.set("counts", Ints{});
  attributes.set("epsilon", attributes.real("epsilon", 0));
  const Value& parameter = graph[node.inputs[1]];
  return concat(node.op->name, ' ', to_string(attributes), ' ', node.inputs[0].index, ' ', parameter.type.dtype, ' ',
                parameter.placement.group, ' ', to_string(parameter.placement, graph.groups), ' ',
                node.op->keeps_statistic ? -1 : bucket_of(graph, node.inputs[2]).index);  // nothing follows a statistic that could wait
}

std::int64_t gradient_bytes(const Graph& graph, const Node& node) {
  const UpdateOperands operands(node.attributes, node.inputs.size());
  std::int64_t bytes = 0;
  for (std::size_t t = 0; t < operands.tensors; ++t) {
    const TensorType& gradient = graph[node.inputs[operands.at(t, UpdateOperands::gradient)]].type;
    bytes += bytes_of(gradient);
  }
  return bytes;
}

struct Group {
  std::size_t node;  // in whose place it stands: that of its last member
  std::int64_t bytes;
  std::set<ValueId> written;
};

Graph group_updates(Graph graph, const Fuses& fuses) {
  if (!fuses) return graph;
  std::map<std::string, Group> groups;
  std::vector<bool> gone(graph.nodes.size());
  for (std::size_t n = 0; n < gone.size(); ++n) {
    const Node node = as_several(graph.nodes[n]);
    if (node.op->in_place.empty() || !node.attributes.has("tensors")) continue;
    const std::int64_t bytes = gradient_bytes(graph, node);
    const std::vector<ValueId> written = updated_by(node);
    const auto [found, fresh] = groups.try_emplace(key_of(graph, node), Group{n, bytes, {written.begin(), written.end()}});
    Group& group = found->second;
    if (fresh) continue;
    Node both = merged(as_several(graph.nodes[group.node]), node);
    const bool twice = std::any_of(written.begin(), written.end(), [&](ValueId v) { return group.written.contains(v); });
    if (twice || group.bytes + bytes > most_bytes || !offered(fuses, graph, both, both.outputs.size())) {
      group = {n, bytes, {written.begin(), written.end()}};
      continue;
    }
    gone[group.node] = true;
    group.node = n;
    group.bytes += bytes;
    group.written.insert(written.begin(), written.end());
    graph.nodes[n] = std::move(both);
  }
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < gone.size(); ++n)
    if (!gone[n]) order.push_back(n);
  arrange_nodes(graph, order);
  verify(graph);
  return graph;
}

}  // namespace

// Updates that do the same in one node, where that is offered, one for each bucket of gradients. Last of all.
Pass group_updates() {
  return {.name = "group_updates",
          .run = [](Graph g, PassContext& c) { return group_updates(std::move(g), c.fuses); },
          .needs = {Property::updated},
          .why = "one launch in place of many"};
}

}  // namespace tandem::pass_rows
