// Drops nodes whose outputs nobody needs, and the optional outputs of the others that nobody reads.
#include <algorithm>

#include "graph/operator.h"
#include "importer/flat_model.h"

namespace tandem {
namespace {

// The outputs that a node must give: of those that an operator gives at most, the last may be left out. Where there is no
// most, their number means something (Split).
std::size_t least_outputs(const FlatNode& node) {
  const Operator* op = find_operator(node.op, node.domain);
  return op && op->outputs.most != Arity::any ? static_cast<std::size_t>(op->outputs.least) : node.outputs.size();
}

class Liveness {
 public:
  explicit Liveness(std::size_t symbols) : live_(symbols) {}

  void keep(Symbol s) {
    if (s.present()) live_[static_cast<std::size_t>(s.index)] = true;
  }
  bool live(Symbol s) const { return s.present() && live_[static_cast<std::size_t>(s.index)]; }

  void sweep(std::vector<FlatNode>& nodes) {
    std::vector<FlatNode> kept;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](Symbol s) { return live(s); })) continue;
      sweep_bodies(*node);
      for (const Symbol in : node->inputs) keep(in);
      drop_outputs(*node);
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    nodes = std::move(kept);
  }

 private:
  void sweep_bodies(FlatNode& node) {
    for (FlatBody& body : node.bodies) {
      // An If's outputs are its branches', one by one; a Loop's or Scan's also feed the next turn.
      for (std::size_t i = 0; i < body.outputs.size(); ++i)
        if (node.op != "If" || (i < node.outputs.size() && live(node.outputs[i]))) keep(body.outputs[i]);
      sweep(body.nodes);
    }
  }

  void drop_outputs(FlatNode& node) const {
    for (Symbol& out : node.outputs)
      if (!live(out)) out = {};
    const std::size_t least = least_outputs(node);
    while (node.outputs.size() > least && !node.outputs.back().present()) node.outputs.pop_back();
  }

  std::vector<bool> live_;
};

}  // namespace

void drop_dead_nodes(FlatModel& model) {
  Liveness liveness(model.symbols.size());
  for (const Symbol out : model.main.outputs) liveness.keep(out);
  liveness.sweep(model.main.nodes);
  for (const FlatInitializer& i : model.main.initializers)
    if (!liveness.live(i.symbol)) model.unread.push_back({i.symbol, i.type, {}});
  std::erase_if(model.main.initializers, [&](const FlatInitializer& i) { return !liveness.live(i.symbol); });
}

}  // namespace tandem
