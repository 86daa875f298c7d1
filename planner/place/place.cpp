// Where each value lives, and what has to move between devices. Values that were placed on purpose (inputs, parameters) say
// it of theirs; the operators' rules (Operator::place) say it of all others; where a node needs an operand otherwise than it
// lies, a transfer is put in before it.
#include "planner/place/place.h"

#include <algorithm>
#include <numeric>

#include "base/option.h"
#include "base/units.h"
#include "graph/place.h"
#include "planner/place/placing.h"
#include "planner/place/print_placement.h"
#include "planner/place/request.h"
#include "planner/rewrite/pass.h"

namespace tandem {

Part part_by_samples(const MeshAxis& samples) { return samples.one_has_all() ? Part{Spread::own} : Part::split(0); }

std::vector<std::int64_t> least(std::vector<std::int64_t> sizes) {
  std::int64_t common = 0;
  for (const std::int64_t size : sizes) common = std::gcd(common, size);
  for (std::int64_t& size : sizes) size /= std::max<std::int64_t>(1, common);
  return sizes;
}

PlacementRequest by_samples(const Graph& graph, std::span<const std::int64_t> sizes) {
  PlacementRequest request;
  const std::int64_t batch = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  DeviceGroup all{.name = "all", .axes = {{"data", least({sizes.begin(), sizes.end()}), true}}, .devices = {}};
  for (std::size_t d = 0; d < sizes.size(); ++d) all.devices.push_back(static_cast<int>(d));
  const Part part = part_by_samples(all.axes[0]);
  request.groups.push_back(std::move(all));
  for (const ValueId in : inputs_of_samples(graph, batch)) request.values[graph[in].name] = {part};
  return request;
}

namespace {

// Of a node that reads what one device owns, and else what is whole on all: that one computes alone, and what is updated stays there.
std::optional<NodePlacement> placed_at_owner(const Node& node, const std::vector<Part>& operands, const MeshAxis& mesh) {
  const auto owned = std::ranges::find_if(operands, [&](const Part& p) { return !p.sizes.empty() && mesh.as(p).one_has_all(); });
  if (owned == operands.end()) return std::nullopt;
  for (const Part& p : operands)
    if (p != Part{} && p.sizes != owned->sizes) return std::nullopt;
  const Part alone{.spread = Spread::own, .sizes = owned->sizes};
  return NodePlacement{
      .inputs = operands, .outputs = std::vector<Part>(node.outputs.size(), node.op->in_place.empty() ? alone : *owned), .reason = {}};
}

}  // namespace

void place_rest(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !v.present() || graph[v].placement.group >= 0; }))
      continue;
    int group = graph.groups.size() == 1 ? 0 : -1;
    for (const ValueId in : node.inputs)
      if (in.present()) group = std::max(group, graph[in].placement.group);
    if (group < 0) continue;  // of nothing that lies somewhere: it is computed on whichever device reads it
    std::vector<Placement> placed(node.outputs.size(), Placement{group, {}});
    for (std::size_t a = 0; a < graph.groups[at(group)].axes.size(); ++a) {
      std::vector<Part> parts;
      for (const ValueId in : node.inputs)
        parts.push_back(in.present() && a < graph[in].placement.parts.size() ? graph[in].placement.parts[a] : Part{});
      const MeshAxis& mesh = graph.groups[at(group)].axes[a];
      const std::optional<NodePlacement> at_owner = placed_at_owner(node, parts, mesh);
      const NodePlacement p = at_owner ? *at_owner : place_node(graph, node, parts, mesh);
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (node.inputs[i].present() && parts[i] != p.inputs[i])
          fail(node.op->name, " '", node.name, "' needs '", graph[node.inputs[i]].name, "' ", to_string(p.inputs[i]), ", it is ",
               to_string(parts[i]), p.reason.empty() ? "" : ": ", p.reason);
      for (std::size_t i = 0; i < placed.size(); ++i) placed[i].parts.push_back(p.outputs[i]);
    }
    for (std::size_t i = 0; i < placed.size(); ++i)
      if (node.outputs[i].present()) graph[node.outputs[i]].placement = placed[i];
  }
}

