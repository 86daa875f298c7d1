// A micro-batch goes forward to its losses and back to the gradients of parameters; all of them together end in the update.
#include "planner/place/find_phases.h"

#include <algorithm>

#include "graph/operator.h"

namespace tandem {
namespace {

class Phases {
 public:
  Phases(Graph& graph, bool gather_again, bool split_backward)
      : graph_(graph),
        gather_again_(gather_again),
        split_backward_(split_backward),
        of_batch_(graph.values.size()),
        of_sums_(graph.values.size()),
        read_(graph.values.size()) {}

  void run() {
    follow_batch();
    find_forward();
    if (split_backward_) find_weights();
    find_chunks();
  }

 private:
  bool any(const Node& node, const IdVector<ValueId, bool>& values) const {
    return std::ranges::any_of(node.inputs, [&](ValueId v) { return v.present() && values[v]; });
  }

  // From the inputs on: what each micro-batch has of its own, and what follows from the sums of all.
  void follow_batch() {
    for (const ValueId in : graph_.inputs) of_batch_[in] = graph_[in].role != ValueRole::step_state || graph_[in].of != step_scalars;
    for (Node& node : graph_.nodes) {
      const bool again = gather_again_ && is_exchange(node);
      const bool sums = any(node, of_sums_), batch = !sums && (any(node, of_batch_) || again || node.op->keeps_statistic);
      node.phase = batch || node.op->accumulates ? Phase::backward : sums ? Phase::update : Phase::prepare;
      for (const ValueId out : node.outputs) {
        if (!out.present()) continue;
        of_batch_[out] = batch && !node.op->accumulates;
        of_sums_[out] = sums || node.op->accumulates;
      }
    }
  }

  // Backwards from what a micro-batch gives: what leads to it is forward. What only the update reads is computed there.
  void find_forward() {
    IdVector<ValueId, bool> early(graph_.values.size());
    for (const GraphOutput& out : graph_.outputs)
      if (!is_gradient(out)) read_[out] = early[out] = true;
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      Node& node = graph_.nodes[n];
      const auto is = [&](const IdVector<ValueId, bool>& values) {
        return std::ranges::any_of(node.outputs, [&](ValueId v) { return v.present() && values[v]; });
      };
      const bool moves_statistic = node.op->accumulates && graph_[node.outputs[0]].role == ValueRole::statistic;
      if (node.phase == Phase::backward && (node.op->keeps_statistic || moves_statistic || is(read_))) node.phase = Phase::forward;
      if (node.phase == Phase::prepare && !is(early) && !node.op->accumulates) node.phase = Phase::update;
      for (const ValueId in : node.inputs) {
        if (!in.present()) continue;
        if (node.phase == Phase::forward) read_[in] = true;
        if (node.phase != Phase::update) early[in] = true;
      }
    }
  }

  // Backwards from what is sent: what leads to it is not put off.
  void find_weights() {
    IdVector<ValueId, bool> awaited(graph_.values.size());
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      Node& node = graph_.nodes[n];
      if (node.phase != Phase::backward) continue;
      const bool sends = node.op->moves == Moves::send;
      if (!sends && std::ranges::none_of(node.outputs, [&](ValueId v) { return v.present() && awaited[v]; })) node.phase = Phase::weights;
      if (node.phase == Phase::backward)
        for (const ValueId in : node.inputs)
          if (in.present()) awaited[in] = true;
    }
  }

  // One that a caller asked for, of a parameter or of an input.
  static bool is_gradient(const GraphOutput& out) {
    return (out.role == ValueRole::metric || out.role == ValueRole::measure) && out.of.starts_with("gradient/");
  }

  // Groups of the same devices are chunks of layers, in their order.
  void find_chunks() {
    if (graph_.groups.size() < 2) return;
    std::vector<int> chunk(graph_.groups.size(), 0);
    for (std::size_t g = 0; g < chunk.size(); ++g)
      chunk[g] = static_cast<int>(std::count_if(graph_.groups.begin(), graph_.groups.begin() + static_cast<std::ptrdiff_t>(g),
                                                [&](const DeviceGroup& other) { return other.devices == graph_.groups[g].devices; }));
    for (Node& node : graph_.nodes) {
      if (!is_of_micro_batch(node.phase)) continue;
      for (const ValueId out : node.outputs)
        if (out.present() && graph_[out].placement.group >= 0) node.chunk = chunk[at(graph_[out].placement.group)];
    }
  }

  Graph& graph_;
  const bool gather_again_, split_backward_;
  IdVector<ValueId, bool> of_batch_, of_sums_;
  IdVector<ValueId, bool> read_;  // by what is forward, or as an output
};

}  // namespace

void find_phases(Graph& graph, bool gather_again, bool split_backward) { Phases(graph, gather_again, split_backward).run(); }

}  // namespace tandem
