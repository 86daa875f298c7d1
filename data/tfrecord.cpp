// tfrecord:SHARDS: TensorFlow's records of Example messages. A record is its length (8 bytes), the length's masked CRC-32C, the bytes,
// their masked CRC-32C, all little-endian; both are checked. Of an Example each feature is a column: one number or a list of one
// length (int64_list, float_list), text that names a class or an image file (bytes_list of one). The first record says which
// features there are. Source: tensorflow/core/example/example.proto, feature.proto; TensorFlow's TFRecord page; protobuf's encoding.
// A record at a time is read; images stay in the file where it is not compressed. What columns become, and the bound: table.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/crc32c.h"
#include "base/file_kind.h"
#include "data/data_file.h"
#include "data/table.h"

namespace tandem {
namespace {

using Kind = TableCell::Kind;
constexpr std::uint64_t most_record = std::uint64_t{1} << 31;  // protobuf's own limit

std::uint64_t little(std::string_view s, std::size_t at, std::size_t bytes) {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < bytes; ++i) v |= std::uint64_t{static_cast<unsigned char>(s[at + i])} << (8 * i);
  return v;
}
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

// A message's fields, one after another. What is cut or of no known kind is not sound.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : bytes_(bytes) {}
  bool next() {
    if (at_ == bytes_.size() || !sound_) return false;
    const std::uint64_t tag = varint();
    field_ = static_cast<std::uint32_t>(tag >> 3);
    kind_ = static_cast<int>(tag & 7);
    value_ = {};
    if (kind_ == 0) {
      number_ = varint();
    } else if (kind_ == 1 || kind_ == 5 || kind_ == 2) {
      const std::uint64_t length = kind_ == 2 ? varint() : kind_ == 1 ? 8 : 4;
      sound_ = sound_ && length <= bytes_.size() - at_;
      if (!sound_) return false;
      value_ = bytes_.substr(at_, length);
      at_ += length;
    } else {
      sound_ = false;
    }
    return sound_;
  }
  bool sound() const { return sound_; }
  bool done() const { return at_ == bytes_.size(); }
  std::uint32_t field() const { return field_; }
  int kind() const { return kind_; }
  std::uint64_t number() const { return number_; }
  std::string_view value() const { return value_; }
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) break;
      const auto c = static_cast<unsigned char>(bytes_[at_++]);
      v |= std::uint64_t{c & 127u} << shift;
      if (c < 128) return v;
    }
    sound_ = false;
    return 0;
  }

 private:
  std::string_view bytes_, value_;
  std::size_t at_ = 0;
  bool sound_ = true;
  std::uint32_t field_ = 0;
  int kind_ = 0;
  std::uint64_t number_ = 0;
};

// Feature { bytes_list 1, float_list 2, int64_list 3 }, each with values in field 1. False where it is none.
bool parse_feature(std::string_view bytes, TableCell& cell, std::size_t& texts) {
  Wire feature(bytes);
  bool whole = false;
  texts = 0;
  while (feature.next()) {
    if (feature.kind() != 2 || feature.field() < 1 || feature.field() > 3) continue;
    Wire list(feature.value());
    cell = {};
    const std::uint32_t of = feature.field();
    whole = of == 3;
    while (list.next()) {
      if (list.field() != 1) continue;
      if (of == 1 && list.kind() == 2) {
        cell.kind = Kind::text;
        cell.text = list.value();
        ++texts;
      } else if (of == 2 && (list.kind() == 2 || list.kind() == 5)) {
        for (std::size_t i = 0; i + 4 <= list.value().size(); i += 4)
          cell.list.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(little(list.value(), i, 4))));
        if (list.value().size() % 4 != 0) return false;
      } else if (of == 3 && list.kind() == 0) {
        cell.whole = static_cast<std::int64_t>(list.number());
        cell.list.push_back(static_cast<double>(cell.whole));
      } else if (of == 3 && list.kind() == 2) {
        Wire packed(list.value());
        while (!packed.done() && packed.sound())
          cell.list.push_back(static_cast<double>(cell.whole = static_cast<std::int64_t>(packed.varint())));
        if (!packed.sound()) return false;
      } else {
        return false;
      }
    }
    if (!list.sound()) return false;
  }
  if (!feature.sound()) return false;
  if (cell.list.size() == 1) {
    cell.kind = whole ? Kind::whole : Kind::real;
    cell.real = cell.list[0];
  } else if (!cell.list.empty()) {
    cell.kind = Kind::list;
  }
  return true;
}

