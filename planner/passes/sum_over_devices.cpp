// What a device computes of its part of the batch, and updates need of the whole: gradients and the statistics of the batch.
// The loss is a sum over the samples of all devices, so each device's gradients are a part of a sum.
#include "planner/passes/graph_copy.h"
#include "planner/passes/pass.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

ValueId sum(Graph& graph, ValueId part, ValueRole role, const std::string& of) {
  const NodeId node = graph.add_node(internal_operator("AllReduce"), concat("sum/", of), {}, {part}, 1);
  const ValueId whole = graph[node].outputs[0];
  graph[whole].role = role;
  graph[whole].of = of;
  return whole;
}

}  // namespace

Graph sum_over_devices(Graph graph, const PassContext& c) {
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const GraphOutput out = graph.outputs[i];
    if (out.role == ValueRole::gradient) graph.outputs[i].value = sum(graph, out, out.role, out.of);
  }
  // A running statistic moves towards the mean of the devices' own ones, each weighted by its share of the batch; where they
  // are synchronized it is the whole batch's already.
  const double share = static_cast<double>(c.samples) / static_cast<double>(c.options.batch);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op->name != "RunningStatistics" || c.synchronized()) continue;
    const std::string statistic = graph[graph.nodes[n].inputs[0]].name;
    const ValueId part = GraphBuilder(graph, concat("statistics/", statistic), {}).mul(graph.nodes[n].inputs[1], share);
    const ValueId whole = sum(graph, part, ValueRole::statistic, statistic);
    graph.nodes[n].inputs[1] = whole;
  }
  put_updates_last(graph);
  return graph;
}

}  // namespace tandem
