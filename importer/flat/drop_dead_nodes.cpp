// Drops nodes whose outputs nobody needs, branches that a known condition never takes, and the optional outputs of the others that nobody
// reads.
#include <algorithm>
#include <optional>
#include <set>

#include "graph/operator.h"
#include "importer/flat/drop_dead_nodes.h"

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
  explicit Liveness(FlatModel& model) : model_(model), live_(model.symbols.size()), conditions_(model.symbols.size()) {
    for (const FlatInitializer& i : model.main.initializers)
      if (i.data) note(i.symbol, *i.data);
    for (const FlatNode& node : model.main.nodes)
      if (const AttributeValue* value =
              node.op == "Constant" && node.domain.empty() && node.outputs.size() == 1 ? node.attributes.find("value") : nullptr)
        if (const Tensor* tensor = std::get_if<Tensor>(value)) note(node.outputs[0], *tensor);
  }

  void keep(Symbol s) {
    if (s.present()) live_[static_cast<std::size_t>(s.index)] = true;
  }
  // Tensors of bodies that nothing reads, nor another call of their function.
  void list_unread() const {
    for (const FlatInitializer& i : unread_)
      if (!live(i.symbol)) model_.unread.push_back(i);
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
      // An If's outputs are its branches', one by one; a Loop's or Scan's also feed the next iteration.
      const std::optional<bool> condition = node.op == "If" && !node.inputs.empty() && node.inputs[0].present()
                                                ? conditions_[static_cast<std::size_t>(node.inputs[0].index)]
                                                : std::nullopt;
      const bool taken = !condition || *condition == (body.attribute == "then_branch");
      for (std::size_t i = 0; i < body.outputs.size(); ++i)
        if (taken && (node.op != "If" || (i < node.outputs.size() && live(node.outputs[i])))) keep(body.outputs[i]);
      sweep(body.nodes);
      for (const FlatInitializer& i : body.initializers)
        if (!live(i.symbol) && i.home && seen_.insert(i.symbol.index).second) unread_.push_back({i.symbol, i.type, {}});
      std::erase_if(body.initializers, [&](const FlatInitializer& i) { return !live(i.symbol); });
    }
  }

  void drop_outputs(FlatNode& node) const {
    for (Symbol& out : node.outputs)
      if (!live(out)) out = {};
    const std::size_t least = least_outputs(node);
    while (node.outputs.size() > least && !node.outputs.back().present()) node.outputs.pop_back();
  }

  void note(Symbol s, const Tensor& value) {
    if (s.present() && value.dtype() == DType::boolean && value.elements() == 1)
      conditions_[static_cast<std::size_t>(s.index)] = value.to_int64s()[0] != 0;
  }

  FlatModel& model_;
  std::vector<bool> live_;
  std::vector<std::optional<bool>> conditions_;  // by symbol: of an If, where the file holds them
  std::vector<FlatInitializer> unread_;          // of bodies
  std::set<int> seen_;
};

}  // namespace

void drop_dead_nodes(FlatModel& model) {
  Liveness liveness(model);
  for (const Symbol out : model.main.outputs) liveness.keep(out);
  liveness.sweep(model.main.nodes);
  for (const FlatInitializer& i : model.main.initializers)
    if (!liveness.live(i.symbol)) model.unread.push_back({i.symbol, i.type, {}});
  liveness.list_unread();
  std::erase_if(model.main.initializers, [&](const FlatInitializer& i) { return !liveness.live(i.symbol); });
}

}  // namespace tandem
