// Where a device's part of a value lies in the whole.
#include "graph/template_range.h"
#include "planner/place/cut.h"
#include "planner/place/placing.h"

namespace tandem {

Part in_form(const Value& v, Part part) {
  if (!part.is_split() || v.kind != ValueKind::parameter) return part;
  const int asked = part.axis;
  part.axis = axis_held_of(v, asked);
  if (part.axis < 0)
    fail(ExitCode::usage, "placement: parameter '", v.name, "' of ", v.template_shape, " is held as ", v.type.shape,
         ", whose parts are none of its axis ", asked);
  return part;
}

AxisRange range_of(const Value& v, const Shape& shape, std::size_t along, const DeviceGroup& group, int position) {
  const Part& part = v.placement.parts[along];
  const MeshAxis mesh = group.axes[along].as(part);
  const std::int64_t unit = shape[part.axis] / part.outer / mesh.total();
  const int place = group.position_along(position, along);
  return {part.axis, mesh.begin(place) * unit, mesh.sizes[at(place)] * unit, part.outer, part.widths};
}

std::vector<AxisRange> ranges_of(const Value& parameter, const DeviceGroup& group, int position) {
  std::vector<AxisRange> ranges;
  Shape shape = parameter.type.shape;
  for (std::size_t a = parameter.placement.parts.size(); a-- > 0;) {
    if (!parameter.placement.parts[a].is_split()) continue;
    const AxisRange range = range_of(parameter, shape, a, group, position);
    shape[range.axis] = range.outer * range.size;
    std::optional<AxisRange> of_template = range_in_template(parameter, range);
    if (!of_template)
      fail(ExitCode::usage, "placement: axis ", range.axis, " of parameter '", parameter.name, "', held as ", parameter.type.shape,
           ", is none of the template's ", parameter.template_shape);
    ranges.push_back(std::move(*of_template));
  }
  return ranges;
}

}  // namespace tandem
