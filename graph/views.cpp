// A Transpose only names the axes anew, so any layout of x gives one of y. A Reshape shares the memory of a plain layout where each
// old axis splits into neighbouring new ones, and of any layout whose bytes lie row by row.
#include "graph/views.h"

#include <cctype>

namespace tandem {

Ints inverse(const Ints& perm) {
  Ints out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) out[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return out;
}

Layout transposed(const Layout& layout, const Ints& perm) {
  const Ints places = inverse(perm);
  std::string tag = layout.tag();
  for (char& c : tag) {
    if (!std::isalpha(static_cast<unsigned char>(c))) continue;
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    const char to = static_cast<char>('a' + places[static_cast<std::size_t>(std::tolower(static_cast<unsigned char>(c)) - 'a')]);
    c = upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(to))) : to;
  }
  return Layout(tag);
}

std::optional<Layout> reshaped(const Shape& from, const Layout& layout, const Shape& to) {
  if (!layout.plain()) {
    const Layout rows = Layout::row_major(to.rank());
    if (!layout.any() && same_memory(from, layout, to, rows)) return rows;
    return std::nullopt;
  }
  if (layout.is_row_major()) return Layout::row_major(to.rank());
  // Each old axis may only split into consecutive new axes: then its letter becomes theirs.
  std::vector<std::string> letters(from.dims.size());
  int j = 0;
  for (int i = 0; i < from.rank(); ++i) {
    std::int64_t product = 1;
    while (j < to.rank() && (product < from[i] || (to[j] == 1 && to.rank() - j > from.rank() - i - 1))) {
      product *= to[j];
      letters[static_cast<std::size_t>(i)] += static_cast<char>('a' + j++);
    }
    if (product != from[i]) {
      if (same_memory(from, layout, to, Layout::row_major(to.rank()))) return Layout::row_major(to.rank());
      return std::nullopt;
    }
  }
  if (j != to.rank()) return std::nullopt;
  std::string tag;
  for (const char c : layout.tag()) tag += letters[static_cast<std::size_t>(c - 'a')];
  if (static_cast<int>(tag.size()) != to.rank() || !same_memory(from, layout, to, Layout(tag))) return std::nullopt;
  return Layout(tag);
}

}  // namespace tandem
