// Numbers as people read them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

std::string text_of_bytes(std::int64_t bytes);  // "1.25 MiB"
// "512MiB", "1.5 GiB", "2GB", "1000": a number of bytes from 1. Fails (usage) naming `what`.
std::int64_t parse_bytes(std::string_view text, std::string_view what);
std::string text_of_seconds(double seconds);    // "12.3 ms"
std::string text_of_count(double count);        // "1.65 M"
std::string text_of_integer(std::int64_t n);    // "1,650,000"
std::string text_of_rate(double per_second);    // "1,234" above ten, else two digits

// Printable, at most `width` columns, the middle replaced by "..": the ends of a name tell most.
std::string shorten(std::string_view text, std::size_t width);

// A table of printable text: columns as wide as their widest cell, numbers to the right. Rows may be shorter than the header.
class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::string_view indent) const;  // columns empty in every row are left out

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem
