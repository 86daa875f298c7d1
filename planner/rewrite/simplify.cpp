// Removes what does not change the result: unneeded nodes, equal computations, multiplications by one, views of parameters.
// Repeats until nothing changes, since one removal makes room for the next.
#include "planner/rewrite/simplify.h"

#include <algorithm>
#include <unordered_map>

#include "graph/views.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem {
namespace {

constexpr int most_rounds = 6;  // each is a pass over the graph; a model may hold a chain of any length that needs one for each link

bool is_one(const Value& v) { return is_float(v.type.dtype) && known_number(v) == 1.0; }

// The value that a node's (only) output equals, where the node does nothing.
std::optional<ValueId> same_as(Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  const TensorType& out = graph[node.outputs[0]].type;  // of `graph`'s own ids
  if (op == "Mul")
    for (const int i : {0, 1})
      if (is_one(graph[node.inputs[at(1 - i)]]) && graph[node.inputs[at(i)]].type == out) return node.inputs[at(i)];
  if (op == "Reshape" || op == "Expand" || op == "Cast")
    if (graph[node.inputs[0]].type == out) return node.inputs[0];
  if (op == "Transpose" && std::is_sorted(node.attributes.ints("perm").begin(), node.attributes.ints("perm").end())) return node.inputs[0];
  return std::nullopt;
}

// True where a float type holds every value of the other.
bool holds(DType wide, DType narrow) {
  return is_float(wide) && is_float(narrow) && !is_16_bit(wide) && size_of(wide) > size_of(narrow);
}

// A Reshape of a Reshape, a Transpose of a Transpose or a Cast of a Cast that lost nothing reads the first one's input.
void shorten(const Graph& graph, Node& node) {
  if (node.op->name == "Reshape") {
    if (const Node* before = made_by(graph, node.inputs[0], "Reshape")) {
      node.inputs[0] = before->inputs[0];
      node.attributes.set("shape", graph[node.outputs[0]].type.shape.dims);
      node.attributes.set("allowzero", std::int64_t{1});
    }
  } else if (node.op->name == "Transpose") {
    if (const Node* before = made_by(graph, node.inputs[0], "Transpose")) {
      const Ints first = before->attributes.ints("perm");
      Ints perm = node.attributes.ints("perm");
      for (std::int64_t& p : perm) p = first[static_cast<std::size_t>(p)];
      node.inputs[0] = before->inputs[0];
      node.attributes.set("perm", perm);
    }
  } else if (node.op->name == "Cast") {
    if (const Node* before = made_by(graph, node.inputs[0], "Cast"))
      if (holds(graph[node.inputs[0]].type.dtype, graph[before->inputs[0]].type.dtype)) node.inputs[0] = before->inputs[0];
  }
}

// Parameters of which every use is the same view (Transpose or Reshape): the view becomes the parameter.
bool absorb_views(Graph& graph) {
  bool changed = false;
  const auto users = graph.consumers();
  IdVector<ValueId, bool> is_output(graph.values.size());
  for (const ValueId v : graph.outputs) is_output[v] = true;
  IdVector<ValueId, ValueId> alias(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) alias[i] = {static_cast<int>(i)};
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    Value& v = graph.values[i];
    if (v.kind != ValueKind::parameter || users[i].empty() || is_output[i]) continue;
    const Node& first = graph[users[i][0]];
    const bool transpose = first.op->name == "Transpose";
    if (!transpose && first.op->name != "Reshape") continue;
    const Shape to = graph[first.outputs[0]].type.shape;
    const std::string attributes = to_string(first.attributes);
    if (!std::all_of(users[i].begin(), users[i].end(), [&](NodeId n) {
          return graph[n].op == first.op && graph[graph[n].outputs[0]].type.shape == to &&
                 (!transpose || to_string(graph[n].attributes) == attributes);
        }))
      continue;
    const Layout now = v.source.any() ? Layout::row_major(v.type.shape.rank()) : v.source;
    const std::optional<Layout> source = transpose ? transposed(now, first.attributes.ints("perm")) : reshaped(v.type.shape, now, to);
    if (!source) continue;
    for (const NodeId n : users[i]) alias[graph[n].outputs[0]] = {static_cast<int>(i)};
    v.type.shape = to;
    v.source = *source;
    changed = true;
  }
  if (!changed) return false;
  for (Node& node : graph.nodes)
    for (ValueId& in : node.inputs)
      if (in.present()) in = alias[in];
  for (GraphOutput& out : graph.outputs) out.value = alias[out];
  return true;
}

std::string key_of(const Node& node) {
  std::string key(node.op->name);
  for (const ValueId in : node.inputs) key += concat(',', in.index);
  return key += concat('{', node.attributes, '}', node.outputs.size());
}

Graph round(Graph graph, bool& changed) {
  changed = absorb_views(graph);
  const IdVector<NodeId, bool> needed = needed_nodes(graph);
  GraphCopy copy(graph);
  std::unordered_map<std::string, NodeId> seen;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!needed[n]) {
      changed = true;
      continue;
    }
    copy.copy(node);
    Node& now = copy.to.nodes.back();
    shorten(copy.to, now);
    std::optional<ValueId> same = now.outputs.size() == 1 ? same_as(copy.to, now) : std::nullopt;
    std::vector<ValueId> outputs;
    if (same) {
      outputs = {*same};
    } else if (now.op->in_place.empty()) {
      const auto [it, fresh] = seen.emplace(key_of(now), NodeId{static_cast<int>(copy.to.nodes.size()) - 1});
      if (!fresh) outputs = copy.to[it->second].outputs;
    }
    if (outputs.empty()) continue;
    copy.to.nodes.pop_back();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i].present()) copy.set(node.outputs[i], outputs[i]);
    changed = true;
  }
  return copy.finish();
}

}  // namespace

Graph simplify(const Graph& graph, std::vector<std::string>* warnings) {
  bool changed = true;
  Graph now = graph;
  for (int i = 0; i < most_rounds && changed; ++i) now = round(std::move(now), changed);
  if (changed && warnings)
    warnings->push_back(
        concat("the graph is not as simple as it could be: something changed in each of ", most_rounds, " rounds, and no more are made"));
  return now;
}

namespace pass_rows {

Pass simplify() {
  return {.name = "simplify",
          .run = [](Graph g, PassContext& c) { return tandem::simplify(g, &c.warnings); },
          .why = "what nothing needs goes, repeats are computed once, views of parameters become the parameter's own shape"};
}

}  // namespace pass_rows

}  // namespace tandem
