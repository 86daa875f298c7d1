// Text for people within a page's width.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tandem {

inline constexpr std::size_t page_width = 100;  // columns of text

// A table, for which text to the left is shortened, the widest column first, down to eight characters. Numbers stay whole.
class PageTable {
 public:
  using Align = TextTable::Align;
  explicit PageTable(std::vector<TextTable::Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::string_view indent) const;

 private:
  std::vector<std::size_t> widths(std::size_t indent) const;
  std::vector<TextTable::Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Words in lines of the page's width: the first begins with `head`, the others with as many spaces.
std::string wrapped(std::string_view head, const std::string& text);

}  // namespace tandem
