// A layout's tag in parts; nothing else knows how tags are written. A tag names the axes by letters, the outermost first, in
// upper case where blocks hold a part of the axis; behind them stand the blocks, the outermost first, each as its size and the
// letter of its axis: "aBcd16b" is [N, C/16, H, W] of blocks of 16 channels.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "graph/layout.h"

namespace tandem {

struct LayoutTag {
  struct Block {
    int axis;
    std::int64_t size;
    bool operator==(const Block&) const = default;
  };
  std::vector<int> axes;      // outermost first
  std::vector<Block> blocks;  // outermost first

  bool blocked(int axis) const;
  std::int64_t block(int axis) const;  // elements of the axis that its blocks hold; 1 where it has none
  Layout layout() const;
  // Nothing where the text is no tag. That each axis is there once, and that the blocks' are, is for the caller to ask.
  static std::optional<LayoutTag> read(std::string_view text);
};
// Fails where the layout is any, or opaque.
LayoutTag tag_of(const Layout& layout);

}  // namespace tandem
