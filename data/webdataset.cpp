// webdataset:SHARDS: tar files whose members of one name, up to its first dot, are a sample, and whose endings are columns: images
// (jpg, jpeg, png, webp, gif, bmp), cls and txt (a number, or a class as text), npy (an array of one length), and json, whose members are
// columns of their own. The members of a sample stand one after another. Source: POSIX.1-2001's ustar and pax, GNU tar's long names;
// WebDataset's documentation. An index of 24 bytes a member is made by one pass over the headers; images stay in the file where it
// is not compressed. What columns become, and the bound on memory: table.h.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/file_kind.h"
#include "base/json.h"
#include "data/column_names.h"
#include "data/data_file.h"
#include "data/npy.h"
#include "data/table.h"

namespace tandem {
namespace {

using Kind = TableCell::Kind;
constexpr std::uint64_t block = 512, most_name = 1 << 16, most_value = std::uint64_t{1} << 30, magic_bytes = 32;
constexpr std::string_view image_endings[] = {"jpg", "jpeg", "png", "webp", "gif", "bmp"};

struct Member {
  std::size_t column;
  std::uint64_t offset, size;
};

std::string_view ending_of(std::string_view column) { return column.substr(column.rfind('.') + 1); }
bool is_image_ending(std::string_view ending) {
  return std::find(std::begin(image_endings), std::end(image_endings), ending) != std::end(image_endings);
}

class TarFile final : public TableFile {
 public:
  explicit TarFile(const std::string& path) : file_(path) {
    index();
    if (samples_.empty()) fail(ExitCode::data, path, ": holds no samples (files called KEY.ENDING)");
    samples_.push_back(members_.size());
    // Columns are those of the first sample.
    for (std::size_t i = 0; i < samples_[1]; ++i) {
      const std::string& ending = endings_.list()[members_[i].column];
      if (ending_of(ending) == "json") {
        const Json json = json_of(members_[i], 0);
        for (const auto& [key, value] : json.object()) add_column(key);
      } else {
        add_column(ending);
      }
    }
  }
  const std::vector<std::string>& columns() const override { return columns_.list(); }
  std::string_view place() const override { return "sample"; }
  std::vector<bool> images() const override {
    std::vector<bool> are;
    for (const std::string& column : columns())
      are.push_back(is_image_ending(ending_of(column)) && endings_.find(column) < endings_.size());
    return are;
  }

  void rows(const std::vector<bool>& wanted, const Each& each) override {
    std::vector<TableCell> row(columns_.size());
    std::vector<std::string> texts(endings_.size());
    for (std::size_t s = 0; s + 1 < samples_.size(); ++s) {
      std::fill(row.begin(), row.end(), TableCell{});
      Json json;
      for (std::size_t m = samples_[s]; m < samples_[s + 1]; ++m) {
        const Member& member = members_[m];
        const std::string& ending = endings_.list()[member.column];
        if (ending_of(ending) == "json") {
          json = json_of(member, s);
          for (const auto& entry : json.object()) {
            const auto where = [&] { return concat(file_.name(), ": sample ", s, ", '", entry.first, "'"); };
            set(row, wanted, entry.first, [&] { return cell_of_json(entry.second, where); });
          }
        } else {
          set(row, wanted, ending, [&] { return of_member(member, ending, texts[member.column], s); });
        }
      }
      each(row, s);
    }
  }

 private:
  void add_column(const std::string& column) {
    if (!columns_.add(column, file_.name()))
      fail(ExitCode::data, file_.name(), ": sample ", keys_front_, ": two members give '", column, "'");
  }
  template <class Make>
  void set(std::vector<TableCell>& row, const std::vector<bool>& wanted, const std::string& column, const Make& make) const {
    const std::size_t at = columns_.find(column);
    if (at < columns_.size() && wanted[at]) row[at] = make();
  }
  TableCell of_member(const Member& m, const std::string& column, std::string& text, std::size_t sample) const {
    const std::string_view ending = ending_of(column);
    if (is_image_ending(ending)) {
      text = file_.read(m.offset, file_.compressed() ? m.size : std::min(m.size, magic_bytes));
      TableCell cell{.kind = Kind::text, .text = text, .size = m.size};
      if (!file_.compressed()) cell.offset = m.offset;
      return cell;
    }
    if (m.size > most_value)
      fail(ExitCode::data, file_.name(), ": sample ", sample, ", member .", column, ": ", m.size, " bytes are too many");
    text = file_.read(m.offset, m.size);
    if (ending == "cls" || ending == "txt" || ending == "text" || ending == "id" || ending == "index") {
      std::string_view trimmed = text;
      while (!trimmed.empty() && std::isspace(static_cast<unsigned char>(trimmed.back()))) trimmed.remove_suffix(1);
      return trimmed.empty() ? TableCell{} : TableCell{.kind = Kind::text, .text = trimmed};
    }
    if (ending != "npy")
      fail(ExitCode::data, file_.name(), ": member .", column, " is of no kind that is read (images, cls, txt, json, npy)");
    const Tensor array = parse_npy(std::as_bytes(std::span(text)), concat(file_.name(), ": sample ", sample, ", member .", column));
    return {.kind = Kind::list, .list = array.to_doubles()};
  }
  Json json_of(const Member& m, std::size_t sample) const {
    const auto bad = [&](std::string_view what) { fail(ExitCode::data, file_.name(), ": sample ", sample, ", member .json: ", what); };
    if (m.size > data_limits::json_bytes) bad(concat("more than ", data_limits::json_bytes, " bytes"));
    try {
      Json json = Json::parse(file_.read(m.offset, m.size));
      if (json.is_object()) return json;
    } catch (const Error& e) {
      bad(e.what());
    }
    bad("no object, expected {\"name\": value, ...}");
    return {};
  }

