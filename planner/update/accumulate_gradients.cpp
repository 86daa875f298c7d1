// The gradients of micro-batches add up: what a step sums over devices and updates by is their sum. Running statistics, too, follow all
// micro-batches at once, in the step's update, which may leave them as they were.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "graph/operator.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

class Accumulation {
 public:
  Accumulation(Graph& graph, std::int64_t micro_batches, bool keeps_parts)
      : graph_(graph), uses_(graph.uses()), micro_batches_(micro_batches), keeps_parts_(keeps_parts), taken_(graph.nodes.size()) {}

  void run() {
    for (GraphOutput& out : graph_.outputs)
      if (out.role == ValueRole::gradient)
        out.value = summed(out.value, [&](ValueId v) {
          const auto [sum, fresh] = sums_.try_emplace(v, ValueId{});
          if (fresh) sum->second = sum_of(v, "Accumulate", {});
          return sum->second;
        });
    for (std::size_t n = 0; n < taken_; ++n)
      if (graph_.nodes[n].op->keeps_statistic) follow_once(n);
    std::vector<std::size_t> order;
    for (std::size_t n = 0; n < taken_; ++n) {
      order.push_back(n);
      if (const auto behind = behind_.find(static_cast<int>(n)); behind != behind_.end())
        order.insert(order.end(), behind->second.begin(), behind->second.end());
    }
    if (const auto behind = behind_.find(-1); behind != behind_.end())
      order.insert(order.begin(), behind->second.begin(), behind->second.end());
    arrange_nodes(graph_, order);
  }

 private:
  // The gradient, or what a statistic follows, of what `sum` makes of the micro-batches' addends. What devices exchange of it they exchange
  // once, of the sum; but gradients that devices keep in parts are summed as such, and so is what a micro-batch itself reads (of a
  // synchronized normalization).
  ValueId summed(ValueId gradient, const std::function<ValueId(ValueId)>& sum) {
    std::vector<NodeId> moves;  // the last first
    std::size_t kept = 0;
    ValueId v = gradient;
    for (NodeId n = graph_[v].producer; n.present() && uses_[v] == 1 && graph_[n].inputs.size() == 1 && brings(graph_[n]);
         n = graph_[v].producer) {
      if (graph_[n].op->moves != Moves::nothing && !(keeps_parts_ && graph_[n].op->moves == Moves::scatter)) kept = moves.size() + 1;
      if (keeps_parts_ && graph_[n].op->moves == Moves::scatter) break;
      moves.push_back(n);
      v = graph_[n].inputs[0];
    }
    moves.resize(kept);
    v = kept > 0 ? graph_[moves.back()].inputs[0] : gradient;
    const ValueId made = sum(v);
    if (kept == 0) return made;
    graph_[moves.back()].inputs[0] = made;
    return gradient;
  }
  static bool brings(const Node& n) { return n.op->moves != Moves::nothing || n.op->name == "Transpose" || n.op->name == "Reshape"; }

  // With r' = m·r + (1 − m)·v for each of M micro-batches, r moves to m^M·r + s, where s are the same steps from 0.
  void follow_once(std::size_t n) {
    const Attributes each = graph_.nodes[n].attributes;
    const double all = std::pow(static_cast<double>(each.real("momentum")), static_cast<double>(micro_batches_));
    const ValueId value = summed(graph_.nodes[n].inputs[1], [&](ValueId v) {
      const ValueId moved = sum_of(v, "AccumulateStatistic", each);
      graph_[moved].role = ValueRole::statistic;
      return all < 1 ? times(moved, 1 / (1 - all)) : moved;
    });
    Node& node = graph_.nodes[n];
    node.inputs[1] = value;
    node.attributes.set("momentum", static_cast<float>(all));
    node.attributes.erase("counts");
  }

  ValueId times(ValueId v, double factor) {
    const Value value = graph_[v];
    GraphBuilder b(graph_, concat(value.name, "/mean"), {});
    const std::size_t first = graph_.nodes.size();
    const ValueId product = b.mul(v, factor);
    graph_[product].placement = value.placement;
    std::vector<std::size_t>& behind = behind_[producer_of_.at(v)];
    for (std::size_t n = first; n < graph_.nodes.size(); ++n) behind.push_back(n);
    return product;
  }

  ValueId sum_of(ValueId v, std::string_view op, Attributes attributes) {
    const Value value = graph_[v];
    GraphBuilder b(graph_, concat(value.name, "/sum"), {});
    const std::size_t first = graph_.nodes.size();
    const ValueId zeros =
        b.emit("Fill", {}, {{"value", 0.0F}, {"shape", value.type.shape.dims}, {"dtype", static_cast<std::int64_t>(value.type.dtype)}});
    const ValueId sum = b.emit(op, {zeros, v}, std::move(attributes));
    for (const ValueId made : {zeros, sum}) {
      graph_[made].placement = value.placement;
      graph_[made].role = value.role;
      graph_[made].of = value.of;
    }
    std::vector<std::size_t>& behind = behind_[value.producer.index];
    for (std::size_t n = first; n < graph_.nodes.size(); ++n) behind.push_back(n);
    producer_of_[sum] = value.producer.index;
    return sum;
  }

  Graph& graph_;
  const IdVector<ValueId, int> uses_;  // of the graph as it was
  const std::int64_t micro_batches_;
  const bool keeps_parts_;
  const std::size_t taken_;
  std::map<ValueId, ValueId> sums_;
  std::map<ValueId, int> producer_of_;              // by sum: the node behind which it stands
  std::map<int, std::vector<std::size_t>> behind_;  // by node: what comes behind it
};

Graph accumulate_gradients(Graph graph, const CompileOptions& o) {
  Accumulation(graph, o.parallel.micro_batches, o.parallel.zero > 1).run();
  return graph;
}

}  // namespace

// Sums of gradients, and what running statistics follow, over the micro-batches of a step.
Pass accumulate_gradients() {
  return {.name = "accumulate_gradients",
          .run = [](Graph g, PassContext& c) { return accumulate_gradients(std::move(g), c.options); },
          .needs = differentiated,
          .when = [](const PassContext& c) { return c.options.parallel.micro_batches > 1; },
          .why = "parameters are updated once a step",
          .required = "a step updates by the gradient of all of its micro-batches"};
}

}  // namespace tandem::pass_rows
