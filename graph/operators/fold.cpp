// What the operators' folding functions share: indices of broadcast operands, and copies along strides.
#include "graph/operators/fold.h"

#include <cstring>

namespace tandem {

Ints row_major_strides(const Shape& shape) {
  Ints strides(at(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[at(i)] = strides[at(i + 1)] * shape[i + 1];
  return strides;
}

namespace {

// visit(element number) for each element of `shape`, row-major.
template <class Visit>
void walk(const Shape& shape, std::int64_t offset, const Ints& strides, Visit visit) {
  const std::int64_t n = shape.elements();
  Ints index(at(shape.rank()), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    visit(offset);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += strides[at(axis)];
      if (++index[at(axis)] < shape[axis]) break;
      offset -= strides[at(axis)] * shape[axis];
      index[at(axis)] = 0;
    }
  }
}

}  // namespace

std::vector<std::size_t> broadcast_index(const Shape& from, const Shape& to) {
  const Ints own = row_major_strides(from);
  Ints strides(at(to.rank()), 0);
  const int extra = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i) strides[at(i + extra)] = from[i] == 1 ? 0 : own[at(i)];
  std::vector<std::size_t> index;
  index.reserve(static_cast<std::size_t>(to.elements()));
  walk(to, 0, strides, [&](std::int64_t i) { index.push_back(static_cast<std::size_t>(i)); });
  return index;
}

Tensor strided_copy(const Tensor& in, const Shape& shape, std::int64_t offset, const Ints& strides) {
  Tensor out(TensorType{in.dtype(), shape});
  const std::size_t size = size_of(in.dtype());
  std::byte* to = out.write().data();
  const std::byte* from = in.bytes().data();
  walk(shape, offset, strides, [&](std::int64_t i) {
    std::memcpy(to, from + static_cast<std::size_t>(i) * size, size);
    to += size;
  });
  return out;
}

Folded fold_reshape(const FoldContext& c) { return std::vector{c.inputs[0].reshaped(c.outputs[0].shape)}; }

}  // namespace tandem
