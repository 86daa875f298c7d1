// Straight-through estimators: a model rounds x, or takes the likeliest of its classes, and is trained as if it had not. It is written
// as x + (y − x).detach(). Where the file does not say the detach (importer/weights/detached.h), no gradient is left as it stands.
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

// x + (y − x) or (y + x) − x.
struct Form {
  ValueId x, y;
  bool joined;  // y itself is not detached
};

std::optional<Form> form_of(const Graph& graph, const Node& node) {
  const auto alike = [&](ValueId v) { return graph[v].type == graph[node.outputs[0]].type; };
  const bool adds = node.op->name == "Add";
  if ((!adds && node.op->name != "Sub") || !is_float(graph[node.outputs[0]].type.dtype)) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const ValueId x = node.inputs[i];
    const Node* const inner = made_by(graph, node.inputs[1 - i], adds ? "Sub" : "Add");
    if (!inner || !alike(x) || (!adds && i == 0)) continue;
    for (const std::size_t k : {0, 1})
      if (inner->inputs[k] == x && (!adds || k == 1) && alike(inner->inputs[1 - k])) return Form{x, inner->inputs[1 - k], !adds};
  }
  return std::nullopt;
}

bool is_computed_from(const Graph& graph, ValueId y, ValueId x) {
  IdVector<ValueId, bool> reached(graph.values.size());
  reached[x] = true;
  for (const Node& node : graph.nodes) {
    bool any = false;
    for (const ValueId in : node.inputs) any = any || (in.present() && reached[in]);
    if (any)
      for (const ValueId out : node.outputs)
        if (out.present()) reached[out] = true;
  }
  return reached[y];
}

bool gradient_flows(const Graph& graph, ValueId y, std::span<const ValueId> to) {
  Graph trial = graph;
  for (const ValueId dx : differentiate(trial, y, to))
    if (dx.present()) return true;
  return false;
}

Graph match_straight_through(const Graph& graph, std::vector<std::string>& warnings) {
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    const std::optional<Form> form = node.outputs.size() == 1 ? form_of(graph, node) : std::nullopt;
    std::vector<ValueId> blocked;
    if (form) blocked = form->joined ? trainable_parameters(graph) : std::vector<ValueId>{};
    if (form) blocked.push_back(form->x);
    if (!form || !is_computed_from(graph, form->y, form->x) || gradient_flows(graph, form->y, blocked)) {
      copy.copy(node);
      continue;
    }
    warnings.push_back(concat(node.op->name, " '", node.name, "' gives '", graph[form->y].name, "', and its gradient goes to '",
                              graph[form->x].name,
                              "': no gradient flows from the one to the other, and x + (y - x) is how models pass it by"));
    const NodeId id =
        copy.to.add_node(internal_operator("StraightThrough"), node.name, {}, {copy.map(form->x), copy.map(form->y)}, 1, node.origin);
    const ValueId out = copy.to[id].outputs[0];
    copy.to[out].name = graph[node.outputs[0]].name;
    copy.set(node.outputs[0], out);
  }
  return copy.finish();
}

Graph drop_straight_through(const Graph& graph) {
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes)
    if (node.op->name == "StraightThrough" || node.op->name == "StopGradient")
      copy.set(node.outputs[0], copy.map(node.inputs.back()));
    else
      copy.copy(node);
  return copy.finish();
}

}  // namespace

// x + (y − x) and (y + x) − x, where y is computed from x and no gradient flows back from it to x, become StraightThrough(x, y), and a
// warning says so: a file cannot say that (y − x), or the last x, is detached. Once composites are expanded.
Pass match_straight_through() {
  return {.name = "match_straight_through",
          .run = [](Graph g, PassContext& c) { return match_straight_through(g, c.warnings); },
          .needs = {Property::primitive},
          .why = "models with discrete values are trained as if they had not rounded"};
}

// StraightThrough(x, y) is y and StopGradient(x) is x: after differentiation, and in predictions wherever they come from.
Pass drop_straight_through() {
  return {.name = "drop_straight_through",
          .run = [](Graph g, PassContext&) { return drop_straight_through(g); },
          .needs = {Property::gradients},
          .why = "what says something of gradients alone computes nothing",
          .required = "kernels know neither StraightThrough nor StopGradient"};
}

}  // namespace tandem::pass_rows
