#include "planner/watch.h"

#include <map>

#include "graph/operator.h"
#include "planner/loss/attach_loss.h"
#include "planner/loss/labels.h"
#include "planner/loss/loss_value.h"
#include "planner/passes/freeze.h"
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/expand.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/simplify.h"

namespace tandem {
namespace {

std::string maker(const Graph& graph, const Value& v, std::size_t forward_nodes) {
  if (v.kind == ValueKind::input) return concat("input '", v.name, "'");
  if (v.kind == ValueKind::parameter) return concat("parameter '", v.name, "'");
  const Node& node = graph[v.producer];
  const std::string name = node.origin.empty() ? node.name : node.origin[0];
  if (static_cast<std::size_t>(v.producer.index) < forward_nodes) return concat(node.op->name, " '", name, "'");
  return concat("the gradient of '", name, "' (", node.op->name, ")");
}

}  // namespace

Watched watch(const Graph& model, std::span<const Labels> losses, const CompileOptions& o, std::int64_t samples) {
  std::vector<std::string> said;  // by the plan
  Graph graph = freeze(model, o, said);
  const std::vector<ValueId> logits = logits_of(model, o);
  graph.outputs.assign(logits.begin(), logits.end());
  graph = without_updates(simplify(expand(graph, true)));
  attach_loss(graph, losses, samples, o, false);
  graph.outputs.erase(graph.outputs.begin() + 1, graph.outputs.end());
  graph = simplify(graph);
  const std::size_t forward = graph.nodes.size();
  differentiate(graph, graph.outputs[0], trainable_parameters(graph));

  Watched w;
  std::vector<ValueId> watched;
  std::map<int, std::size_t> number;
  const auto take = [&](ValueId id) {
    const Value& v = graph[id];
    if (!is_float(v.type.dtype) || v.opaque || v.type.shape.elements() == 0 || number.contains(id.index)) return;
    Watch watch{.made_by = maker(graph, v, forward), .value = v.name, .operands = {}};
    if (v.producer.present())
      for (const ValueId in : graph[v.producer].inputs)
        if (const auto it = in.present() ? number.find(in.index) : number.end(); it != number.end()) watch.operands.push_back(it->second);
    number[id.index] = watched.size();
    watched.push_back(id);
    w.watches.push_back(std::move(watch));
  };
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].kind == ValueKind::input || graph.values[i].kind == ValueKind::parameter) take({static_cast<int>(i)});
  for (const Node& node : graph.nodes)
    for (const ValueId out : node.outputs)
      if (out.present()) take(out);

  GraphBuilder b(graph, "watch", {});
  graph.outputs.clear();
  for (const ValueId v : watched) {
    const ValueId flat = b.reshape(v, Shape{b.shape(v).elements()});
    const Attributes all{{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}};
    for (const ValueId x : {b.reduce_sum(b.mul(flat, 0.0), {0}, false), b.emit("ReduceMin", {flat}, all), b.emit("ReduceMax", {flat}, all)})
      graph.outputs.push_back(x);
  }
  w.graph = std::move(graph);
  return w;
}

}  // namespace tandem
