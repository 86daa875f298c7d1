// Parts of a parameter, as it is held, in the template's tensor.
#pragma once
#include <optional>

#include "graph/graph.h"

namespace tandem {

// What a range of an axis of the parameter is in the template's tensor: a range of one axis, as template_axis tells it; or of the axis that
// the parameter's begins with, where that is several axes of the template and the range is whole places of the first of these (the
// directions of a recurrence, whose gates are rows of one matrix). Absent: it is neither.
std::optional<AxisRange> range_in_template(const Value& parameter, const AxisRange& held);
// The axis of the parameter whose ranges can be ranges of that axis of the template's; -1: none.
int axis_held_of(const Value& parameter, int axis_of_template);

}  // namespace tandem
