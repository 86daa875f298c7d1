// Which devices compute what, where a plan has several groups of them: nodes go where somebody has said, else where their operands
// are.
#include <algorithm>

#include "graph/operator.h"
#include "planner/loss/external_loss.h"
#include "planner/place/placing.h"

namespace tandem {
namespace {

// Assigns groups, where there are several, and sends what one group makes to the others that read it.
class Groups {
 public:
  Groups(Graph& graph, const PlacementRequest& request, PutIn& put_in) : graph_(graph), request_(request), put_in_(put_in) {}

  void run() {
    readers_ = graph_.consumers();
    find_nodes();
    find_homes();
    Sequence sequence(graph_);
    const std::size_t nodes = graph_.nodes.size();
    for (std::size_t n = 0; n < nodes; ++n) {
      const int group = groups_[n];
      const std::string reader = name_for_people(graph_.nodes[n]);
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        graph_.nodes[n].inputs[i] = sent(graph_.nodes[n].inputs[i], group, reader);
      for (const ValueId out : graph_.nodes[n].outputs)
        if (out.present()) graph_[out].placement.group = group;
      sequence.take(n);
    }
    for (GraphOutput& out : graph_.outputs)
      if (const auto home = parameters_.find(out.of); out.role == ValueRole::gradient && home != parameters_.end())
        out.value = sent(out, home->second, out.of);
    sequence.finish();
  }

 private:
  static constexpr int open = -1;

  int named(const Node& node) const {
    for (const std::string& origin : node.origin)
      if (const auto it = request_.nodes.find(origin); it != request_.nodes.end()) return it->second;
    return open;
  }

  // A node that nobody has placed works where others of the same ONNX node do, as those of its backward pass; else where a parameter is
  // that somebody has placed; else where the last of its operands is made; one that only parameters, labels and constants go into, where it
  // is first read.
  void find_nodes() {
    groups_.assign(graph_.nodes.size(), request_.groups.size() == 1 ? 0 : open);
    if (request_.groups.size() == 1) return;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      groups_[n] = named(node);
      for (const std::string& origin : node.origin)
        if (const auto it = of_origin_.find(origin); groups_[n] == open && it != of_origin_.end()) groups_[n] = it->second;
      if (groups_[n] == open) groups_[n] = by_operands(node);
      for (const std::string& origin : node.origin)
        if (groups_[n] != open) of_origin_.emplace(origin, groups_[n]);
    }
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      for (const ValueId out : graph_.nodes[n].outputs)
        if (out.present() && groups_[n] == open) groups_[n] = read_in(out);
      groups_[n] = std::max(groups_[n], 0);
    }
  }
  int by_operands(const Node& node) const {
    int home = open, made = open;
    for (const ValueId in : node.inputs) {
      if (!in.present()) continue;
      home = std::max(home, home_of(graph_[in]));
      made = std::max(made, made_in(graph_[in]));
    }
    return home != open ? home : made;
  }
  // Of a parameter that somebody has placed.
  int home_of(const Value& v) const {
    const auto it =
        v.kind == ValueKind::parameter && v.role == ValueRole::plain ? request_.parameters.find(v.name) : request_.parameters.end();
    return it == request_.parameters.end() ? open : it->second;
  }
  int made_in(const Value& v) const {
    if (v.kind == ValueKind::activation) return groups_[at(v.producer.index)];
    return v.kind == ValueKind::input && v.role == ValueRole::plain ? 0 : open;
  }
  int read_in(ValueId v) const {
    int first = open;
    for (const NodeId reader : readers_[v])
      if (const int group = groups_[at(reader.index)]; group != open && (first == open || group < first)) first = group;
    return first;
  }

  // A parameter lives where somebody has placed it, else where the first node that was placed by name reads it, else, as what is given in
  // parts, where it is first read; what belongs to it (states, copies) lives there, too.
  void find_homes() {
    for (Value& v : graph_.values) v.placement.group = std::max(v.placement.group, home_of(v));
    for (const Node& node : graph_.nodes) {
      const int group = named(node);
      for (const ValueId in : node.inputs)
        if (in.present() && group != open && graph_[in].kind == ValueKind::parameter && graph_[in].placement.group < 0)
          graph_[in].placement.group = group;
    }
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      Value& v = graph_.values[i];
      const bool of_loss = is_given_to_loss(v);
      const bool in_parts = of_loss || (v.kind == ValueKind::input && v.role == ValueRole::plain && request_.values.contains(v.name));
      if ((v.kind == ValueKind::parameter || in_parts) && v.placement.group < 0)
        v.placement.group = std::max(0, read_in({static_cast<int>(i)}));
      if (v.kind == ValueKind::parameter && v.role == ValueRole::plain) parameters_[v.name] = v.placement.group;
    }
    for (Value& v : graph_.values)
      if (const auto home = parameters_.find(v.of); v.kind == ValueKind::parameter && home != parameters_.end() &&
                                                    (v.role == ValueRole::optimizer_state || v.role == ValueRole::copy))
        v.placement.group = home->second;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (const Node& node = graph_.nodes[n]; !node.op->in_place.empty())
        groups_[n] = graph_[node.inputs[at(node.op->in_place[0])]].placement.group;
  }

  // Parts of a pipeline may share devices.
  bool is_there(int from, int group) const {
    return from == group || request_.groups[at(from)].devices == request_.groups[at(group)].devices;
  }

  ValueId sent(ValueId v, int group, const std::string& reader) {
    if (!v.present() || graph_[v].placement.group < 0 || is_there(graph_[v].placement.group, group)) return v;
    ValueId& there = sent_[{v.index, group}];
    if (!there.present()) {
      const int from = graph_[v].placement.group;
      const auto same = [](const MeshAxis& a, const MeshAxis& b) { return a.sizes == b.sizes; };
      if (!std::ranges::equal(request_.groups[at(from)].axes, request_.groups[at(group)].axes, same))
        fail(ExitCode::usage, "placement: '", graph_[v].name, "' goes from group '", request_.groups[at(from)].name, "' to '",
             request_.groups[at(group)].name, "', which has another mesh");
      there = graph_[graph_.add_node(internal_operator("Send"), concat("send/", graph_[v].name), {}, {v}, 1)].outputs[0];
      graph_[there].placement.group = group;
      graph_[there].role = graph_[v].role;
      graph_[there].of = graph_[v].of;
      const std::string reason = concat("it works in group '", request_.groups[at(group)].name, "'");
      put_in_[there] = PlanTransfer{ExchangeKind::send, graph_[v].name, bytes_of(graph_[v]), "", reader, reason};
    }
    return there;
  }

  Graph& graph_;
  const PlacementRequest& request_;
  PutIn& put_in_;
  IdVector<ValueId, std::vector<NodeId>> readers_;
  std::vector<int> groups_;  // by node
  std::map<std::string, int, std::less<>> of_origin_;  // by ONNX node
  std::map<std::string, int, std::less<>> parameters_;
  std::map<std::pair<int, int>, ValueId> sent_;
};

}  // namespace

void assign_groups(Graph& graph, const PlacementRequest& request, PutIn& put_in) { Groups(graph, request, put_in).run(); }

}  // namespace tandem
