// Tables as data sets: a format hands on its rows, twice (what values there are, then the values); what becomes of them is
// here. Numbers are kept in rows of fixed size, in Spools: at most 64 MiB a field in memory, else in a temporary file. Image files
// stay where they are (24 bytes of memory each), or, where that is compressed, are kept as numbers are.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/columns.h"

namespace tandem {

// A cell, valid while its row is.
struct TableCell {
  enum class Kind : std::uint8_t { missing, whole, real, text, list } kind = Kind::missing;
  std::int64_t whole = 0;
  double real = 0;
  std::string_view text{};     // or the bytes of an image file
  std::vector<double> list{};  // lists of lists one after another, row by row
  // Where the whole of an image file stands in an uncompressed file, of which `text` need hold but the first bytes then: it is not copied.
  std::optional<std::uint64_t> offset{};
  std::uint64_t size = 0;
};

// One file of rows.
class TableFile {
 public:
  virtual ~TableFile() = default;
  virtual const std::vector<std::string>& columns() const = 0;
  // Hands on each row with its place (a line, a record). Only columns that are wanted need be filled. May be called again.
  using Each = std::function<void(std::span<const TableCell> row, std::uint64_t place)>;
  virtual void rows(const std::vector<bool>& wanted, const Each& each) = 0;
  virtual std::string_view place() const = 0;  // what a place counts: "line", "row"
  virtual std::vector<bool> images() const { return {}; }  // which columns hold image files, where the first row tells
};

// NAME:FILE with the options of columns.h, and
//   val=FILE, test=FILE       other parts, of the same columns
//   pad=NUMBER                what fills lists up that are shorter than the model takes (0); of labels it is what the loss ignores
//   truncate=on               lists that are longer are cut behind, else they are an error
//   missing=mean|drop|NUMBER  what stands for missing values: the mean of the training part's column, or the row goes; without, they are an
//   error
// FILE as files_of takes it. Labels that are text become classes: their place among the sorted names.
using OpenTable = std::function<std::unique_ptr<TableFile>(const std::string& file)>;
Splits open_tables(const Spec& spec, const DataRequest& request, const std::vector<std::string>& options, const OpenTable& open);

// A value's cell, whose text is the value's own; `where` it stands, for the error (data) of a list that holds no numbers.
TableCell cell_of_json(const class Json& json, const std::function<std::string()>& where);

// JPEG, PNG, WebP, GIF or BMP, by the first bytes.
bool is_image(std::string_view bytes);

}  // namespace tandem
