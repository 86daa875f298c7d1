// A plan that shares its parameters with another one, as prediction does with training, reads them in the shapes that the
// other plan keeps them in: each parameter takes that shape here, and a view gives it back the one this graph's nodes want.
#include <algorithm>

#include "graph/layout_tag.h"
#include "graph/views.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

// Axes of a value in the order in which `source` has them in memory.
Ints axes_of(const Layout& source, std::size_t rank) {
  const std::vector<int> axes = tag_of(source.any() ? Layout::row_major(static_cast<int>(rank)) : source).axes;
  return {axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(rank)};
}

Shape in_order(const Shape& shape, const Ints& axes) {
  Shape out = shape;
  for (std::size_t i = 0; i < axes.size(); ++i) out[i] = shape[static_cast<std::size_t>(axes[i])];
  return out;
}

ValueId transpose(GraphBuilder& b, ValueId value, const Ints& axes) {
  return std::is_sorted(axes.begin(), axes.end()) ? value : b.transpose(value, axes);
}

// The shape in which the devices together keep all of it.
Shape whole_shape(const PlanParameter& kept) {
  const auto elements = [](const ProgramPart& part) { return part.operand.shape.elements(); };
  const ProgramPart& part = *std::ranges::max_element(kept.parts, {}, elements);
  Shape held = part.operand.shape;
  if (part.is_whole() || elements(part) == 0) return held;
  std::vector<AxisRange> ranges;
  for (const ProgramRange& r : part.ranges) ranges.push_back(r.from(0));
  Shape cut = *shape_of(kept.type.shape, ranges);
  for (int axis = 0; axis < cut.rank(); ++axis) {
    if (cut[axis] == kept.type.shape[axis]) continue;
    const int of_held = held_axis(held, kept.source, cut, axis);
    held[of_held] = held[of_held] * kept.type.shape[axis] / cut[axis];
    cut[axis] = kept.type.shape[axis];
  }
  return held;
}

// Its parts are cut of the template's tensor, in whatever shape it is held.
void place_as_kept(Value& parameter, const Value& wanted) {
  for (Part& part : parameter.placement.parts) {
    if (!part.is_split()) continue;
    const int axis = template_axis(wanted.type.shape, wanted.source, wanted.template_shape, part.axis).axis;
    part.axis = held_axis(parameter.type.shape, parameter.source, wanted.template_shape, axis);
    if (part.axis < 0)
      fail(ExitCode::usage, "placement: parameter '", wanted.name, "' is kept as ", parameter.type.shape, ", whose parts are none of axis ",
           axis, " of ", wanted.template_shape);
  }
}

Graph keep_parameters(const Graph& graph, const Plan& owner) {
  GraphCopy copy(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& wanted = graph.values[v];
    if (wanted.kind != ValueKind::parameter) continue;
    const auto kept = std::find_if(owner.parameters.begin(), owner.parameters.end(),
                                   [&](const PlanParameter& p) { return p.role == wanted.role && p.name == wanted.name; });
    if (kept == owner.parameters.end()) continue;  // told later, with the plan's other differences
    const Shape from = whole_shape(*kept), &to = wanted.type.shape;
    const Ints from_axes = axes_of(kept->source, from.rank()), to_axes = axes_of(wanted.source, to.rank());
    if (from == to && from_axes == to_axes) continue;
    const ValueId old{static_cast<int>(v)}, parameter = copy.map(old);
    copy.to[parameter].type.shape = from;
    copy.to[parameter].source = kept->source;
    place_as_kept(copy.to[parameter], wanted);
    GraphBuilder b(copy.to, concat("kept/", wanted.name), {});
    copy.set(old, transpose(b, b.reshape(transpose(b, parameter, from_axes), in_order(to, to_axes)), inverse(to_axes)));
  }
  for (const Node& node : graph.nodes) copy.copy(node);
  return copy.finish();
}

}  // namespace

// Parameters in the shapes that the plan which keeps them has, with views to the shapes that this graph's own fusions gave them. Of
// graphs that only read parameters.
Pass keep_parameters() {
  return {.name = "keep_parameters",
          .run = [](Graph g, PassContext& c) { return keep_parameters(g, *c.parameters_of); },
          .needs = {Property::primitive},
          .when = [](const PassContext& c) { return c.parameters_of != nullptr; },
          .why = "a session keeps one copy of the parameters for all its plans",
          .required = "the session keeps the parameters otherwise"};
}

}  // namespace tandem::pass_rows
