#include "planner/update/gradient_parts.h"

#include <algorithm>
#include <map>

#include "graph/operator.h"

namespace tandem {
namespace {

// Emits nodes whose results are placed at once: what comes later, as fusion, has no rule for it.
class PlacedNodes {
 public:
  PlacedNodes(Graph& graph, const Placement& parts) : b_(graph, "norm", {}), parts_(parts), addends_(parts), whole_(parts) {
    for (std::size_t a = 0; a < parts.parts.size(); ++a) {
      if (parts.parts[a].is_split()) addends_.parts[a] = {Spread::partial};
      whole_.parts[a] = {};
    }
  }
  ValueId part(std::string_view op, std::vector<ValueId> in, Attributes a = {}) { return emit(parts_, op, std::move(in), std::move(a)); }
  ValueId addend(std::string_view op, std::vector<ValueId> in, Attributes a = {}) {
    return emit(addends_, op, std::move(in), std::move(a));
  }
  // Of addends, one axis of the mesh after the other.
  ValueId sum(ValueId addends) {
    Placement now = addends_;
    for (Part& part : now.parts)
      if (part.spread == Spread::partial) {
        part = {};
        addends = emit(now, "AllReduce", {addends}, {});
      }
    return addends;
  }
  ValueId whole(std::string_view op, std::vector<ValueId> in, Attributes a = {}) { return emit(whole_, op, std::move(in), std::move(a)); }

 private:
  ValueId emit(const Placement& placement, std::string_view op, std::vector<ValueId> in, Attributes a) {
    const ValueId v = b_.emit(op, std::move(in), std::move(a));
    b_.graph()[v].placement = placement;
    return v;
  }
  GraphBuilder b_;
  const Placement parts_;
  Placement addends_, whole_;
};

Attributes to(DType type) { return {{"to", static_cast<std::int64_t>(type)}}; }

Ints all_axes(const Shape& shape) {
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  return axes;
}

// The sum of squares of gradients in parts along one axis, or whole, or of their zeros; whole on each device of their group.
ValueId squares(Graph& graph, std::span<const ValueId> gradients, PartsMeasure measure, std::vector<PlanTransfer>& transfers) {
  const Placement& placement = graph[gradients[0]].placement;
  for (std::size_t a = 0; a < placement.parts.size(); ++a)
    if (placement.parts[a].is_split())
      transfers.push_back({.kind = ExchangeKind::all_reduce,
                           .value = measure == PartsMeasure::norm ? "norm of gradients" : "whether gradients are finite",
                           .bytes = static_cast<std::int64_t>(sizeof(float)),
                           .axis = graph.groups[at(placement.group)].axes[a].name,
                           .node = "the optimizer",
                           .reason = "each device has parts of gradients"});
  PlacedNodes b(graph, graph[gradients[0]].placement);
  const ValueId zero = GraphBuilder(graph, "norm", {}).scalar(0, DType::float32);
  ValueId all;
  for (const ValueId gradient : gradients) {
    PlacedNodes parts(graph, graph[gradient].placement);
    ValueId g = gradient;
    if (graph[g].type.dtype != DType::float32) g = parts.part("Cast", {g}, to(DType::float32));
    const ValueId each = parts.part("Mul", {g, measure == PartsMeasure::norm ? g : zero});
    const ValueId own = parts.addend("ReduceSum", {each}, {{"axes", all_axes(graph[g].type.shape)}, {"keepdims", std::int64_t{0}}});
    all = all.present() ? b.addend("Add", {all, own}) : own;
  }
  return b.sum(all);
}

// By group, and axes of its mesh along which they are in parts.
using ByPlace = std::map<std::pair<int, std::vector<bool>>, std::vector<ValueId>>;
ByPlace by_place(const Graph& graph, std::span<const ValueId> gradients) {
  ByPlace places;
  for (const ValueId g : gradients) {
    const Placement& p = graph[g].placement;
    std::vector<bool> split;
    for (const Part& part : p.parts) split.push_back(part.is_split());
    places[{p.group, std::move(split)}].push_back(g);
  }
  return places;
}

// The root of a sum of squares, or what is 0 or NaN.
ValueId measured(Graph& graph, ValueId all, PartsMeasure measure) {
  if (measure == PartsMeasure::norm) {
    const Placement there = graph[all].placement;
    all = GraphBuilder(graph, "norm", {}).emit("Sqrt", {all});
    graph[all].placement = there;
  }
  return all;
}

}  // namespace

bool is_in_parts(const Value& value) { return std::ranges::any_of(value.placement.parts, &Part::is_split); }

ValueId sent_to(Graph& graph, ValueId value, int group) {
  Placement there = graph[value].placement;
  if (graph.groups[at(there.group)].devices == graph.groups[at(group)].devices) return value;
  there.group = group;
  const ValueId sent = GraphBuilder(graph, concat("send/", graph[value].name), {}).emit("Send", {value});
  graph[sent].placement = std::move(there);
  return sent;
}

std::vector<std::vector<ValueId>> whole_or_measured(Graph& graph, std::span<const ValueId> gradients, PartsMeasure measure,
                                                    std::vector<PlanTransfer>& transfers) {
  const ByPlace places = by_place(graph, gradients);
  std::vector<std::vector<ValueId>> seen(std::max<std::size_t>(1, graph.groups.size()));
  if (seen.size() == 1) {
    for (const auto& [place, some] : places)
      if (std::ranges::count(place.second, true) == 0)
        seen[0].insert(seen[0].end(), some.begin(), some.end());
      else
        seen[0].push_back(measured(graph, squares(graph, some, measure, transfers), measure));
    return seen;
  }
  std::vector<ValueId> all;
  for (const auto& [place, some] : places) all.push_back(squares(graph, some, measure, transfers));
  for (const auto& [place, some] : places) {
    const int group = place.first;
    if (!seen[at(group)].empty()) continue;
    ValueId sum;  // in one order everywhere
    for (const ValueId square : all) {
      const ValueId here = sent_to(graph, square, group);
      Placement there = graph[here].placement;
      there.group = group;
      sum = sum.present() ? GraphBuilder(graph, "norm", {}).add(sum, here) : here;
      graph[sum].placement = there;
    }
    seen[at(group)].push_back(measured(graph, sum, measure));
  }
  return seen;
}

}  // namespace tandem
