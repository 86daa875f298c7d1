// A Transpose only names the axes anew, so any layout of x gives one of y. A Reshape shares the memory of a plain layout where each
// old axis splits into neighbouring new ones, and of any layout whose bytes lie row by row.
#include "graph/views.h"

#include "graph/layout_tag.h"

namespace tandem {

Ints inverse(const Ints& perm) {
  Ints out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) out[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return out;
}

Layout transposed(const Layout& layout, const Ints& perm) {
  if (perm.empty()) return layout;  // a scalar
  const Ints places = inverse(perm);
  const auto place = [&](int axis) { return static_cast<int>(places[static_cast<std::size_t>(axis)]); };
  LayoutTag tag = tag_of(layout);
  for (int& axis : tag.axes) axis = place(axis);
  for (LayoutTag::Block& block : tag.blocks) block.axis = place(block.axis);
  return tag.layout();
}

std::optional<Layout> reshaped(const Shape& from, const Layout& layout, const Shape& to) {
  if (!layout.plain()) {
    const Layout rows = Layout::row_major(to.rank());
    if (!layout.any() && same_memory(from, layout, to, rows)) return rows;
    return std::nullopt;
  }
  if (layout.is_row_major()) return Layout::row_major(to.rank());
  // Each old axis may only split into consecutive new axes: then these stand where it stood.
  std::vector<std::vector<int>> becomes(from.dims.size());
  int j = 0;
  for (int i = 0; i < from.rank(); ++i) {
    std::int64_t product = 1;
    while (j < to.rank() && (product < from[i] || (to[j] == 1 && to.rank() - j > from.rank() - i - 1))) {
      product *= to[j];
      becomes[static_cast<std::size_t>(i)].push_back(j++);
    }
    if (product != from[i]) {
      if (same_memory(from, layout, to, Layout::row_major(to.rank()))) return Layout::row_major(to.rank());
      return std::nullopt;
    }
  }
  if (j != to.rank()) return std::nullopt;
  LayoutTag tag;
  for (const int axis : tag_of(layout).axes) {
    const std::vector<int>& parts = becomes[static_cast<std::size_t>(axis)];
    tag.axes.insert(tag.axes.end(), parts.begin(), parts.end());
  }
  if (static_cast<int>(tag.axes.size()) != to.rank() || !same_memory(from, layout, to, tag.layout())) return std::nullopt;
  return tag.layout();
}

}  // namespace tandem
