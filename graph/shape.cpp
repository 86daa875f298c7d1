// Sizes and text of shapes, and how two of them broadcast.
#include "graph/shape.h"

#include <algorithm>

namespace tandem {

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : dims)
    if (__builtin_mul_overflow(n, d, &n)) fail("shape ", *this, " has more elements than fit in 63 bits");
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) s += ',';
    s += std::to_string(shape[i]);
  }
  return s + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[offset + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) fail("shapes ", a, " and ", b, " do not broadcast");
    out[offset + i] = x == 1 ? y : x;
  }
  return out;
}

int normalize_axis(std::int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) fail(what, ": axis ", axis, " is outside [", -rank, ",", rank - 1, "]");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::string to_string(const TensorType& type) { return concat(name_of(type.dtype), type.shape); }

std::int64_t bytes_of(const TensorType& type) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(type.shape.elements(), static_cast<std::int64_t>(size_of(type.dtype)), &bytes))
    fail(type, " takes more bytes than fit in 63 bits");
  return bytes;
}

}  // namespace tandem
