#include "importer/fold_node.h"

namespace tandem {
namespace {

std::int64_t bytes_of(const TensorType& type) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(type.shape.elements(), static_cast<std::int64_t>(size_of(type.dtype)), &bytes))
    fail("its output ", type, " takes more bytes than fit in 63 bits");
  return bytes;
}

void check(const TensorType& type, std::int64_t limit) {
  if (const std::int64_t bytes = bytes_of(type); bytes > limit)
    fail("folding its constant operands would take ", bytes, " bytes, more than the ", limit, " allowed");
}

}  // namespace

void fold_last_node(Graph& graph, std::int64_t limit) {
  const Node& node = graph.nodes.back();
  if (!node.op->fold) return;
  FoldContext context{node, {}, {}, {}};
  for (const ValueId in : node.inputs) {
    const bool known = in.present() && graph[in].kind == ValueKind::constant;
    if (in.present() && !known && !node.op->folds_types) return;
    context.inputs.push_back(known ? *graph[in].data : Tensor());
    context.input_types.push_back(in.present() ? graph[in].type : TensorType());
  }
  for (const ValueId out : node.outputs) {
    context.outputs.push_back(graph[out].type);
    check(graph[out].type, limit);
  }
  const std::optional<std::vector<Tensor>> folded = node.op->fold(context);
  if (!folded) return;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor& tensor = folded->at(i);
    check(tensor.type(), limit);
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
