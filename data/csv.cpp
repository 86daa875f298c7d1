// CSV: a header, then a row a line. Fields may be quoted ("" for a quote within), lines end by LF or CRLF, a byte order mark is
// skipped, and the separator is the one of , ; tab | that the header has most of (sep= says another). Source: RFC 4180.
// What columns become, and the bound on memory: table.h.
#include <algorithm>
#include <array>

#include "base/file_kind.h"
#include "data/column_names.h"
#include "data/data_file.h"
#include "data/table.h"

namespace tandem {
namespace {

// What pandas takes for no value, and "?", as older collections of data sets write it.
constexpr std::string_view missing_texts[] = {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>", "?"};

class CsvFile final : public TableFile {
 public:
  CsvFile(const std::string& path, char separator) : file_(path), separator_(separator) {
    FileReader reader(file_);
    std::uint64_t line = 1;
    const std::string head = file_.read(0, std::min<std::uint64_t>(file_.size(), 512));
    if (head.find('\0') != std::string::npos || stands_in(head)) fail(ExitCode::data, file_.name(), ": no CSV", it_is(head));
    if (separator_ == '\0') {
      std::string header;
      FileReader sniff(file_);
      sniff.line(header, data_limits::text_bytes);
      separator_ = ',';
      for (const char c : {';', '\t', '|'})
        if (std::count(header.begin(), header.end(), c) > std::count(header.begin(), header.end(), separator_)) separator_ = c;
    }
    for (const char c : {separator_, '"', '\r', '\n'}) stops_[static_cast<unsigned char>(c)] = true;
    skip_mark(reader);
    if (!record(reader, line)) fail(ExitCode::data, file_.name(), ": empty, expected a header and rows");
    for (std::size_t i = 0; i < fields_; ++i) {
      std::string name = text_[i];
      const std::size_t begin = name.find_first_not_of(" \t"), end = name.find_last_not_of(" \t");
      name = begin == std::string::npos ? "" : name.substr(begin, end - begin + 1);
      if (!columns_.add(name, file_.name())) fail(ExitCode::data, file_.name(), ": line 1: two columns are called '", name, "'");
    }
    if (std::all_of(columns().begin(), columns().end(),
                    [](const std::string& s) { return !s.empty() && s.find_first_not_of("0123456789.+-eE") == std::string::npos; }))
      fail(ExitCode::data, file_.name(), ": line 1 holds numbers, expected a header with the columns' names");
  }
  const std::vector<std::string>& columns() const override { return columns_.list(); }
  std::string_view place() const override { return "line"; }

  void rows(const std::vector<bool>& wanted, const Each& each) override {
    FileReader reader(file_);
    skip_mark(reader);
    std::uint64_t line = 1;
    record(reader, line);
    std::vector<TableCell> row(columns_.size());
    for (std::uint64_t begin = line; record(reader, line); begin = line) {
      if (fields_ == 1 && text_[0].empty() && !quoted_[0] && columns_.size() > 1) continue;  // an empty line
      if (fields_ != columns_.size())
        fail(ExitCode::data, file_.name(), ": line ", begin, " has ", fields_, fields_ == 1 ? " field" : " fields", ", the header has ",
             columns_.size());
      for (std::size_t i = 0; i < fields_; ++i) {
        if (!wanted[i]) continue;
        const char first = text_[i].empty() ? ' ' : text_[i][0];
        const bool none = !quoted_[i] && (first < '0' || first > '9') &&
                          std::find(std::begin(missing_texts), std::end(missing_texts), trimmed(text_[i])) != std::end(missing_texts);
        row[i].kind = none ? TableCell::Kind::missing : TableCell::Kind::text;
        row[i].text = text_[i];
      }
      each(row, begin);
    }
  }

 private:
  static std::string_view trimmed(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  }
  static void skip_mark(FileReader& reader) {
    for (const char c : {'\xef', '\xbb', '\xbf'})
      if (!reader.done() && reader.peek() == c) reader.next();
  }

  // The next record into text_; false at the end. `line` becomes that of the record behind it.
  bool record(FileReader& reader, std::uint64_t& line) {
    if (reader.done()) return false;
    const std::uint64_t begin = line;
    fields_ = 0;
    std::string* field = &start_field(begin);
    bool inside = false;
    while (!reader.done()) {
      if (!inside) {
        field->append(reader.run(stops_));
        if (reader.done()) break;
      }
      const char c = reader.next();
      if (c == '\n') ++line;
      if (inside) {
        if (c != '"')
          *field += c;
        else if (!reader.done() && reader.peek() == '"')
          *field += reader.next();
        else
          inside = false;
      } else if (c == separator_) {
        field = &start_field(begin);
      } else if (c == '\n') {
        return true;
      } else if (c == '"' && field->empty() && !quoted_[fields_ - 1]) {
        inside = true;
        quoted_[fields_ - 1] = true;
      } else if (c != '\r' || (!reader.done() && reader.peek() != '\n')) {
        *field += c;
      }
      if (field->size() > data_limits::text_bytes)
        fail(ExitCode::data, file_.name(), ": line ", begin, ": a field of more than ", data_limits::text_bytes,
             " bytes (a quote that does not end?)");
    }
    if (inside) fail(ExitCode::data, file_.name(), ": line ", begin, ": a quote does not end before the file does");
    return true;
  }
  std::string& start_field(std::uint64_t line) {
    if (fields_ == data_limits::columns)
      fail(ExitCode::data, file_.name(), ": line ", line, ": more than ", data_limits::columns, " columns");
    if (fields_ == text_.size()) {
      text_.emplace_back();
      quoted_.emplace_back();
    }
    quoted_[fields_] = false;
    text_[fields_].clear();
    return text_[fields_++];
  }

  DataFile file_;
  char separator_;
  std::array<bool, 256> stops_{};
  ColumnNames columns_;
  std::vector<std::string> text_;  // of the last record, its first fields_
  std::vector<bool> quoted_;
  std::size_t fields_ = 0;
};

}  // namespace

Splits open_csv(const Spec& spec, const DataRequest& request) {
  const std::string sep = spec.text("sep", "");
  constexpr std::array<std::pair<std::string_view, char>, 4> names{{{"tab", '\t'}, {"semicolon", ';'}, {"comma", ','}, {"space", ' '}}};
  char separator = sep.size() == 1 ? sep[0] : '\0';
  for (const auto& [name, c] : names)
    if (sep == name) separator = c;
  if (!sep.empty() && (separator == '\0' || separator == '"' || separator == '\n'))
    fail(ExitCode::usage, "data 'csv': sep='", sep, "' is no separator, expected one character, tab, comma, semicolon or space");
  return open_tables(spec, request, {"sep"}, [&](const std::string& file) { return std::make_unique<CsvFile>(file, separator); });
}

}  // namespace tandem
