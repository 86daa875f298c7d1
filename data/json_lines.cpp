// JSON lines: an object a line, whose members are columns: numbers, booleans (0, 1), lists of numbers of one length, text that names a
// class, null for no value; members of objects within are called outer.inner. The first line says which columns there are.
// What columns become, and the bound on memory: table.h.
#include <algorithm>

#include "base/file_kind.h"
#include "base/json.h"
#include "data/column_names.h"
#include "data/data_file.h"
#include "data/table.h"

namespace tandem {
namespace {

using Kind = TableCell::Kind;

class JsonLines final : public TableFile {
 public:
  explicit JsonLines(const std::string& path) : file_(path) {
    FileReader reader(file_);
    std::string line;
    std::uint64_t number = 0;
    while (line.empty() && reader.line(line, data_limits::json_bytes)) ++number;
    if (line.empty()) fail(ExitCode::data, file_.name(), ": empty, expected an object a line");
    const Json first = parse(line, number, true);
    name(first, "");
  }
  const std::vector<std::string>& columns() const override { return columns_.list(); }
  std::string_view place() const override { return "line"; }

  void rows(const std::vector<bool>& wanted, const Each& each) override {
    FileReader reader(file_);
    std::string line;
    std::vector<TableCell> row(columns_.size());
    for (std::uint64_t number = 1; reader.line(line, data_limits::json_bytes); ++number) {
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      const Json object = parse(line, number);
      std::fill(row.begin(), row.end(), TableCell{});
      fill(object, "", wanted, row, number);
      each(row, number);
    }
  }

 private:
  Json parse(const std::string& line, std::uint64_t number, bool first = false) const {
    try {
      Json json = Json::parse(line);
      if (json.is_object()) return json;
    } catch (const Error& e) {
      fail(ExitCode::data, file_.name(), ": line ", number, ": ", e.what(),
           first ? it_is(file_.read(0, std::min<std::uint64_t>(file_.size(), 512))) : "");
    }
    fail(ExitCode::data, file_.name(), ": line ", number, ": no object, expected {\"name\": value, ...}");
  }
  void name(const Json& object, const std::string& prefix) {
    for (const auto& [key, value] : object.object())
      if (value.is_object())
        name(value, prefix + key + '.');
      else
        columns_.add(prefix + key, file_.name());
  }
  void fill(const Json& object, const std::string& prefix, const std::vector<bool>& wanted, std::vector<TableCell>& row,
            std::uint64_t line) const {
    for (const auto& [key, value] : object.object()) {
      if (value.is_object()) {
        fill(value, prefix + key + '.', wanted, row, line);
        continue;
      }
      const std::size_t at = columns_.find(prefix + key);
      if (at < columns_.size() && wanted[at])
        row[at] = cell_of_json(value, [&, &key = key] { return concat(file_.name(), ": line ", line, ", column '", prefix, key, '\''); });
    }
  }

  DataFile file_;
  ColumnNames columns_;
};

void add(std::vector<double>& to, const Json& list, const std::function<std::string()>& where) {
  for (const Json& v : list.array())
    if (v.is_array())
      add(to, v, where);
    else if (const auto* b = std::get_if<bool>(&v.value()))
      to.push_back(*b);
    else if (std::holds_alternative<double>(v.value()) || std::holds_alternative<std::int64_t>(v.value()))
      to.push_back(v.number());
    else
      fail(ExitCode::data, where(), ": a list with ", v.dump().substr(0, 40), ", which is no number");
}

}  // namespace

TableCell cell_of_json(const Json& json, const std::function<std::string()>& where) {
  const auto& v = json.value();
  if (const auto* b = std::get_if<bool>(&v)) return {.kind = Kind::whole, .whole = *b};
  if (const auto* d = std::get_if<double>(&v)) return {.kind = Kind::real, .real = *d};
  if (const auto* i = std::get_if<std::int64_t>(&v)) return {.kind = Kind::whole, .whole = *i};
  if (const auto* s = std::get_if<std::string>(&v)) return {.kind = Kind::text, .text = *s};
  TableCell list{.kind = Kind::list};
  if (json.is_array()) add(list.list, json, where);
  return json.is_array() ? list : TableCell{};
}

Splits open_json_lines(const Spec& spec, const DataRequest& request) {
  return open_tables(spec, request, {}, [](const std::string& file) { return std::make_unique<JsonLines>(file); });
}

}  // namespace tandem
