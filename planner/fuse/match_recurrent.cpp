// LSTM, GRU and RNN as one node for all steps, where that is offered; others are written out by `expand`.
#include <algorithm>

#include "graph/operators/recurrent.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

bool is_recurrent(const Node& node) {
  return node.op->domain.empty() && (node.op->name == "LSTM" || node.op->name == "GRU" || node.op->name == "RNN");
}

Graph match_recurrent(const Graph& graph, const Fuses& fuses, bool training) {
  if (!fuses || std::none_of(graph.nodes.begin(), graph.nodes.end(), is_recurrent)) return graph;
  const Operator& op = internal_operator("RecurrentTraining");
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    if (!is_recurrent(node) || !has_usual_form(graph, node)) {
      copy.copy(node);
      continue;
    }
    const bool lstm = node.op->name == "LSTM";
    const int outputs = (lstm ? 3 : 2) + (training ? 1 : 0);
    ExpandContext context(copy.to, copy.mapped(node));
    FusedRecurrence f = fused_recurrence(context);
    std::vector<TensorType> types;
    for (const ValueId in : f.inputs) types.push_back(in.present() ? copy.to[in].type : TensorType{});
    if (!offered(fuses, op, f.attributes, types, static_cast<std::size_t>(outputs))) {
      copy.copy(node);  // what was emitted for it is read by nothing
      continue;
    }
    const std::vector<ValueId> y = context.emit(op.name, std::move(f.inputs), std::move(f.attributes), outputs);
    copy.replace(node, recurrent_outputs(context, y[0], y[1], lstm ? y[2] : ValueId{}));
  }
  return copy.finish();
}

}  // namespace

// LSTM, GRU and RNN become RecurrentTraining where that is offered and computes the same. Before they are expanded.
Pass match_recurrent() {
  return {.name = "match_recurrent",
          .run = [](Graph g, PassContext& c) { return match_recurrent(g, c.fuses, c.training()); },
          .why = "all steps in one node"};
}

}  // namespace tandem::pass_rows
