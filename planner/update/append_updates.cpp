// The optimizer's nodes, last of all: they take the gradients, which are no outputs any more.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/option.h"
#include "graph/step_scalars.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/update/gradient_parts.h"
#include "planner/update/loss_scaling.h"
#include "planner/update/optimizer.h"

namespace tandem::pass_rows {
namespace {

// Small parameters share one update step: starting a step costs more than updating a thousand numbers.
constexpr std::int64_t small_parameter = 16384;
constexpr std::size_t largest_group = 64;

struct Update {
  ValueId parameter, gradient, copy;  // copy: in 16 bits; absent where there is none
  std::vector<ValueId> states;
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
    list.push_back({parameters.at(out.of), out, copy == copies.end() ? ValueId{} : copy->second, {}});
  }
  std::erase_if(graph.outputs, [](const GraphOutput& out) { return out.role == ValueRole::gradient; });
  std::stable_sort(list.begin(), list.end(),
                   [&](const Update& a, const Update& b) { return graph[a.gradient].producer < graph[b.gradient].producer; });
  return list;
}

// States lie as their parameters do.
void add_states(Graph& graph, const UpdateRule& rule, bool composed, Update& update) {
  const Value parameter = graph[update.parameter];
  for (const std::string& state : rule.states) {
    if (composed && state != average_state) continue;
    Value v{.name = concat(state, '/', parameter.name),
            .type = parameter.type,
            .kind = ValueKind::parameter,
            .role = ValueRole::optimizer_state,
            .of = parameter.name};
    v.source = parameter.source;
    v.template_shape = parameter.template_shape;
    v.placement = parameter.placement;
    update.states.push_back(graph.add_value(std::move(v)));
  }
}

// Absent where there is none.
ValueId state_of(const Graph& graph, const Update& update, std::string_view kind) {
  for (const ValueId state : update.states)
    if (graph[state].name.starts_with(concat(kind, '/'))) return state;
  return {};
}

void emit(Graph& graph, const UpdateRule& rule, Attributes attributes, ValueId scalars, std::span<const Update> group) {
  std::vector<ValueId> inputs{scalars};
  const bool copied = group[0].copy.present();
  for (const Update& u : group) {
    inputs.push_back(u.parameter);
    inputs.push_back(u.gradient);
    inputs.insert(inputs.end(), u.states.begin(), u.states.end());
    if (copied) inputs.push_back(u.copy);
  }
  attributes.set("tensors", static_cast<std::int64_t>(group.size()));
  if (copied) attributes.set("copies", std::int64_t{1});
  const int outputs = static_cast<int>(group.size() * (1 + rule.states.size() + copied));
  graph.add_node(internal_operator(rule.op), concat("update/", graph[group[0].parameter].name), std::move(attributes), std::move(inputs),
                 outputs);
}

// Norms of single parameters are those of whole ones: of one that is shared out some device has all.
void check_whole(const Graph& graph, const OptimizerOptions& o, const Update& update) {
  const Value& parameter = graph[update.parameter];
  const std::string what = reads_whole(parameter, o);
  for (std::size_t a = 0; a < parameter.placement.parts.size() && !what.empty(); ++a)
    if (const Part& part = parameter.placement.parts[a];
        part.is_split() && !graph.groups[at(parameter.placement.group)].axes[a].as(part).one_has_all())
      fail(ExitCode::usage, what, " needs the norm of '", parameter.name, "', of which each device has a part");
}

Graph append_updates(Graph graph, const CompileOptions& o, std::vector<std::string>& notes, std::vector<PlanTransfer>& transfers) {
  const UpdateRule rule = update_rule(o.optimizer);
  std::vector<std::string> lines;
  check_groups(graph, o.optimizer, lines);
  notes.insert(notes.end(), lines.begin(), lines.end());
  std::vector<Update> updates = take_gradients(graph);
  for (Update& u : updates) {
    check_whole(graph, o.optimizer, u);
    add_states(graph, rule, is_composed(graph[u.parameter], o.optimizer), u);
  }
  const ValueId given = GraphBuilder(graph, "update", {})
                            .input("tandem.scalars", {DType::float32, Shape{StepScalars::count}}, ValueRole::step_state, step_scalars);
  StepScalarsOf scalars(graph, given);
  std::vector<ValueId> own;
  for (const Update& u : updates) own.push_back(u.gradient);
  if (loss_scaling_of(o)) {
    scale_scalars(graph, o, scalars, whole_or_measured(graph, own, PartsMeasure::finite, transfers));
    // A step that does not count leaves the running statistics, too.
    for (Node& node : graph.nodes)
      if (node.op->keeps_statistic) node.inputs.push_back(scalars.of(node.inputs[0]));
  }
  if (o.optimizer.clip_norm > 0) {
    std::vector<std::vector<ValueId>> seen = whole_or_measured(graph, own, PartsMeasure::norm, transfers);
    for (std::size_t group = 0; group < seen.size(); ++group) {
      if (seen[group].empty()) continue;
      seen[group].insert(seen[group].begin(), scalars.on(group));
      scalars.set(group, GraphBuilder(graph, "clip", {})
                             .emit("ClipScalars", std::move(seen[group]), {{"clip_norm", static_cast<float>(o.optimizer.clip_norm)}}));
    }
  }
  // Small ones together, by what their group makes of the rule, with and without a copy, by where they are.
  std::map<std::tuple<bool, std::string, std::string>, std::vector<Update>> small;
  for (const Update& u : updates) {
    const Attributes attributes = attributes_for(graph[u.parameter], rule, o.optimizer);
    if (is_composed(graph[u.parameter], o.optimizer)) {
      compose_update(graph, o.optimizer, attributes, scalars.of(u.parameter), u.parameter, u.gradient, state_of(graph, u, average_state));
      continue;
    }
    if (graph[u.parameter].type.shape.elements() > small_parameter) {
      emit(graph, rule, attributes, scalars.of(u.parameter), std::span(&u, 1));
      continue;
    }
    const Placement& placement = graph[u.parameter].placement;
    const std::string where = concat(placement.group, ' ', to_string(placement, graph.groups));  // groups of logical devices share names
    std::vector<Update>& group = small[{!u.copy.present(), where, to_string(attributes)}];
    group.push_back(u);
    if (group.size() < largest_group) continue;
    emit(graph, rule, attributes, scalars.of(u.parameter), group);
    group.clear();
  }
  for (const auto& [where, group] : small)
    if (!group.empty())
      emit(graph, rule, attributes_for(graph[group[0].parameter], rule, o.optimizer), scalars.of(group[0].parameter), group);
  if (o.optimizer.average) average_statistics(graph, scalars);
  put_updates_last(graph);
  return graph;
}

}  // namespace

// The optimizer's update of each parameter whose gradient is an output; the gradients are none any more. Says what groups of parameters
// come to. Fails (usage) where a group names nothing.
Pass append_updates() {
  return {.name = "append_updates",
          .run = [](Graph g, PassContext& c) { return append_updates(std::move(g), c.options, c.warnings, c.transfers); },
          .needs = differentiated,
          .gives = {Property::updated},
          .ends = {Property::gradients},
          .when = [](const PassContext& c) { return !has_external_loss(c.options); },
          .why = "a step changes the parameters"};
}

}  // namespace tandem::pass_rows
