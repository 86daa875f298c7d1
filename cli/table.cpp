#include "cli/table.h"

#include <algorithm>

#include "base/printable.h"
#include "base/spec.h"

namespace tandem {
namespace {

// Characters, not bytes, of UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<TableColumn>& head, std::vector<std::vector<std::string>> rows, std::size_t columns) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<std::size_t> widths, shown;
  for (std::size_t c = 0; c < head.size(); ++c) {
    widths.push_back(width_of(head[c].title));
    for (const auto& row : rows) widths[c] = std::max(widths[c], width_of(row[c]));
    shown.push_back(c);
  }
  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t c : shown) sum += widths[c] + 2;
    return sum - 2;
  };
  while (total() > columns) {
    const auto least = std::max_element(shown.begin(), shown.end(),
                                        [&](std::size_t a, std::size_t b) { return head[a].dispensable < head[b].dispensable; });
    if (head[*least].dispensable == 0) break;
    shown.erase(least);
  }
  std::string text;
  const auto line = [&](const auto& cell) {
    std::string l;
    for (const std::size_t c : shown) {
      const std::string& word = cell(c);
      const std::string space(widths[c] - width_of(word), ' ');
      l += (l.empty() && c == shown[0] ? "" : "  ") + (head[c].right ? space + word : word + space);
    }
    l.resize(l.find_last_not_of(' ') + 1);
    text += l + '\n';
  };
  line([&](std::size_t c) -> const std::string& { return head[c].title; });
  for (const auto& row : rows) line([&](std::size_t c) -> const std::string& { return row[c]; });
  return text;
}

std::size_t output_columns(const Streams& streams, const Environment& environment) {
  constexpr std::size_t usual = 100, least = 40;
  const int here = streams.out_terminal && streams.columns ? streams.columns() : 0;
  if (here > 0) return std::max(least, static_cast<std::size_t>(here));
  if (const char* said = environment("COLUMNS"); said && *said) {
    try {
      return std::max(least, static_cast<std::size_t>(std::max<std::int64_t>(0, parse_integer(said, "COLUMNS"))));
    } catch (const Error&) {
    }
  }
  return usual;
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t width = width_of(word);
    if (used > 0 && used + 1 + width > columns) {
      out += '\n' + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) out += ' ';
    out += word;
    used = (used > 0 ? used + 1 : 0) + width;
    at = end;
  }
  return out;
}

}  // namespace tandem
