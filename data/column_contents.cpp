#include "data/column_contents.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tandem {
namespace {

using Kind = TableCell::Kind;
constexpr std::size_t most_classes = 100'000;

}  // namespace

TableCell number_of(const TableCell& v) {
  if (v.kind != Kind::text) return v;
  std::string_view s = v.text;
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  const char* end = s.data() + s.size();
  TableCell n{.kind = Kind::whole};
  if (const auto r = std::from_chars(s.data(), end, n.whole); !s.empty() && r.ec == std::errc{} && r.ptr == end) return n;
  for (const auto& [name, value] : {std::pair{"true", 1}, {"True", 1}, {"TRUE", 1}, {"false", 0}, {"False", 0}, {"FALSE", 0}})
    if (s == name) return {.kind = Kind::whole, .whole = value};
  n.kind = Kind::real;
  if (const auto r = std::from_chars(s.data(), end, n.real); !s.empty() && r.ec == std::errc{} && r.ptr == end) return n;
  return v;
}

double as_double(const TableCell& v) { return v.kind == Kind::whole ? static_cast<double>(v.whole) : v.real; }
bool is_whole(const TableCell& v) { return v.kind == Kind::whole || (v.real == std::trunc(v.real) && std::abs(v.real) < 0x1p53); }
std::string in_quotes(std::string_view text) { return concat('\'', text.substr(0, 40), text.size() > 40 ? "...'" : "'"); }

bool is_image(std::string_view b) {
  return b.starts_with("\xff\xd8\xff") || b.starts_with("\x89PNG\r\n\x1a\n") ||
         (b.size() > 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP") || b.starts_with("GIF8") ||
         (b.size() > 14 && b.starts_with("BM") && b.substr(6, 4) == std::string_view("\0\0\0\0", 4));
}

void ColumnContents::add(const TableCell& cell, Role role, const CellPlace& place) {
  if (cell.kind == Kind::missing) {
    if (missing++ == 0) first_missing = place.row();
    return;
  }
  const auto numbers_here = cell.kind == Kind::list ? static_cast<std::int64_t>(cell.list.size()) : 1;
  (cell.kind == Kind::list ? lists : single) = true;
  if (width >= 0 && width != numbers_here && other.empty()) {
    other = place.row();
    other_width = concat("a list of ", numbers_here, " numbers, those before have ", width);
  }
  if (numbers_here > width) longest = place.row();
  width = std::max(width, numbers_here);
  least = least < 0 ? numbers_here : std::min(least, numbers_here);
  if (cell.kind != Kind::list) return add_value(cell, role, place);
  for (const double v : cell.list) add_value({.kind = Kind::real, .real = v}, role, place);
}

void ColumnContents::add_value(const TableCell& cell, Role role, const CellPlace& place) {
  const TableCell v = number_of(cell);
  if (v.kind == Kind::text) {
    if (first_text.empty()) {
      first_text = place.row();
      image = is_image(v.text);
      if (!image && role != Role::label)
        place.refuse(concat(in_quotes(v.text), " is no number",
                            role == Role::input ? ": leave the column out (x=...), or write it as numbers" : ""));
    }
  } else {
    ++numbers;
    sum += as_double(v);
    whole = whole && is_whole(v);
  }
  if (role != Role::label || image) return;
  // Also of numbers: a later text makes them names.
  if (names.size() <= most_classes && cell.kind == Kind::text && names.find(cell.text) == names.end()) names.emplace(cell.text);
  if (!first_text.empty() && cell.kind != Kind::text) place.refuse("a number among texts");
  if (!first_text.empty() && names.size() > most_classes)
    place.refuse(concat("more than ", most_classes, " different texts are no classes"));
}

}  // namespace tandem
