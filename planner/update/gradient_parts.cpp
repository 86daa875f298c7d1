#include "planner/update/gradient_parts.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "graph/operator.h"
#include "graph/step_scalars.h"

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

// Whether this is the first batch of the step.
ValueId is_fresh(PlacedNodes& b, ValueId scalars) {
  constexpr std::int64_t place = offsetof(StepScalars, fresh) / sizeof(float);
  const ValueId fresh =
      b.whole("Slice", {scalars}, {{"starts", Ints{place}}, {"ends", Ints{place + 1}}, {"axes", Ints{0}}, {"steps", Ints{1}}});
  return b.whole("Cast", {b.whole("Reshape", {fresh}, {{"shape", Ints{}}})}, to(DType::boolean));
}

Ints all_axes(const Shape& shape) {
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  return axes;
}

ValueId measured(Graph& graph, std::span<const SummedGradient> gradients, ValueId scalars, PartsMeasure measure) {
  PlacedNodes b(graph, graph[gradients[0].gradient].placement);
  const ValueId zero = GraphBuilder(graph, "norm", {}).scalar(0, DType::float32);
  ValueId all;
  for (const auto& [gradient, sum] : gradients) {
    PlacedNodes parts(graph, graph[gradient].placement);
    ValueId g = gradient;
    if (graph[g].type.dtype != DType::float32) g = parts.part("Cast", {g}, to(DType::float32));
    if (sum.present()) g = parts.part("Where", {is_fresh(b, scalars), g, parts.part("Add", {g, sum})});
    const ValueId each = parts.part("Mul", {g, measure == PartsMeasure::norm ? g : zero});
    const ValueId own = parts.addend("ReduceSum", {each}, {{"axes", all_axes(graph[g].type.shape)}, {"keepdims", std::int64_t{0}}});
    all = all.present() ? b.addend("Add", {all, own}) : own;
  }
  all = b.whole("AllReduce", {all});
  return measure == PartsMeasure::norm ? b.whole("Sqrt", {all}) : all;
}

}  // namespace

bool is_in_parts(const Value& value) { return std::ranges::any_of(value.placement.parts, &Part::is_split); }

std::vector<SummedGradient> whole_or_measured(Graph& graph, std::span<const SummedGradient> gradients, ValueId scalars,
                                              PartsMeasure measure, std::vector<PlanTransfer>& transfers) {
  std::vector<SummedGradient> list;
  std::map<std::pair<int, std::size_t>, std::vector<SummedGradient>> in_parts;  // by group, and axis of its mesh
  for (const SummedGradient& g : gradients) {
    const Placement& p = graph[g.gradient].placement;
    const auto split = std::ranges::find_if(p.parts, &Part::is_split);
    if (split == p.parts.end())
      list.push_back(g);
    else
      in_parts[{p.group, static_cast<std::size_t>(split - p.parts.begin())}].push_back(g);
  }
  for (const auto& [along, parts] : in_parts) {
    transfers.push_back({.kind = ExchangeKind::all_reduce,
                         .value = measure == PartsMeasure::norm ? "norm of gradients" : "whether gradients are finite",
                         .bytes = static_cast<std::int64_t>(sizeof(float)),
                         .axis = graph.groups[at(along.first)].axes[along.second].name,
                         .node = "the optimizer",
                         .reason = "each device has parts of gradients"});
    const bool summed = parts[0].sum.present();
    list.push_back(
        {measured(graph, parts, scalars, measure), summed ? GraphBuilder(graph, "norm", {}).scalar(0, DType::float32) : ValueId{}});
  }
  return list;
}

}  // namespace tandem
