// Runs the operator's own folding function on the host; what is not foldable stays a node.
#include "importer/fold_node.h"

namespace tandem {

void fold_last_node(Graph& graph, Budget& budget) {
  const Node& node = graph.nodes.back();
  if (!node.op->fold) return;
  FoldContext context{node, {}, {}, {}};
  std::int64_t read = 0, made = 0;
  for (const ValueId in : node.inputs) {
    const bool known = in.present() && graph[in].kind == ValueKind::constant;
    if (in.present() && !known && !node.op->folds_types) return;
    if (known && !node.op->folds_types) read += bytes_of(graph[in].type);
    context.inputs.push_back(known ? *graph[in].data : Tensor());
    context.input_types.push_back(in.present() ? graph[in].type : TensorType());
  }
  for (const ValueId out : node.outputs) {
    context.outputs.push_back(graph[out].type);
    budget.make_constant(bytes_of(graph[out].type));
    made += bytes_of(graph[out].type);
  }
  budget.fold(read, made);
  const std::optional<std::vector<Tensor>> folded = node.op->fold(context);
  if (!folded) return;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor& tensor = folded->at(i);
    if (!(tensor.type() == graph[node.outputs[i]].type)) budget.make_constant(bytes_of(tensor.type()));  // its rule knew less
    Value& value = graph[node.outputs[i]];
    value.type = tensor.type();
    value.kind = ValueKind::constant;
    value.data = tensor;
    value.producer = {};
    value.depends_on_batch = false;
  }
  graph.nodes.pop_back();
}

}  // namespace tandem
