// What a table's column holds, as a first reading of its cells finds it.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "data/table.h"

namespace tandem {

// Where a cell stands.
struct CellPlace {
  std::string_view file, unit;  // what `number` counts: "line", "row"
  std::uint64_t number;
  std::string_view column;

  std::string row() const { return concat(file, ": ", unit, ' ', number); }
  [[noreturn]] void refuse(std::string_view what) const { fail(ExitCode::data, row(), ", column '", column, "': ", what); }
};

// A text's number (of true and false 1 and 0), else the text.
TableCell number_of(const TableCell& cell);
double as_double(const TableCell& number);
bool is_whole(const TableCell& number);
std::string in_quotes(std::string_view text);  // its first characters

struct ColumnContents {
  std::int64_t width = -1, missing = 0, numbers = 0;  // width: the most numbers of a row
  std::int64_t least = -1;                            // and the fewest
  bool lists = false, single = false;                 // there are such rows
  std::string longest, other, other_width;            // rows: the widest, the first of another width; what it has
  double sum = 0;
  bool whole = true, image = false;
  std::string first_text, first_missing;     // rows
  std::set<std::string, std::less<>> names;  // of labels

  // Fails (data) on text among the numbers of what is no label, on labels that are both, and where there are too many names for classes.
  void add(const TableCell& cell, Role role, const CellPlace& place);

 private:
  void add_value(const TableCell& cell, Role role, const CellPlace& place);
};

}  // namespace tandem
