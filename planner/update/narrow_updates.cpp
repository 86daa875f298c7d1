// Updates of 16-bit plans read gradients as 16-bit kernels write them, and write the copies of the weights that such kernels
// read, where the plan's backends have updates for that: the Casts in between go.
#include <algorithm>
#include <map>

#include "graph/step_scalars.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/update/optimizer.h"

namespace tandem::pass_rows {
namespace {

// Whether the update of a parameter is offered with a gradient of this type, and with a copy of this one (undefined: without).
class Updates {
 public:
  Updates(const Graph& graph, const OptimizerOptions& optimizer, const Fuses& fuses) : rule_(update_rule(optimizer)), fuses_(fuses) {
    for (const Value& v : graph.values)
      if (v.kind == ValueKind::parameter && v.role == ValueRole::plain) types_[v.name] = v.type;
  }
  bool offered(const std::string& name, DType gradient, DType copy) const {
    const TensorType& parameter = types_.at(name);
    const bool copied = copy != DType::undefined;
    Attributes attributes = rule_.attributes;
    attributes.set("tensors", std::int64_t{1});
    if (copied) attributes.set("copies", std::int64_t{1});
    std::vector<TensorType> inputs{{DType::float32, Shape{StepScalars::count}}, parameter, {gradient, parameter.shape}};
    inputs.insert(inputs.end(), rule_.states.size(), parameter);
    if (copied) inputs.push_back({copy, parameter.shape});
    return tandem::offered(fuses_, internal_operator(rule_.op), attributes, inputs, 1 + rule_.states.size() + copied);
  }

 private:
  std::map<std::string, TensorType, std::less<>> types_;  // of parameters
  UpdateRule rule_;
  const Fuses& fuses_;
};

// Removes nodes that nothing needs any more.
void drop(Graph& graph, const std::vector<bool>& dropped) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < dropped.size(); ++n)
    if (!dropped[n]) order.push_back(n);
  arrange_nodes(graph, order);
}

// A gradient that is only cast to float32 for its update is read by that in 16 bits.
void take_narrow_gradients(Graph& graph, const Updates& updates) {
  const IdVector<ValueId, int> uses = graph.uses();
  IdVector<NodeId, bool> dropped(graph.nodes.size());
  for (GraphOutput& out : graph.outputs) {
    const NodeId producer = graph[out].producer;
    if (out.role != ValueRole::gradient || !producer.present() || uses[out] != 1) continue;
    const Node& cast = graph[producer];
    const DType narrow = graph[cast.inputs[0]].type.dtype;
    if (cast.op->name != "Cast" || !is_16_bit(narrow) || !updates.offered(out.of, narrow, DType::undefined)) continue;
    dropped[producer] = true;
    out.value = cast.inputs[0];
  }
  drop(graph, dropped);
}

// The Cast of each updated parameter to 16 bits becomes a parameter itself, which the update keeps equal: no step casts it.
void keep_narrow_copies(Graph& graph, const Updates& updates) {
  std::map<std::string, DType, std::less<>> gradients;  // of the parameters that are updated, and have no copy yet
  for (const GraphOutput& out : graph.outputs)
    if (out.role == ValueRole::gradient) gradients[out.of] = graph[out].type.dtype;
  std::vector<bool> dropped(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->name != "Cast" || !is_16_bit(graph[node.outputs[0]].type.dtype)) continue;
    const Value& parameter = graph[node.inputs[0]];
    const auto gradient = gradients.find(parameter.name);
    if (parameter.kind != ValueKind::parameter || parameter.role != ValueRole::plain || gradient == gradients.end()) continue;
    if (!updates.offered(parameter.name, gradient->second, graph[node.outputs[0]].type.dtype)) continue;
    if (std::find(graph.outputs.begin(), graph.outputs.end(), node.outputs[0]) != graph.outputs.end()) continue;
    Value& copy = graph[node.outputs[0]];
    copy.kind = ValueKind::parameter;
    copy.role = ValueRole::copy;
    copy.of = parameter.name;
    copy.producer = {};
    copy.name = concat(parameter.name, '/', copy.type.dtype);
    copy.source = parameter.source;
    copy.template_shape = parameter.template_shape;
    gradients.erase(gradient);
    dropped[n] = true;
  }
  drop(graph, dropped);
}

Graph narrow_updates(Graph graph, const OptimizerOptions& optimizer, const Fuses& fuses) {
  if (!fuses || optimizer.name == "adafactor" || optimizer.name == "muon") return graph;  // composed steps are in float32
  const Updates updates(graph, optimizer, fuses);
  take_narrow_gradients(graph, updates);
  keep_narrow_copies(graph, updates);
  return graph;
}

}  // namespace

// Takes the Casts between 16-bit kernels and updates out, where updates are offered that do without, before they are appended. Gradients
// that would only be cast for their update stay as they are. What was a Cast of an updated parameter to 16 bits becomes a parameter
// (role copy), which the update has to write.
Pass narrow_updates() {
  return {.name = "narrow_updates",
          .run = [](Graph g, PassContext& c) { return narrow_updates(std::move(g), c.options.optimizer, c.fuses); },
          .needs = differentiated,
          .when = [](const PassContext& c) { return !has_external_loss(c.options); },
          .why = "updates read 16-bit gradients and write 16-bit copies themselves"};
}

}  // namespace tandem::pass_rows
