// Runs the operator's own folding function on the host, or, for a composite, those of the operators that it expands to; what is not
// foldable stays a node.
#include "importer/build/fold_node.h"

namespace tandem {
namespace {

using Folded = std::optional<std::vector<Tensor>>;

Folded evaluate(const FoldContext& context, Budget& budget);

// A composite's parts, one by one. It is expanded as for training: what is random then, or learns, is not folded.
Folded evaluate_parts(const FoldContext& context, Budget& budget) {
  Graph graph;
  Node node = context.node;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].present()) node.inputs[i] = graph.add_constant(concat("x", i), context.inputs[i]);
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i].present()) node.outputs[i] = graph.add_value({.type = context.outputs[i]});
  ExpandContext e(graph, node);
  e.training = true;
  const std::vector<ValueId> results = node.op->expand(e);
  if (results.empty()) return std::nullopt;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node part = graph.nodes[n];
    FoldContext of_part{part, {}, {}, {}};
    for (const ValueId in : part.inputs) {
      if (in.present() && graph[in].kind != ValueKind::constant) return std::nullopt;
      of_part.inputs.push_back(in.present() ? *graph[in].data : Tensor());
      of_part.input_types.push_back(in.present() ? graph[in].type : TensorType());
    }
    for (const ValueId out : part.outputs) of_part.outputs.push_back(out.present() ? graph[out].type : TensorType());
    const Folded folded = evaluate(of_part, budget);
    if (!folded) return std::nullopt;
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      if (!part.outputs[i].present()) continue;
      Value& value = graph[part.outputs[i]];
      value.kind = ValueKind::constant;
      value.data = folded->at(i);
      value.type = value.data->type();
    }
  }
  std::vector<Tensor> tensors;
  for (const ValueId id : results) {
    if (id.present() && graph[id].kind != ValueKind::constant) return std::nullopt;
    tensors.push_back(id.present() ? *graph[id].data : Tensor());
  }
  return tensors;
}

Folded evaluate(const FoldContext& context, Budget& budget) {
  const Operator& op = *context.node.op;
  if (!op.fold && (!op.expand || context.node.inputs.empty())) return std::nullopt;
  std::int64_t read = 0, made = 0;
  for (const Tensor& in : context.inputs)
    if (in.elements() > 0 && !op.folds_types) read += bytes_of(in.type());
  for (const TensorType& out : context.outputs) {
    budget.make_constant(bytes_of(out));
    made += bytes_of(out);
  }
  budget.fold(read, made);
  return op.fold ? op.fold(context) : evaluate_parts(context, budget);
}

}  // namespace

void fold_last_node(Graph& graph, Budget& budget) {
  const Node& node = graph.nodes.back();
  if (!node.op->fold && !node.op->expand) return;
  FoldContext context{node, {}, {}, {}};
  for (const ValueId in : node.inputs) {
    const bool known = in.present() && graph[in].kind == ValueKind::constant;
    if (in.present() && !known && !(node.op->fold && node.op->folds_types)) return;
    context.inputs.push_back(known ? *graph[in].data : Tensor());
    context.input_types.push_back(in.present() ? graph[in].type : TensorType());
  }
  for (const ValueId out : node.outputs) context.outputs.push_back(graph[out].type);
  Folded folded;
  try {
    folded = evaluate(context, budget);
  } catch (const Error&) {
    if (node.op->fold) throw;
    return;  // a composite that is too large to fold has kernels
  }
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
