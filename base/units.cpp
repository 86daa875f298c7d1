#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/printable.h"
#include "base/spec.h"

namespace tandem {
namespace {

// Three significant digits with a unit.
std::string scaled(double v, double base, std::span<const std::string_view> units) {
  std::size_t u = 0;
  while (u + 1 < units.size() && std::abs(v) >= base * (base == 1000 ? 0.9995 : 1)) {
    v /= base;
    ++u;
  }
  const int digits = u == 0 || std::abs(v) >= 100 ? 0 : std::abs(v) >= 10 ? 1 : 2;
  return units[u].empty() ? fmt::format("{:.{}f}", v, digits) : fmt::format("{:.{}f} {}", v, digits, units[u]);
}

// Columns a UTF-8 text takes, one a code point.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string text_of_bytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, units);
}

std::int64_t parse_bytes(std::string_view text, std::string_view what) {
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                                                  {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"kB", 1e3},
                                                                  {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  const std::size_t end = std::min(text.size(), text.find_first_not_of("0123456789."));
  const std::size_t begin = std::min(text.size(), text.find_first_not_of(' ', end));
  const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto& u) { return u.first == text.substr(begin); });
  if (end == 0 || unit == std::end(units)) fail(ExitCode::usage, what, ": '", text, "' is no size, expected one such as 512MiB or 16GiB");
  const double bytes = parse_number(text.substr(0, end), what) * unit->second;
  if (!(bytes >= 1 && bytes < 0x1p62)) fail(ExitCode::usage, what, ": '", text, "', expected 1 byte or more");
  return static_cast<std::int64_t>(bytes);
}

std::string text_of_seconds(double seconds) {
  static constexpr std::array<std::string_view, 4> units{"ns", "µs", "ms", "s"};
  return scaled(seconds * 1e9, 1000, units);
}

std::string text_of_count(double count) {
  static constexpr std::array<std::string_view, 6> units{"", "k", "M", "G", "T", "P"};
  return scaled(count, 1000, units);
}

std::string text_of_integer(std::int64_t n) {
  std::string digits = std::to_string(n);
  const std::size_t sign = n < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > 3 + sign; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string text_of_rate(double per_second) {
  if (!std::isfinite(per_second) || std::abs(per_second) > 1e15) return "-";
  return per_second < 10 ? fmt::format("{:.2f}", per_second) : text_of_integer(std::llround(per_second));
}

std::string shorten(std::string_view text, std::size_t width) {
  // Of a text of any length only its ends are looked at: what lies between them is left out anyway.
  const std::size_t end = 4 * width + 16;
  const std::string clean =
      printable(text.size() <= 2 * end ? std::string(text) : concat(text.substr(0, end), text.substr(text.size() - end)));
  if (clean.size() <= width || width < 5) return clean;
  const auto boundary = [&](std::size_t at) {
    while (at < clean.size() && (clean[at] & 0xC0) == 0x80) ++at;
    return at;
  };
  const std::size_t front = boundary((width - 2) / 2);
  return clean.substr(0, front) + ".." + clean.substr(boundary(clean.size() - (width - 2 - (width - 2) / 2)));
}

std::string TextTable::text(std::string_view indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::vector<bool> used(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    used[c] = widths[c] > 0;
    widths[c] = std::max(widths[c], width_of(columns_[c].title));
  }
  std::string out;
  const auto line = [&](auto&& cell) {
    std::string text(indent);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!used[c]) continue;
      const std::string& value = cell(c);
      const std::string pad(widths[c] - width_of(value), ' ');
      text += columns_[c].align == Align::right ? pad + value : value + pad;
      text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  static const std::string none;
  line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows) line([&](std::size_t c) -> const std::string& { return c < row.size() ? row[c] : none; });
  return out;
}

}  // namespace tandem
