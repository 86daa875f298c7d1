#include "importer/fold_node.h"

#include <algorithm>

namespace tandem {
namespace {

std::int64_t bytes_of(const TensorType& type) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(type.shape.elements(), static_cast<std::int64_t>(size_of(type.dtype)), &bytes)) fail("its output ", type, " takes more bytes than fit in 63 bits");
  return bytes;
}

void check(const TensorType& type, std::int64_t limit) {
  if (const std::int64_t bytes = bytes_of(type); bytes > limit) fail("folding its constant operands would take ", bytes, " bytes, more than the ", limit, " allowed");
}

}  // namespace

std::optional<Tensor> fold_shape(const Graph& graph, const Draft& draft) {
  if (!draft.domain.empty() || (draft.op != "Shape" && draft.op != "Size")) return std::nullopt;
  if (draft.inputs.size() != 1 || !draft.inputs[0].present()) fail("expected one input, got ", draft.inputs.size());
  const Shape& x = graph[draft.inputs[0]].type.shape;
  if (draft.op == "Size") return Tensor::scalar(x.elements());
  const auto bound = [&](const char* name, std::int64_t absent) {
    const std::int64_t given = draft.attributes.integer(name, absent);
    return std::clamp<std::int64_t>(given < 0 ? given + x.rank() : given, 0, x.rank());
  };
  const std::int64_t start = bound("start", 0), end = std::max(start, bound("end", x.rank()));
  return Tensor::of<std::int64_t>(Shape{end - start}, std::span(x.dims).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start)));
}

void fold_last_node(Graph& graph, std::int64_t limit) {
  const Node& node = graph.nodes.back();
  if (!node.op->fold) return;
  FoldContext context{node, {}, {}};
  for (const ValueId in : node.inputs) {
    if (in.present() && graph[in].kind != ValueKind::constant) return;
    context.inputs.push_back(in.present() ? *graph[in].data : Tensor());
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
