// A tag is taken apart into its axes and blocks, and what kernels and plans ask of a layout (strides, padded size, whether two
// layouts are the same bytes) is computed from these parts.
#include "graph/layout.h"

#include <algorithm>
#include <cctype>

#include "graph/layout_tag.h"

namespace tandem {

Layout Layout::row_major(int rank) {
  LayoutTag tag;
  for (int axis = 0; axis < std::max(rank, 1); ++axis) tag.axes.push_back(axis);
  return tag.layout();
}

Layout Layout::channels_last(int rank) {
  LayoutTag tag = tag_of(row_major(rank));
  if (rank > 2) std::rotate(tag.axes.begin() + 1, tag.axes.begin() + 2, tag.axes.end());
  return tag.layout();
}

bool Layout::plain() const {
  return !any() && !opaque() && std::none_of(tag_.begin(), tag_.end(), [](unsigned char c) { return std::isdigit(c) || std::isupper(c); });
}

std::vector<PhysicalDim> physical_dims(const Shape& shape, const Layout& layout) {
  if (shape.rank() == 0) return {};
  const LayoutTag tag = tag_of(layout);
  if (static_cast<int>(tag.axes.size()) != shape.rank()) fail("layout '", layout, "' does not fit shape ", shape);
  std::vector<std::int64_t> block(tag.axes.size(), 1);
  for (const LayoutTag::Block& b : tag.blocks) block[static_cast<std::size_t>(b.axis)] *= b.size;
  std::vector<PhysicalDim> dims;
  dims.reserve(tag.axes.size() + tag.blocks.size());
  for (const int axis : tag.axes) {
    const std::int64_t inner = block[static_cast<std::size_t>(axis)];
    dims.push_back({axis, (shape[axis] + inner - 1) / inner, 0, inner});
  }
  std::vector<std::int64_t> rest = block;
  for (const LayoutTag::Block& b : tag.blocks) {
    rest[static_cast<std::size_t>(b.axis)] /= b.size;
    dims.push_back({b.axis, b.size, 0, rest[static_cast<std::size_t>(b.axis)]});
  }
  std::int64_t stride = 1;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    d->stride = stride;
    stride *= d->size;
  }
  return dims;
}

std::int64_t physical_elements(const Shape& shape, const Layout& layout) {
  if (layout.any() || layout.opaque()) return shape.elements();
  if (layout.plain() && static_cast<int>(layout.tag().size()) == shape.rank()) return shape.elements();
  std::int64_t n = 1;
  for (const PhysicalDim& d : physical_dims(shape, layout)) n *= d.size;
  return n;
}

bool has_padding(const Shape& shape, const Layout& layout) {
  return physical_elements(shape, layout) != shape.elements();
}

bool same_memory(const Shape& a, const Layout& la, const Shape& b, const Layout& lb) {
  if (la.opaque() || lb.opaque() || la.any() || lb.any()) return la == lb && a == b;
  if (a.elements() != b.elements() || has_padding(a, la) || has_padding(b, lb)) return a == b && la == lb;
  // Walk memory order as (stride in the row-major element number, trip count), merging what is contiguous.
  const auto walk = [](const Shape& s, const Layout& l) {
    std::vector<std::int64_t> logical(static_cast<std::size_t>(s.rank()), 1);
    for (int i = s.rank() - 2; i >= 0; --i) logical[static_cast<std::size_t>(i)] = logical[static_cast<std::size_t>(i) + 1] * s[i + 1];
    std::vector<std::pair<std::int64_t, std::int64_t>> nest;
    for (const PhysicalDim& d : physical_dims(s, l)) {
      if (d.size == 1) continue;
      const std::int64_t stride = logical[static_cast<std::size_t>(d.axis)] * d.step;
      if (!nest.empty() && nest.back().first == stride * d.size)
        nest.back() = {stride, nest.back().second * d.size};
      else
        nest.push_back({stride, d.size});
    }
    return nest;
  };
  return walk(a, la) == walk(b, lb);
}

}  // namespace tandem
