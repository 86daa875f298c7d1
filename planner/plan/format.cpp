#include "planner/plan/format.h"

#include <array>

#include "base/hash.h"
#include "graph/layout_tag.h"

namespace tandem {
namespace {

constexpr int most_axes = 26;                               // layouts name them by letters
constexpr std::int64_t most_bytes = std::int64_t{1} << 56;  // of one operand: sums of many still fit in int64

std::string too_large(const Shape& shape) {
  return concat("shape ", shape, " is too large");
}

}  // namespace

std::string with_checksum(std::string bytes) {
  Hash hash;
  hash.add(bytes);
  bytes += "\xa1\x06";  // field 100, fixed64
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(hash.value() >> (8 * i) & 0xff);
  return bytes;
}

std::string problem_of(const TensorType& type) {
  if (size_of(type.dtype) == 0) return concat("element type ", type.dtype, " (", static_cast<int>(type.dtype), ") cannot be stored");
  if (type.shape.rank() > most_axes) return concat("rank ", type.shape.rank(), " is above ", most_axes);
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type.dtype));
  for (const std::int64_t d : type.shape) {
    if (d < 0) return concat("shape ", type.shape, " has a negative dimension");
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(d, 1), &bytes) || bytes > most_bytes) return too_large(type.shape);
  }
  return "";
}

std::string problem_of(const Operand& operand) {
  if (std::string reason = problem_of(TensorType{operand.dtype, operand.shape}); !reason.empty()) return reason;
  if (operand.layout.opaque()) return "";
  const auto misfit = [&] { return concat("layout '", operand.layout, "' does not fit shape ", operand.shape); };
  const std::optional<LayoutTag> tag = LayoutTag::read(operand.layout.tag());
  const int rank = std::max(operand.shape.rank(), 1);  // a scalar lies as "a"
  if (!tag || std::ssize(tag->axes) != rank) return misfit();
  std::array<bool, most_axes> seen{};
  for (const int axis : tag->axes) {
    if (axis >= rank || seen[static_cast<std::size_t>(axis)]) return misfit();
    seen[static_cast<std::size_t>(axis)] = true;
  }
  std::array<std::int64_t, most_axes> block;
  block.fill(1);
  for (const LayoutTag::Block& b : tag->blocks)
    if (b.axis >= operand.shape.rank() || (block[static_cast<std::size_t>(b.axis)] *= b.size) > 1 << 20) return misfit();
  std::int64_t bytes = static_cast<std::int64_t>(size_of(operand.dtype));
  for (int axis = 0; axis < operand.shape.rank(); ++axis) {
    const std::int64_t b = block[static_cast<std::size_t>(axis)];
    const std::int64_t padded = (operand.shape[axis] + b - 1) / b * b;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(padded, 1), &bytes) || bytes > most_bytes) return too_large(operand.shape);
  }
  return "";
}

}  // namespace tandem
