// A tag is taken apart into its axes and blocks, and what kernels and plans ask of a layout (strides, padded size, whether two
// layouts are the same bytes) is computed from these parts.
#include "graph/layout.h"

#include <algorithm>
#include <cctype>

namespace tandem {
namespace {

struct Block {
  int axis;
  std::int64_t size;
};
struct Parsed {
  std::vector<int> outer;     // axes, outermost first
  std::vector<Block> blocks;  // outermost first
};

Parsed parse(const std::string& tag) {
  Parsed p;
  std::size_t i = 0;
  for (; i < tag.size() && std::isalpha(static_cast<unsigned char>(tag[i])); ++i)
    p.outer.push_back(std::tolower(static_cast<unsigned char>(tag[i])) - 'a');
  while (i < tag.size()) {
    std::int64_t size = 0;
    for (; i < tag.size() && std::isdigit(static_cast<unsigned char>(tag[i])); ++i) size = size * 10 + (tag[i] - '0');
    if (i >= tag.size() || size == 0) fail("layout '", tag, "' is not a layout tag");
    p.blocks.push_back({tag[i++] - 'a', size});
  }
  return p;
}

}  // namespace

Layout Layout::row_major(int rank) {
  std::string tag(static_cast<std::size_t>(std::max(rank, 1)), 'a');
  for (std::size_t i = 0; i < tag.size(); ++i) tag[i] = static_cast<char>('a' + i);
  return Layout(tag);
}

Layout Layout::channels_last(int rank) {
  std::string tag = row_major(rank).tag();
  if (rank > 2) {
    tag.erase(1, 1);
    tag += 'b';
  }
  return Layout(tag);
}

bool Layout::plain() const {
  return !any() && !opaque() && std::none_of(tag_.begin(), tag_.end(), [](unsigned char c) { return std::isdigit(c) || std::isupper(c); });
}

std::vector<PhysicalDim> physical_dims(const Shape& shape, const Layout& layout) {
  if (shape.rank() == 0) return {};
  const Parsed p = parse(layout.tag());
  if (static_cast<int>(p.outer.size()) != shape.rank()) fail("layout '", layout, "' does not fit shape ", shape);
  std::vector<std::int64_t> block(p.outer.size(), 1);
  for (const Block& b : p.blocks) block[static_cast<std::size_t>(b.axis)] *= b.size;
  std::vector<PhysicalDim> dims;
  for (const int axis : p.outer) {
    const std::int64_t inner = block[static_cast<std::size_t>(axis)];
    dims.push_back({axis, (shape[axis] + inner - 1) / inner, 0, inner});
  }
  std::vector<std::int64_t> rest = block;
  for (const Block& b : p.blocks) {
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
