// Reverse mode: walks the nodes backwards from a scalar; each operator's own rule (graph/operators) gives its part.
#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Which values depend, through float operands, on one of the wanted ones.
IdVector<ValueId, bool> dependents(const Graph& graph, std::span<const ValueId> wanted) {
  IdVector<ValueId, bool> depends(graph.values.size());
  for (const ValueId w : wanted) depends[w] = true;
  for (const Node& node : graph.nodes) {
    bool any = false;
    for (const ValueId in : node.inputs) any = any || (in.present() && depends[in]);
    if (!any) continue;
    for (const ValueId out : node.outputs)
      if (out.present() && is_float(graph[out].type.dtype)) depends[out] = true;
  }
  return depends;
}

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId scalar, std::span<const ValueId> wanted) {
  const IdVector<ValueId, bool> depends = dependents(graph, wanted);
  IdVector<ValueId, ValueId> gradient(graph.values.size());
  GraphBuilder builder(graph, "grad", {});
  gradient[scalar] = builder.broadcast_to(builder.scalar(1, graph[scalar].type.dtype), graph[scalar].type.shape);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const std::vector<ValueId> inputs = graph.nodes[n].inputs, outputs = graph.nodes[n].outputs;
    std::vector<ValueId> dy;
    std::vector<bool> wants;
    bool flows = false, wants_any = false;
    for (const ValueId out : outputs) {
      dy.push_back(out.present() && static_cast<std::size_t>(out.index) < gradient.size() ? gradient[out] : ValueId{});
      flows = flows || dy.back().present();
    }
    for (const ValueId in : inputs) {
      wants.push_back(in.present() && static_cast<std::size_t>(in.index) < depends.size() && depends[in]);
      wants_any = wants_any || wants.back();
    }
    if (!flows || !wants_any) continue;
    const Operator& op = *graph.nodes[n].op;
    if (!op.differentiate) fail(op.name, " '", graph.nodes[n].name, "': this operator has no gradient, and the loss depends on a trainable parameter through it");
    // A fused Relu is undone first, by its output's sign.
    const bool masked = graph.nodes[n].attributes.has("activation") && !op.undoes_activation;
    if (masked) {
      dy[0] = GraphBuilder(graph, concat("grad/", graph.nodes[n].name), graph.nodes[n].origin).emit("ReluBackward", {dy[0], outputs[0]});
      graph.nodes[n].attributes.erase("activation");
    }
    GradientContext context(graph, {static_cast<int>(n)}, std::move(dy), std::move(wants));
    if (masked) graph.nodes[n].attributes.set("activation", std::string("Relu"));
    op.differentiate(context);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId dx = context.dx()[i];
      if (!dx.present()) continue;
      ValueId& sum = gradient[inputs[i]];
      sum = sum.present() ? GraphBuilder(graph, concat("grad/", graph[inputs[i]].name), graph.nodes[n].origin).add(sum, dx) : dx;
    }
  }
  std::vector<ValueId> result;
  for (const ValueId w : wanted) result.push_back(gradient[w]);
  return result;
}

}  // namespace tandem
