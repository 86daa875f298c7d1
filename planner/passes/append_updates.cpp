// The optimizer's nodes, last of all: they take the gradients, which are no outputs any more.
#include <algorithm>
#include <map>

#include "graph/step_scalars.h"
#include "planner/passes/graph_copy.h"
#include "planner/passes/loss_scaling.h"
#include "planner/passes/optimizer.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Small parameters share one update step: starting a step costs more than updating a thousand numbers.
constexpr std::int64_t small_parameter = 16384;
constexpr std::size_t largest_group = 64;

struct Update {
  ValueId parameter, gradient, copy;  // copy: in 16 bits; absent where there is none
};

// In the order in which gradients become ready, so that an update can follow its gradient.
std::vector<Update> take_gradients(Graph& graph) {
  std::map<std::string, ValueId, std::less<>> parameters, copies;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (v.kind != ValueKind::parameter) continue;
    if (v.role == ValueRole::copy) copies[v.of] = {static_cast<int>(i)};
    if (v.role == ValueRole::plain) parameters[v.name] = {static_cast<int>(i)};
  }
  std::vector<Update> list;
  for (const GraphOutput& out : graph.outputs) {
    if (out.role != ValueRole::gradient) continue;
    const auto copy = copies.find(out.of);
    list.push_back({parameters.at(out.of), out, copy == copies.end() ? ValueId{} : copy->second});
  }
  std::erase_if(graph.outputs, [](const GraphOutput& out) { return out.role == ValueRole::gradient; });
  std::stable_sort(list.begin(), list.end(), [&](const Update& a, const Update& b) { return graph[a.gradient].producer < graph[b.gradient].producer; });
  return list;
}

void emit(Graph& graph, const UpdateRule& rule, ValueId scalars, std::span<const Update> group) {
  std::vector<ValueId> inputs{scalars};
  const bool copied = group[0].copy.present();
  for (const Update& u : group) {
    const Value parameter = graph[u.parameter];
    inputs.push_back(u.parameter);
    inputs.push_back(u.gradient);
    for (const std::string& state : rule.states) {
      Value v{.name = concat(state, '/', parameter.name), .type = parameter.type, .kind = ValueKind::parameter, .role = ValueRole::optimizer_state, .of = parameter.name};
      v.source = parameter.source;
      v.template_shape = parameter.template_shape;
      v.placement = parameter.placement;
      inputs.push_back(graph.add_value(std::move(v)));
    }
    if (copied) inputs.push_back(u.copy);
  }
  Attributes attributes = rule.attributes;
  attributes.set("tensors", static_cast<std::int64_t>(group.size()));
  if (copied) attributes.set("copies", std::int64_t{1});
  const int outputs = static_cast<int>(group.size() * (1 + rule.states.size() + copied));
  graph.add_node(internal_operator(rule.op), concat("update/", graph[group[0].parameter].name), std::move(attributes), std::move(inputs), outputs);
}

}  // namespace

Graph append_updates(Graph graph, const CompileOptions& o) {
  const std::vector<Update> updates = take_gradients(graph);
  ValueId scalars = GraphBuilder(graph, "update", {}).input("tandem.scalars", {DType::float32, Shape{StepScalars::count}}, ValueRole::step_state);
  if (loss_scaling_of(o)) {
    std::vector<ValueId> gradients;
    for (const Update& u : updates) gradients.push_back(u.gradient);
    scalars = scaled_scalars(graph, o, scalars, std::move(gradients));
    // A step that does not count leaves the running statistics, too.
    for (Node& node : graph.nodes)
      if (node.op->name == "RunningStatistics") node.inputs.push_back(scalars);
  }
  const UpdateRule rule = update_rule(o.optimizer);
  std::map<std::pair<bool, std::string>, std::vector<Update>> small;  // with and without a copy, by where they are
  for (const Update& u : updates) {
    if (graph[u.parameter].type.shape.elements() > small_parameter) {
      emit(graph, rule, scalars, std::span(&u, 1));
      continue;
    }
    std::vector<Update>& group = small[{!u.copy.present(), to_string(graph[u.parameter].placement, graph.groups)}];
    group.push_back(u);
    if (group.size() < largest_group) continue;
    emit(graph, rule, scalars, group);
    group.clear();
  }
  for (const auto& [where, group] : small)
    if (!group.empty()) emit(graph, rule, scalars, group);
  put_updates_last(graph);
  return graph;
}

}  // namespace tandem