  static std::uint64_t number(std::string_view field, bool& sound) {
    std::uint64_t v = 0;
    if (!field.empty() && static_cast<unsigned char>(field[0]) == 0x80) {  // GNU's: big-endian
      for (const char c : field.substr(1)) v = v >> 55 ? (sound = false, 0) : v << 8 | static_cast<unsigned char>(c);
      return v;
    }
    for (const char c : field) {
      if (c == ' ' || c == '\0') continue;
      if (c < '0' || c > '7' || v >> 60) sound = false;
      v = v << 3 | static_cast<std::uint64_t>(c - '0');
    }
    return v;
  }
  static std::string_view text(std::string_view field) { return field.substr(0, field.find('\0')); }

  void index() {
    std::string long_name, key;
    std::uint64_t long_size = 0;
    bool has_size = false;
    for (std::uint64_t at = 0; at < file_.size();) {
      if (file_.size() - at < block) bad(at, concat("truncated in a header", at == 0 ? it_is(file_.read(0, file_.size())) : ""));
      const std::string header = file_.read(at, block);
      if (header.find_first_not_of('\0') == std::string::npos) break;  // the end
      bool sound = true;
      const std::uint64_t sum = number(std::string_view(header).substr(148, 8), sound);
      std::uint64_t real = 0;
      for (std::size_t i = 0; i < block; ++i) real += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
      std::uint64_t size = number(std::string_view(header).substr(124, 12), sound);
      if (!sound || sum != real) bad(at, concat("no tar header (its checksum differs)", at == 0 ? it_is(file_.read(0, block)) : ""));
      const char type = header[156];
      if (has_size && type != 'L' && type != 'x') size = long_size;
      const std::uint64_t begin = at + block;
      if (size > file_.size() - begin || (size + block - 1) / block * block > file_.size() - begin)
        bad(at, concat("truncated: a member of ", size, " bytes in whole blocks, ", file_.size() - begin, " follow"));
      at = begin + (size + block - 1) / block * block;
      if (type == 'L' || type == 'x') {
        if (size > most_name) bad(begin, "a name beyond the limit");
        const std::string value = file_.read(begin, size);
        if (type == 'L') long_name = text(value);
        if (type == 'x') pax(value, long_name, long_size, has_size);
        continue;
      }
      std::string name = !long_name.empty() ? long_name : std::string(text(std::string_view(header).substr(0, 100)));
      if (const std::string_view prefix = text(std::string_view(header).substr(345, 155));
          long_name.empty() && header.compare(257, 5, "ustar") == 0 && header[263] == '0' && !prefix.empty())
        name = concat(prefix, '/', name);
      long_name.clear();
      has_size = false;
      if (type == '0' || type == '\0' || type == '7') add(name, begin, size, key);
    }
  }
  // "LENGTH KEY=VALUE\n" each.
  static void pax(std::string_view records, std::string& name, std::uint64_t& size, bool& has_size) {
    while (!records.empty()) {
      const std::size_t end = records.find('\n'), space = records.find(' '), equals = records.find('=');
      if (end == std::string_view::npos || space >= end || equals >= end || space > equals) return;
      const std::string_view key = records.substr(space + 1, equals - space - 1), value = records.substr(equals + 1, end - equals - 1);
      if (key == "path") name = value;
      if (key == "size" && !value.empty() && value.size() < 19 && value.find_first_not_of("0123456789") == std::string_view::npos) {
        size = std::stoull(std::string(value));
        has_size = true;
      }
      records.remove_prefix(end + 1);
    }
  }
  void add(const std::string& name, std::uint64_t begin, std::uint64_t size, std::string& key) {
    const std::size_t slash = name.rfind('/'), base = slash == std::string::npos ? 0 : slash + 1, dot = name.find('.', base);
    if (dot == std::string::npos || dot == base) return;  // no member of a sample
    std::string ending = name.substr(dot + 1);
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (ending.empty()) return;
    if (samples_.empty() || name.compare(0, dot, key) != 0) {
      if (samples_.empty()) keys_front_ = name.substr(0, dot);
      key = name.substr(0, dot);
      samples_.push_back(members_.size());
    }
    const std::size_t column = endings_.find(ending);
    if (column == endings_.size()) endings_.add(ending, file_.name());
    members_.push_back({column, begin, size});
  }
  [[noreturn]] void bad(std::uint64_t at, std::string_view what) const { fail(ExitCode::data, file_.name(), ": byte ", at, ": ", what); }

  DataFile file_;
  ColumnNames endings_, columns_;
  std::vector<Member> members_;
  std::vector<std::size_t> samples_;  // where the members of each begin, and the end
  std::string keys_front_;
};

}  // namespace

Splits open_webdataset(const Spec& spec, const DataRequest& request) {
  return open_tables(spec, request, {}, [](const std::string& file) { return std::make_unique<TarFile>(file); });
}

}  // namespace tandem
