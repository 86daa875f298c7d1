#include "graph/template_range.h"

namespace tandem {
namespace {

// Of several axes of the template that are one of the parameter: the first that has several places; -1: it is none or one of these.
int first_of_joined(const Value& v, int axis) {
  const Shape& held = v.type.shape;
  std::int64_t before = 1;  // places of the axes outside of it, in memory
  for (int i = 0; i < held.rank(); ++i) {
    const int at = v.source.any() ? i : v.source.tag()[static_cast<std::size_t>(i)] - 'a';
    if (at == axis) break;
    before *= held[at];
  }
  for (int i = 0; i < v.template_shape.rank(); ++i) {
    const std::int64_t dim = v.template_shape[i];
    if (before == 1 && dim > 1) return held[axis] > dim && held[axis] % dim == 0 ? i : -1;
    if (dim == 0 || before % dim != 0) return -1;
    before /= dim;
  }
  return -1;
}

}  // namespace

std::optional<AxisRange> range_in_template(const Value& v, const AxisRange& held) {
  if (const auto [axis, each] = template_axis(v.type.shape, v.source, v.template_shape, held.axis); axis >= 0)
    return AxisRange{axis, held.begin * each, held.size * each, held.outer, held.widths};
  const int first = first_of_joined(v, held.axis);
  if (first < 0 || held.outer != 1) return std::nullopt;
  const std::int64_t place = v.type.shape[held.axis] / v.template_shape[first];
  if (held.begin % place != 0 || held.size % place != 0) return std::nullopt;
  return AxisRange{first, held.begin / place, held.size / place};
}

int axis_held_of(const Value& v, int axis) {
  const int found = held_axis(v.type.shape, v.source, v.template_shape, axis);
  for (int i = 0; found < 0 && i < v.type.shape.rank(); ++i)
    if (first_of_joined(v, i) == axis) return i;
  return found;
}

}  // namespace tandem
