#include "runtime/moved_parameter.h"

#include <algorithm>

#include "runtime/parameter_parts.h"
#include "runtime/reorder.h"

namespace tandem {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

}  // namespace

bool MovedParameter::possible(const PlanParameter& p, const ParameterPart& part) {
  return part.is_whole() && part.operand.layout.plain() && (p.source.any() || p.source.plain()) && part.operand.shape.rank() > 0 &&
         part.operand.shape.elements() > 0;
}

MovedParameter::MovedParameter(const PlanParameter& p, const ParameterPart& part) : template_(source_of(p, part)), device_(part.operand) {
  const auto size = static_cast<std::int64_t>(size_of(device_.dtype));
  const PhysicalDim outermost = physical_dims(template_.shape, template_.layout)[0];
  axis_ = outermost.axis;
  rows_ = outermost.size;
  row_bytes_ = outermost.stride * size;
  for (const PhysicalDim& d : physical_dims(device_.shape, device_.layout)) {
    if (d.axis == axis_) {
      inner_bytes_ = d.stride * size;
      break;
    }
    outer_ *= d.size;
  }
}

std::int64_t MovedParameter::rows_of_a_piece() const { return std::clamp<std::int64_t>(piece_bytes / row_bytes_, 1, rows_); }

Operand MovedParameter::with_rows(Operand whole, std::int64_t rows) const {
  whole.shape[axis_] = rows;
  return whole;
}

void MovedParameter::to_device_order(std::span<const std::byte> rows, std::span<std::byte> moved) const {
  const std::int64_t count = std::ssize(rows) / row_bytes_;
  reorder(with_rows(template_, count), rows, with_rows(device_, count), moved);
}

void MovedParameter::to_template_order(std::span<const std::byte> moved, std::span<std::byte> rows) const {
  const std::int64_t count = std::ssize(rows) / row_bytes_;
  reorder(with_rows(device_, count), moved, with_rows(template_, count), rows);
}

}  // namespace tandem
