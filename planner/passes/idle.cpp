// A device without samples adds zeros to every sum and updates its replica like the others: what is left of the graph are the
// sums and what the updates compute from them.
#include "planner/passes/graph_copy.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

bool is_sum(const Node& node) { return node.op->name == "AllReduce"; }

// Sums, updates, and what lies between them.
std::vector<bool> kept_nodes(const Graph& graph) {
  IdVector<ValueId, bool> needed(graph.values.size());
  std::vector<bool> kept(graph.nodes.size());
  for (std::size_t n = kept.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    kept[n] = is_sum(node) || !node.op->in_place.empty();
    for (const ValueId out : node.outputs) kept[n] = kept[n] || (out.present() && needed[out]);
    if (!kept[n] || is_sum(node)) continue;
    for (const ValueId in : node.inputs)
      if (in.present()) needed[in] = true;
  }
  return kept;
}

}  // namespace

Graph idle(const Graph& busy) {
  GraphCopy copy(busy);
  GraphBuilder builder(copy.to, "idle", {});
  const auto zeros = [&](ValueId v) {
    const TensorType& t = busy[v].type;
    const ValueId z = builder.emit("Fill", {}, {{"value", 0.0F}, {"shape", t.shape.dims}, {"dtype", static_cast<std::int64_t>(t.dtype)}});
    copy.to[z].name = busy[v].name;
    return z;
  };
  const std::vector<bool> kept = kept_nodes(busy);
  for (std::size_t n = 0; n < kept.size(); ++n) {
    if (!kept[n]) continue;
    if (is_sum(busy.nodes[n]))
      for (const ValueId part : busy.nodes[n].inputs) copy.set(part, zeros(part));
    copy.copy(busy.nodes[n]);
  }
  for (const GraphOutput& out : busy.outputs) {
    const bool computed = copy.map(out).present() && !busy[out].producer.present();
    copy.to.outputs.emplace_back(computed ? copy.map(out) : zeros(out), out.role, out.of);
  }
  verify(copy.to);
  return std::move(copy.to);
}

}  // namespace tandem