namespace pass_rows {
namespace {

// The first three, and how many more there are.
std::string first_of(const std::vector<std::string>& reasons) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, reasons.size()); ++i) text += concat(i > 0 ? "; " : "", reasons[i]);
  return text + (reasons.size() > most ? concat("; and ", reasons.size() - most, " more") : "");
}

// Of the parameters those that are to be in equal parts along an axis of the mesh, as was said.
ChosenParts said_parts(const Graph& graph, const PlacementRequest& request, std::size_t along) {
  ChosenParts said;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto asked = is_of_template(graph.values[i]) ? request.values.find(graph.values[i].name) : request.values.end();
    if (asked == request.values.end() || along >= asked->second.size() || !asked->second[along].is_split()) continue;
    Part part = in_form(graph.values[i], asked->second[along]);
    if (part.sizes == request.groups[0].axes[along].sizes) part.sizes.clear();
    if (part.sizes.empty()) said.emplace(ValueId{static_cast<int>(i)}, std::move(part));
  }
  return said;
}

// What weights lie in parts by mesh axis, where that is to be found out.
std::vector<ChosenParts> chosen_parts(const Graph& graph, const PlacementRequest& request, PassContext& c) {
  const std::vector<MeshAxis>& axes = request.groups[0].axes;
  std::vector<ChosenParts> chosen(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (!axes[a].samples && request.layers_along != a) chosen[a] = parts_of_known(graph, axes[a], said_parts(graph, request, a));
  if (const auto along = request.layers_along) {
    std::vector<std::string> whole;
    chosen[*along] = parts_of_layers(graph, axes[*along], whole);
    const std::string first = whole.empty() ? "it has no weight of two axes" : whole[0];
    if (chosen[*along].empty())
      fail(ExitCode::usage, option("parallel"), ": no layer of '", graph.name, "' can be split over ", axes[*along].length(),
           " devices: ", first);
    if (!whole.empty())
      c.warnings.push_back(concat(whole.size(), whole.size() == 1 ? " weight is" : " weights are", " whole on each of the ",
                                axes[*along].length(), " devices that share layers: ", first_of(whole)));
  }
  if (const auto along = request.parameters_along; along && !request.homes.empty()) {
    chosen[*along] = parameters_at_home(graph, axes[*along], request.homes);
  } else if (along && (c.options.mode == PlanMode::training || request.gather_again)) {
    const auto layers = request.layers_along;
    chosen[*along] = parts_of_parameters(graph, axes[*along], layers ? chosen[*layers] : ChosenParts{}, layers ? axes[*layers].total() : 1,
                                         c.options.optimizer, request.gather_again);
  }
  return chosen;
}

// What is gathered is told, or refused, by the node for which most is.
void tell_gathering(const std::vector<GatheringNode>& nodes, PassContext& c) {
  if (nodes.empty()) return;
  const GatheringNode& dearest = *std::ranges::max_element(nodes, {}, &GatheringNode::bytes);
  const std::string what = concat(dearest.node, " gathers ", text_of_bytes(dearest.bytes), ": ", dearest.reason);
  if (!c.options.gather && !c.parameters_of)  // a plan that only computes gives whole scores
    fail(ExitCode::usage, what, ", and ", option("gather"), " is off: allow it, or give other splits (", option("split"),
         ") or another mesh (", option("parallel"), ")");
  c.warnings.push_back(concat(nodes.size(), nodes.size() == 1 ? " node is" : " nodes are",
                              " computed in full on every device, as parts cannot be computed separately: ", what,
                              nodes.size() > 1 ? ", ..." : ""));
}

// A sum that the graph had before it was placed.
PlanTransfer sum_of_statistics(const Graph& graph, const Node& node) {
  const Value &from = graph[node.inputs[0]], &to = graph[node.outputs[0]];
  const auto [differs, ignored] = std::ranges::mismatch(from.placement.parts, to.placement.parts);
  const std::vector<MeshAxis>& axes = graph.groups[at(to.placement.group)].axes;
  const auto along = static_cast<std::size_t>(differs - from.placement.parts.begin());
  return {ExchangeKind::all_reduce,    from.name, bytes_of(to), along < axes.size() ? axes[along].name : "", name_for_people(node),
          "its statistics are of all samples"};
}

// A sum that the graph had before it was placed, of what is whole on every device: in a group of one there is nothing to add.
void drop_sums_of_wholes(Graph& graph, const PutIn& put_in) {
  IdVector<ValueId, ValueId> now(graph.values.size());
  const auto resolved = [&](ValueId v) { return v.present() && now[v].present() ? now[v] : v; };
  for (Node& node : graph.nodes) {
    for (ValueId& in : node.inputs) in = resolved(in);
    if (node.op->moves != Moves::sum || put_in.contains(node.outputs[0])) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (graph[node.inputs[i]].placement == graph[node.outputs[i]].placement) now[node.outputs[i]] = node.inputs[i];
  }
  for (GraphOutput& out : graph.outputs) out.value = resolved(out);
}

Graph placed(Graph graph, PassContext& c) {
  const PlacementRequest& request = *c.placement;
  graph.groups = request.groups;
  PutIn put_in;
  assign_groups(graph, request, put_in);
  std::vector<ChosenParts> chosen = chosen_parts(graph, request, c);
  std::size_t axes = 0;
  for (const DeviceGroup& group : graph.groups) axes = std::max(axes, group.axes.size());
  std::vector<GatheringNode> gathering;
  for (std::size_t a = 0; a < axes; ++a)
    std::ranges::move(place_along(graph, a, request, a < chosen.size() ? chosen[a] : ChosenParts{}, put_in), std::back_inserter(gathering));
  drop_sums_of_wholes(graph, put_in);
  drop_unread(graph);
  put_updates_last(graph);
  const auto is_read = [&](ValueId v) { return graph[v].producer.present(); };
  std::erase_if(gathering, [&](const GatheringNode& node) { return !is_read(node.result); });
  tell_gathering(gathering, c);
  for (const auto& [result, transfer] : put_in)
    if (transfer && is_read(result)) c.transfers.push_back(*transfer);
  for (const Node& node : graph.nodes)
    if (node.op->moves == Moves::sum && !put_in.contains(node.outputs[0])) c.transfers.push_back(sum_of_statistics(graph, node));
  std::ranges::stable_sort(c.transfers, std::greater(), &PlanTransfer::bytes);
  if (c.options.passes.on_placement && !c.parameters_of)
    for (const std::string& line : lines_of_placement(graph, put_in, c.options.devices)) c.options.passes.on_placement(line);
  return graph;
}

Graph forgotten(Graph graph) {
  for (Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.op->operands.size() && i < node.inputs.size(); ++i)
      if (node.op->operands[i].name == "samples") node.inputs.resize(i);
  return graph;
}

}  // namespace

// Says of every value where it lives, and puts in the transfers between devices (AllReduce, ReduceScatter, AllGather, TakePart, Once,
// Send). Gradients are placed as their parameters are; running statistics move towards the mean of the devices' own ones, weighted by
// their samples; what a node cannot compute by parts is gathered before it. Warns of what is gathered.
Pass place() {
  return {.name = "place",
          .run = [](Graph g, PassContext& c) { return placed(std::move(g), c); },
          .needs = differentiated,
          .gives = {Property::whole},
          .when = [](const PassContext& c) { return c.placed(); },
          .why = "each device computes its part of the batch"};
}

// Takes from nodes that draw random numbers the operand `samples`, by which place knew how they are split.
Pass forget_samples() {
  return {.name = "forget_samples",
          .run = [](Graph g, PassContext&) { return forgotten(std::move(g)); },
          .needs = differentiated,
          .why = "no kernel reads the operand",
          .required = "kernels do not take the operand"};
}

}  // namespace pass_rows

}  // namespace tandem
