// Asks the backends in a plan's words: a graph of one node gives the types of its outputs, and the request is made of that.
#include "planner/rewrite/fusing.h"

#include <algorithm>

namespace tandem {

std::function<Gain(const KernelRequest&)> gains_on(const CompileOptions& options, Backends backends) {
  std::vector<const Backend*> used;
  for (const int d : computing_devices(options))
    if (const Backend* const b = &find_backend(backends, options.devices[at(d)].id.backend);
        std::find(used.begin(), used.end(), b) == used.end())
      used.push_back(b);
  return [used = std::move(used), kernel = options.kernel](const KernelRequest& asked) {
    KernelRequest request = asked;
    request.options = kernel;
    Gain least = used.empty() ? Gain::no : Gain::yes;
    for (const Backend* b : used) least = std::min(least, b->fuses(request));
    return least;
  };
}

bool offered(const Fuses& fuses, const Operator& op, const Attributes& attributes, const std::vector<TensorType>& inputs,
             std::size_t outputs) {
  if (!fuses) return false;
  Graph graph;  // of this node alone
  std::vector<ValueId> in;
  for (const TensorType& type : inputs) in.push_back(type.dtype == DType::undefined ? ValueId{} : graph.add_input({}, type));
  const Node& node = graph[graph.add_node(op, {}, attributes, std::move(in), static_cast<int>(outputs))];
  KernelRequest request{.op = op.name, .attributes = &node.attributes};
  const auto operand = [&](ValueId v) { return v.present() ? Operand{graph[v].type.dtype, graph[v].type.shape, {}} : Operand{}; };
  for (const ValueId v : node.inputs) request.inputs.push_back(operand(v));
  for (const ValueId v : node.outputs) request.outputs.push_back(operand(v));
  return fuses(request);
}

bool offered(const Fuses& fuses, const Graph& graph, const Node& node, std::size_t outputs) {
  std::vector<TensorType> inputs;
  for (const ValueId v : node.inputs) inputs.push_back(v.present() ? graph[v].type : TensorType{});
  return offered(fuses, *node.op, node.attributes, inputs, outputs);
}

}  // namespace tandem
