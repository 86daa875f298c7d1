// Which devices compute what, where a plan has several groups of them: nodes go where somebody has said, else where their operands
// are.
#include "graph/operator.h"
#include "planner/place/placing.h"

namespace tandem {
namespace {

// Assigns groups, where there are several, and sends what one group makes to the others that read it.
class Groups {
 public:
  Groups(Graph& graph, const PlacementRequest& request) : graph_(graph), request_(request) {}

  void run() {
    find_parameters();
    Sequence sequence(graph_);
    const std::size_t nodes = graph_.nodes.size();
    for (std::size_t n = 0; n < nodes; ++n) {
      const int group = group_of(graph_.nodes[n]);
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) graph_.nodes[n].inputs[i] = sent(graph_.nodes[n].inputs[i], group);
      for (const ValueId out : graph_.nodes[n].outputs)
        if (out.present()) graph_[out].placement.group = group;
      sequence.take(n);
    }
    for (GraphOutput& out : graph_.outputs)
      if (const auto home = parameters_.find(out.of); out.role == ValueRole::gradient && home != parameters_.end()) out.value = sent(out, home->second);
    sequence.finish();
  }

 private:
  int named(const Node& node) const {
    for (const std::string& origin : node.origin)
      if (const auto it = request_.nodes.find(origin); it != request_.nodes.end()) return it->second;
    return -1;
  }

  // A parameter lives where the first node that was placed by name reads it.
  void find_parameters() {
    for (const Node& node : graph_.nodes) {
      const int group = named(node);
      for (const ValueId in : node.inputs)
        if (in.present() && group >= 0 && graph_[in].kind == ValueKind::parameter && graph_[in].placement.group < 0) settle(in, group);
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (const Value& v = graph_.values[i]; v.kind == ValueKind::parameter && v.placement.group < 0) settle({static_cast<int>(i)}, 0);
  }
  void settle(ValueId parameter, int group) {
    graph_[parameter].placement.group = group;
    if (graph_[parameter].role == ValueRole::plain) parameters_[graph_[parameter].name] = group;
  }

  int group_of(const Node& node) const {
    if (request_.groups.size() == 1) return 0;
    if (!node.op->in_place.empty()) return graph_[node.inputs[at(node.op->in_place[0])]].placement.group;
    if (const int group = named(node); group >= 0) return group;
    int group = 0;  // of the operand that is made last
    for (const ValueId in : node.inputs)
      if (in.present()) group = std::max(group, graph_[in].placement.group);
    return group;
  }

  ValueId sent(ValueId v, int group) {
    if (!v.present() || graph_[v].placement.group < 0 || graph_[v].placement.group == group) return v;
    ValueId& there = sent_[{v.index, group}];
    if (!there.present()) {
      const int from = graph_[v].placement.group;
      if (request_.groups[at(from)].devices.size() != request_.groups[at(group)].devices.size())
        fail(ExitCode::usage, "placement: '", graph_[v].name, "' goes from group '", request_.groups[at(from)].name, "' to '", request_.groups[at(group)].name, "', which has another number of devices");
      there = graph_[graph_.add_node(internal_operator("Send"), concat("send/", graph_[v].name), {}, {v}, 1)].outputs[0];
      graph_[there].placement.group = group;
      graph_[there].role = graph_[v].role;
      graph_[there].of = graph_[v].of;
    }
    return there;
  }

  Graph& graph_;
  const PlacementRequest& request_;
  std::map<std::string, int, std::less<>> parameters_;
  std::map<std::pair<int, int>, ValueId> sent_;
};

}  // namespace

void assign_groups(Graph& graph, const PlacementRequest& request) { Groups(graph, request).run(); }

}  // namespace tandem
