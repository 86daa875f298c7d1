// The parts of pass place, which nothing else uses.
#pragma once
#include <map>
#include <optional>

#include "graph/operator.h"
#include "planner/options.h"
#include "planner/place/choose_parts.h"
#include "planner/rewrite/graph_copy.h"

namespace tandem {

// The nodes of a graph in a new order, with those that were put in on the way.
class Sequence {
 public:
  explicit Sequence(Graph& graph) : graph_(graph), taken_(graph.nodes.size()) {}
  // The node, behind all that were added since the last one.
  void take(std::size_t node) {
    add_new();
    order_.push_back(node);
  }
  // What was added since the last one comes as soon as what it reads is there. A sum into parts lets the next gather go ahead: what is
  // computed next may wait for that.
  void take_early() {
    for (; taken_ < graph_.nodes.size(); ++taken_) early_.push_back(taken_);
  }
  // What was added since the last one, behind all.
  void take_late() { add_new(); }
  void finish();

 private:
  void add_new() {
    for (; taken_ < graph_.nodes.size(); ++taken_) order_.push_back(taken_);
  }
  Graph& graph_;
  std::size_t taken_;
  std::vector<std::size_t> order_, early_;
};

// The results of what was put in to move values. Of an exchange that is told: why.
using PutIn = std::map<ValueId, std::optional<PlanTransfer>>;
std::int64_t bytes_of(const Value& value);
// The ONNX node that it comes from, where there is one.
const std::string& name_for_people(const Node& node);

// Says of each value and node which group it belongs to, and puts in a Send where one group reads what another makes.
void assign_groups(Graph& graph, const PlacementRequest& request, PutIn& put_in);

// What was said of the template's tensor, of the parameter as it is held. Fails (usage) where those are no parts of it.
Part in_form(const Value& v, Part part);

// What a node gathers that computes of whole operands, or of parts that lie otherwise.
struct GatheringNode {
  ValueId result;
  std::string node;  // "ReduceMax 'pool'"
  std::string reason;
  std::int64_t bytes = 0;  // of what is gathered for it
};

// Says of each value how it lies along one axis of its group's mesh, and puts in the transfers that this needs. Returns the nodes that
// gather activations.
// `chosen`: parameters that lie so although the request says nothing of them.
std::vector<GatheringNode> place_along(Graph& graph, std::size_t axis, const PlacementRequest& request, const ChosenParts& chosen,
                                       PutIn& put_in);

}  // namespace tandem