class TfRecord final : public TableFile {
 public:
  explicit TfRecord(const std::string& path) : file_(path) {
    std::string record;
    std::uint64_t at = 0;
    if (!read(at, 0, record)) fail(ExitCode::data, path, ": empty, expected records");
    features(record, 0, [&](std::string_view name, std::string_view feature) {
      columns_.emplace_back(name);
      TableCell cell;
      std::size_t texts = 0;
      first_images_[columns_.back()] = parse_feature(feature, cell, texts) && cell.kind == Kind::text && is_image(cell.text);
    });
    std::sort(columns_.begin(), columns_.end());
    if (std::adjacent_find(columns_.begin(), columns_.end()) != columns_.end())
      fail(ExitCode::data, path, ": record 0 has two features of one name");
    if (columns_.empty()) fail(ExitCode::data, path, ": record 0 is no Example with features");
  }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string_view place() const override { return "record"; }
  std::vector<bool> images() const override {
    std::vector<bool> are;
    for (const std::string& column : columns_) are.push_back(first_images_.at(column));
    return are;
  }

  void rows(const std::vector<bool>& wanted, const Each& each) override {
    std::vector<TableCell> row(columns_.size());
    std::string record;
    std::uint64_t number = 0;
    for (std::uint64_t at = 0; read(at, number, record); ++number) {
      std::fill(row.begin(), row.end(), TableCell{});
      const std::uint64_t begin = at - 4 - record.size();
      features(record, number, [&](std::string_view name, std::string_view feature) {
        const auto column = static_cast<std::size_t>(std::lower_bound(columns_.begin(), columns_.end(), name) - columns_.begin());
        if (column == columns_.size() || columns_[column] != name || !wanted[column]) return;
        TableCell& cell = row[column];
        std::size_t texts = 0;
        if (!parse_feature(feature, cell, texts)) bad(number, concat("feature '", name, "' is damaged"));
        if (texts > 1) bad(number, concat("feature '", name, "' holds ", texts, " byte strings, expected one"));
        if (cell.kind == Kind::text && !file_.compressed() && is_image(cell.text)) {
          cell.offset = begin + static_cast<std::uint64_t>(cell.text.data() - record.data());
          cell.size = cell.text.size();
        }
      });
      each(row, number);
    }
  }

 private:
  // The record at a place, which becomes that behind it; false at the end.
  bool read(std::uint64_t& at, std::uint64_t number, std::string& record) const {
    if (at == file_.size()) return false;
    if (file_.size() - at < 16) bad(number, concat("truncated: ", file_.size() - at, " bytes are left"));
    const std::string head = file_.read(at, 12);
    if (little(head, 8, 4) != masked_crc(std::string_view(head).substr(0, 8)))
      bad(number, concat("the length's CRC differs (byte ", at, "): damaged, or no TFRecord file",
                         number == 0 ? it_is(file_.read(0, std::min<std::uint64_t>(file_.size(), 512))) : ""));
    const std::uint64_t length = little(head, 0, 8);
    if (length > file_.size() - at - 16)
      bad(number, concat("truncated: ", length, " bytes are wanted, ", file_.size() - at - 16, " are left"));
    if (length > most_record) bad(number, concat(length, " bytes are too many"));
    record = file_.read(at + 12, length + 4);
    const std::uint64_t crc = little(record, length, 4);
    record.resize(length);
    if (crc != masked_crc(record)) bad(number, concat("its CRC differs (byte ", at, "): damaged"));
    at += 16 + length;
    return true;
  }
  // Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }.
  template <class Each>
  void features(std::string_view record, std::uint64_t number, const Each& each) const {
    Wire example(record);
    while (example.next()) {
      if (example.field() != 1 || example.kind() != 2) continue;
      Wire map(example.value());
      while (map.next()) {
        if (map.field() != 1 || map.kind() != 2) continue;
        Wire entry(map.value());
        std::string_view name, feature;
        while (entry.next()) {
          if (entry.field() == 1) name = entry.value();
          if (entry.field() == 2) feature = entry.value();
        }
        if (!entry.sound()) bad(number, "no Example message");
        each(name, feature);
      }
      if (!map.sound()) bad(number, "no Example message");
    }
    if (!example.sound()) bad(number, "no Example message");
  }
  [[noreturn]] void bad(std::uint64_t number, std::string_view what) const {
    fail(ExitCode::data, file_.name(), ": record ", number, ": ", what);
  }

  DataFile file_;
  std::vector<std::string> columns_;
  std::map<std::string, bool, std::less<>> first_images_;
};

}  // namespace

Splits open_tfrecord(const Spec& spec, const DataRequest& request) {
  return open_tables(spec, request, {}, [](const std::string& file) { return std::make_unique<TfRecord>(file); });
}

}  // namespace tandem
