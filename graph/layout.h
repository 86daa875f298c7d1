// How a tensor lies in memory, named by oneDNN's letter tags: "abcd" is row-major, "acdb" channels last,
// "aBcd16b" channels in blocks of 16 (the last dimension of the block list is innermost). Lower-case letters
// are whole axes, upper-case ones axes whose remainder lies in the inner blocks. Sizes are padded to whole
// blocks; the padding holds zeros. Layouts are always packed.
// Source of the notation: oneDNN developer guide, "Understanding memory formats".
#pragma once
#include <string>
#include <vector>

#include "graph/shape.h"

namespace tandem {

class Layout {
 public:
  Layout() = default;  // any: not chosen yet
  explicit Layout(std::string tag) : tag_(std::move(tag)) {}
  static Layout row_major(int rank);
  static Layout channels_last(int rank);  // axis 1 innermost
  static Layout opaque(std::string_view kernel) { return Layout("opaque:" + std::string(kernel)); }

  bool any() const { return tag_.empty(); }
  bool opaque() const { return tag_.starts_with("opaque:"); }
  bool plain() const;  // no inner blocks: a permutation of the axes
  bool is_row_major() const { return plain() && *this == row_major(static_cast<int>(tag_.size())); }
  const std::string& tag() const { return tag_; }
  bool operator==(const Layout&) const = default;

 private:
  std::string tag_;
};
inline std::string to_string(const Layout& layout) { return layout.any() ? "any" : layout.tag(); }

// One loop of the physical nest, outermost first. A blocked axis has several.
struct PhysicalDim {
  int axis;
  std::int64_t size;    // trip count, padding included
  std::int64_t stride;  // elements between neighbours of this loop in memory
  std::int64_t step;    // how far the logical index along `axis` moves for one trip
};
// The physical nest of a shape in a layout. Fails where the layout does not fit the rank.
std::vector<PhysicalDim> physical_dims(const Shape& shape, const Layout& layout);
std::int64_t physical_elements(const Shape& shape, const Layout& layout);  // padding included
bool has_padding(const Shape& shape, const Layout& layout);

// True where both describe the same order of the same elements in memory, so that no copy is needed: e.g.
// [8,64,1,1] as "aBcd16b" and [8,64] as "ab". Shapes hold the same number of elements.
bool same_memory(const Shape& a, const Layout& la, const Shape& b, const Layout& lb);

}  // namespace tandem
