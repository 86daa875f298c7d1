// Reads and writes tags, letter by letter.
#include "graph/layout_tag.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t largest_block = 4096;  // of one block; processors' are far smaller

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
int axis_of(char c) { return c - (c >= 'a' ? 'a' : 'A'); }

}  // namespace

bool LayoutTag::blocked(int axis) const {
  return std::any_of(blocks.begin(), blocks.end(), [&](const Block& b) { return b.axis == axis; });
}

std::int64_t LayoutTag::block(int axis) const {
  std::int64_t n = 1;
  for (const Block& b : blocks)
    if (b.axis == axis) n *= b.size;
  return n;
}

Layout LayoutTag::layout() const {
  std::string text;
  for (const int axis : axes) text += static_cast<char>((blocked(axis) ? 'A' : 'a') + axis);
  for (const Block& b : blocks) text += concat(b.size, static_cast<char>('a' + b.axis));
  return Layout(std::move(text));
}

std::optional<LayoutTag> LayoutTag::read(std::string_view text) {
  LayoutTag tag;
  tag.axes.reserve(text.size());
  std::size_t i = 0;
  for (; i < text.size() && is_letter(text[i]); ++i) tag.axes.push_back(axis_of(text[i]));
  while (i < text.size()) {
    std::int64_t size = 0;
    for (; i < text.size() && is_digit(text[i]) && size <= largest_block; ++i) size = size * 10 + (text[i] - '0');
    if (i == text.size() || size == 0 || size > largest_block || text[i] < 'a' || text[i] > 'z') return std::nullopt;
    tag.blocks.push_back({axis_of(text[i++]), size});
  }
  return tag;
}

LayoutTag tag_of(const Layout& layout) {
  std::optional<LayoutTag> tag = layout.any() || layout.opaque() ? std::nullopt : LayoutTag::read(layout.tag());
  if (!tag) fail("layout '", layout, "' is not a layout tag");
  return std::move(*tag);
}

}  // namespace tandem
