#include "planner/plan/page_table.h"

#include <algorithm>

#include "base/printable.h"

namespace tandem {
namespace {

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::vector<std::size_t> PageTable::widths(std::size_t indent) const {
  constexpr std::size_t least = 8, between = 2;
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(printable(row[c])));
  std::size_t all = indent - between;
  for (std::size_t c = 0; c < widths.size(); ++c)
    if (widths[c] > 0) all += between + (widths[c] = std::max(widths[c], width_of(columns_[c].title)));
  while (all > page_width) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool narrows = columns_[c].align == Align::left && widths[c] > std::max(least, width_of(columns_[c].title));
      if (narrows && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest];
    --all;
  }
  return widths;
}

std::string PageTable::text(std::string_view indent) const {
  const std::vector<std::size_t> most = widths(indent.size());
  TextTable table(columns_);
  for (std::vector<std::string> row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      if (width_of(row[c]) > most[c]) row[c] = shorten(row[c], most[c]);
    table.add(std::move(row));
  }
  return table.text(indent);
}

std::string wrapped(std::string_view head, const std::string& text) {
  const std::string indent(head.size(), ' ');
  std::string out, line(head);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() > head.size() && line.size() + 1 + word.size() > page_width) {
      out += line + "\n";
      line = indent;
    }
    line += (line.size() > head.size() ? " " : "") + word;
    begin = end + 1;
  }
  return out + line;
}

}  // namespace tandem
