// A static shape: every dimension is known and not negative. A scalar has rank 0.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tandem {

struct Shape {
  std::vector<std::int64_t> dims;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> d) : dims(d) {}
  explicit Shape(std::vector<std::int64_t> d) : dims(std::move(d)) {}

  int rank() const { return static_cast<int>(dims.size()); }
  std::int64_t elements() const;  // 1 for a scalar; fails where the product does not fit in int64
  std::int64_t operator[](int axis) const { return dims[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return dims[static_cast<std::size_t>(axis)]; }
  auto begin() const { return dims.begin(); }
  auto end() const { return dims.end(); }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // "[8,3,224,224]"

// numpy's rule: right-aligned, dimensions equal or 1. Fails with both shapes in the message.
Shape broadcast(const Shape& a, const Shape& b);

// A possibly negative axis as 0..rank-1; fails where it is outside, naming `what`.
int normalize_axis(std::int64_t axis, int rank, std::string_view what);

struct TensorType {
  DType dtype = DType::undefined;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type);  // "float32[8,3,224,224]"
std::int64_t bytes_of(const TensorType& type);  // fails where they do not fit in 63 bits

}  // namespace tandem
