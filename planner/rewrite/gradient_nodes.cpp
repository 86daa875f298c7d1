// ai.onnx.preview.training's Gradient: what lies between the values that it names and y is computed once more of its operands, which
// may be other values, and differentiated. Where they are the same values, simplify finds that it was computed before.
#include <algorithm>

#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/graph_copy.h"

namespace tandem {
namespace {

// Nodes that y is computed by, but for those before the values that stay as they are.
std::vector<bool> nodes_of(const Graph& graph, ValueId y, const IdVector<ValueId, ValueId>& now) {
  std::vector<bool> nodes(graph.nodes.size());
  std::vector<ValueId> open{y};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const NodeId producer = graph[v].producer;
    if (!producer.present() || now[v].present() || nodes[static_cast<std::size_t>(producer.index)]) continue;
    nodes[static_cast<std::size_t>(producer.index)] = true;
    for (const ValueId in : graph[producer].inputs)
      if (in.present()) open.push_back(in);
  }
  return nodes;
}

// y as the values `now` make it; nothing else than what depends on them is computed anew.
ValueId computed_anew(Graph& graph, ValueId y, IdVector<ValueId, ValueId> now) {
  const std::vector<bool> wanted = nodes_of(graph, y, now);
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    Node node = graph.nodes[n];
    const bool depends = std::ranges::any_of(node.inputs, [&](ValueId in) { return in.present() && now[in].present(); });
    if (!wanted[n] || !depends) continue;
    for (ValueId& in : node.inputs)
      if (in.present() && now[in].present()) in = now[in];
    const NodeId id{static_cast<int>(graph.nodes.size())};
    for (ValueId& out : node.outputs) {
      if (!out.present()) continue;
      Value value = graph[out];
      value.name += "/again";
      value.producer = id;
      const ValueId made = graph.add_value(std::move(value));
      now[out] = made;
      out = made;
    }
    graph.nodes.push_back(std::move(node));
  }
  return now[y].present() ? now[y] : y;
}

std::vector<ValueId> gradients_of(Graph& graph, const Node& node) {
  const auto count = static_cast<std::size_t>(node.attributes.integer("operands")),
             wanted = static_cast<std::size_t>(node.attributes.integer("differentiated"));
  GraphBuilder b(graph, node.name, node.origin);
  IdVector<ValueId, ValueId> now(graph.values.size() + count);
  std::vector<ValueId> xs;
  for (std::size_t i = 0; i < count; ++i) {
    // A value of its own: none of xs and zs depends on another.
    const ValueId x = b.emit("Identity", {node.inputs[i]});
    now[node.inputs[count + i]] = x;
    if (i < wanted) xs.push_back(x);
  }
  const ValueId y = computed_anew(graph, node.inputs[2 * count], std::move(now));
  std::vector<ValueId> gradients = differentiate(graph, y, xs);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].present()) gradients[i] = b.broadcast_to(b.scalar(0, b.type(xs[i]).dtype), b.shape(xs[i]));
  return gradients;
}

}  // namespace

bool is_gradient(const Operator& op) { return op.name == "Gradient" && op.domain == "ai.onnx.preview.training"; }

Graph differentiate_first(const Graph& graph) {
  GraphCopy copy(graph);
  bool done = false;
  for (const Node& node : graph.nodes) {
    if (done || !is_gradient(*node.op)) {
      copy.copy(node);
      continue;
    }
    copy.replace(node, gradients_of(copy.to, copy.mapped(node)));
    done = true;
  }
  return copy.finish();
}

}  // namespace tandem
