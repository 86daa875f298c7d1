// Tables of text for terminals of any width.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace tandem {

struct TableColumn {
  std::string title;
  bool right = false;      // numbers
  int dispensable = 0;     // the highest go first where there is no room; 0: never
};
// Lines of at most `columns` characters where that can be had by leaving columns out.
std::string table(const std::vector<TableColumn>& head, std::vector<std::vector<std::string>> rows, std::size_t columns);

// How wide output may be: the terminal's width, else COLUMNS, else 100.
std::size_t output_columns(const Streams& streams, const Environment& environment);

// Text broken at blanks into lines of at most `columns` characters; those after the first stand behind `indent` blanks more.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

}  // namespace tandem
