#include "data/parquet_column.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "data/npy.h"
#include "data/parquet_page.h"
#include "data/thrift.h"

namespace tandem {
namespace {

enum Encoding {
  plain = 0,
  plain_dictionary = 2,
  rle = 3,
  delta_packed = 5,
  delta_length = 6,
  delta_bytes = 7,
  rle_dictionary = 8,
  byte_stream_split = 9
};
enum PageKind { data_page = 0, index_page = 1, dictionary_page = 2, data_page_2 = 3 };

int bits_for(int highest) { return std::bit_width(static_cast<unsigned>(highest)); }

template <class T>
T little(std::string_view s, std::size_t at) {
  T v;
  std::memcpy(&v, s.data() + at, sizeof v);
  return v;
}

class Column {
 public:
  Column(const ParquetLeaf& leaf, int codec, std::uint64_t values, ReadBudget& budget, const std::string& where)
      : leaf_(leaf), codec_(codec), wanted_(values), budget_(budget), where_(where) {}

  ParquetValues read(std::string bytes) {
    std::string_view chunk = out_.pages.emplace_back(std::move(bytes));  // values refer to it
    take_room();
    while (seen_ < wanted_) {
      Thrift header;
      if (chunk.empty()) bad(concat(seen_, " values, expected ", wanted_));
      if (!parse_thrift(chunk, header)) bad("a page's header is damaged");
      const std::int64_t stored = header[3].number, size = header[2].number;
      if (stored < 0 || size < 0 || static_cast<std::uint64_t>(stored) > chunk.size()) bad("a page is longer than its column");
      const std::string_view body = chunk.substr(0, static_cast<std::size_t>(stored));
      chunk.remove_prefix(body.size());
      switch (header[1].number) {
        case data_page: page_1(header[5], body, static_cast<std::uint64_t>(size)); break;
        case data_page_2: page_2(header[8], body, static_cast<std::uint64_t>(size)); break;
        case dictionary_page: dictionary(header[7], unpack(body, static_cast<std::uint64_t>(size))); break;
        case index_page: break;
        default: bad("a page of an unknown kind");
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void bad(std::string_view what) const { fail(ExitCode::data, where_, ": ", what); }

  // Values that runs stand for take memory as those that are written out do: all of it is taken at once.
  void take_room() {
    const bool text = leaf_.type == ParquetType::bytes || (leaf_.type == ParquetType::fixed && !leaf_.half);
    const std::uint64_t levels = (leaf_.definition > 0) + (leaf_.repetition > 0), each = text ? sizeof(std::string_view) : 8;
    constexpr std::uint64_t most = std::uint64_t{1} << 50;  // beyond any budget
    const std::uint64_t n = std::min(wanted_, most);
    budget_.hold(n * (levels + each + (leaf_.scale ? sizeof(double) : 0)), where_);
    if (leaf_.definition > 0) out_.definition.reserve(n);
    if (leaf_.repetition > 0) out_.repetition.reserve(n);
    if (text)
      out_.text.reserve(n);
    else if (leaf_.type == ParquetType::float32 || leaf_.type == ParquetType::float64 || leaf_.half)
      out_.real.reserve(n);
    else
      out_.whole.reserve(n);
  }

  std::string_view unpack(std::string_view body, std::uint64_t size) {
    return unpack_page(body, size, codec_, out_.pages, budget_, where_);
  }

  // Bits packed from the lowest on.
  static std::uint64_t packed(std::string_view s, std::uint64_t bit, int width) {
    std::uint64_t v = 0;
    for (int got = 0; got < width;) {
      const auto byte = static_cast<unsigned char>(s[(bit + static_cast<unsigned>(got)) / 8]);
      const int skip = static_cast<int>((bit + static_cast<unsigned>(got)) % 8), take = std::min(8 - skip, width - got);
      v |= static_cast<std::uint64_t>(byte >> skip & ((1 << take) - 1)) << got;
      got += take;
    }
    return v;
  }

  // Runs and bit-packed groups, `count` values.
  template <class Each>
  void hybrid(std::string_view s, int width, std::uint64_t count, const Each& each) const {
    if (width > 32) bad("levels or indices of more than 32 bits");
    while (count > 0) {
      std::uint64_t head = 0;
      if (!read_varint(s, head)) bad("its levels or indices are cut");
      std::uint64_t run = head >> 1;
      if (head & 1) {
        const auto bits = static_cast<unsigned>(width);
        const std::uint64_t take = run > count / 8 ? count : run * 8;
        if (take == 0 || (bits > 0 && take > s.size() * 8 / bits)) bad("its levels or indices are cut");
        for (std::uint64_t i = 0; i < take; ++i) each(packed(s, i * bits, width));
        s.remove_prefix(run > s.size() ? s.size() : std::min<std::uint64_t>(s.size(), run * bits));  // the last group may be cut
        count -= take;
      } else {
        const auto bytes = static_cast<std::size_t>((width + 7) / 8);
        if (s.size() < bytes || run == 0) bad("its levels or indices are cut");
        const std::uint64_t value = packed(s, 0, static_cast<int>(bytes) * 8);
        s.remove_prefix(bytes);
        run = std::min(run, count);
        for (std::uint64_t i = 0; i < run; ++i) each(value);
        count -= run;
      }
    }
  }

  std::uint64_t levels(std::string_view s, int highest, std::uint64_t count, std::vector<std::uint8_t>& to) const {
    std::uint64_t full = 0;
    hybrid(s, bits_for(highest), count, [&](std::uint64_t v) {
      if (v > static_cast<std::uint64_t>(highest)) bad("a level beyond the highest");
      to.push_back(static_cast<std::uint8_t>(v));
      full += v == static_cast<std::uint64_t>(highest);
    });
    return full;
  }
  std::uint64_t counted(const Thrift& header) {
    const std::int64_t n = header[1].number;
    if (n < 0 || static_cast<std::uint64_t>(n) > wanted_ - seen_) bad("more values than the row group has");
    seen_ += static_cast<std::uint64_t>(n);
    if (n == 0 && ++empty_ > 1000) bad("empty pages without end");
    return static_cast<std::uint64_t>(n);
  }

  void page_1(const Thrift& header, std::string_view body, std::uint64_t size) {
    const std::uint64_t n = counted(header);
    std::uint64_t there = n;
    std::string_view s = unpack(body, size);
    for (const bool repetition : {true, false}) {
      const int highest = repetition ? leaf_.repetition : leaf_.definition;
      if (highest == 0) continue;
      if (header[repetition ? 4 : 3].number != rle) bad("levels in an encoding that is no longer written");
      if (s.size() < 4 || little<std::uint32_t>(s, 0) > s.size() - 4) bad("its levels are cut");
      const auto length = little<std::uint32_t>(s, 0);
      const std::uint64_t full = levels(s.substr(4, length), highest, n, repetition ? out_.repetition : out_.definition);
      if (!repetition) there = full;
      s.remove_prefix(4 + length);
    }
    values(s, header[2].number, there);
  }
  void page_2(const Thrift& header, std::string_view body, std::uint64_t size) {
    const std::uint64_t n = counted(header);
    const std::int64_t repetition = header[6].number, definition = header[5].number;
    if (repetition < 0 || definition < 0 || static_cast<std::uint64_t>(repetition) > body.size() ||
        static_cast<std::uint64_t>(definition) > body.size() - static_cast<std::uint64_t>(repetition))
      bad("its levels are cut");
    const auto head = static_cast<std::size_t>(repetition + definition);
    if (size < head) bad("a page's size contradicts itself");
    std::uint64_t there = n;
    if (leaf_.repetition > 0) levels(body.substr(0, static_cast<std::size_t>(repetition)), leaf_.repetition, n, out_.repetition);
    if (leaf_.definition > 0)
      there = levels(body.substr(static_cast<std::size_t>(repetition), static_cast<std::size_t>(definition)), leaf_.definition, n,
                     out_.definition);
    const bool packed = !header.has(7) || header[7].number != 0;
    values(packed && size > head ? unpack(body.substr(head), size - head) : body.substr(head), header[4].number, there);
  }
  void dictionary(const Thrift& header, std::string_view s) {
    if (has_dictionary_) bad("two dictionaries");
    has_dictionary_ = true;
    const std::int64_t n = header[1].number;
    if (n < 0 || static_cast<std::uint64_t>(n) > s.size() + 1) bad("its dictionary is cut");
    budget_.hold(static_cast<std::uint64_t>(n) * sizeof(std::string_view), where_);
    read_plain(s, static_cast<std::uint64_t>(n), dictionary_);
  }

  void values(std::string_view s, std::int64_t encoding, std::uint64_t n) {
    if (n == 0) return;
    const bool bytes = leaf_.type == ParquetType::bytes, whole = leaf_.type == ParquetType::int32 || leaf_.type == ParquetType::int64;
    if (encoding == plain) return read_plain(s, n, out_);
    if (encoding == plain_dictionary || encoding == rle_dictionary) {
      if (!has_dictionary_ || s.empty()) bad("indices without a dictionary");
      const std::size_t entries = dictionary_.whole.size() + dictionary_.real.size() + dictionary_.text.size();
      return hybrid(s.substr(1), static_cast<unsigned char>(s[0]), n, [&](std::uint64_t i) {
        if (i >= entries) bad(concat("index ", i, " of a dictionary of ", entries));
        if (!dictionary_.whole.empty()) out_.whole.push_back(dictionary_.whole[i]);
        if (!dictionary_.real.empty()) out_.real.push_back(dictionary_.real[i]);
        if (!dictionary_.text.empty()) out_.text.push_back(dictionary_.text[i]);
      });
    }
    if (encoding == rle && leaf_.type == ParquetType::boolean) {
      if (s.size() < 4) bad("its values are cut");
      return hybrid(s.substr(4), 1, n, [&](std::uint64_t v) { out_.whole.push_back(static_cast<std::int64_t>(v)); });
    }
    if (encoding == delta_packed && whole) {
      const std::vector<std::int64_t> numbers = deltas(s, n);
      for (const std::int64_t v : numbers) out_.whole.push_back(as_type(v));
      return;
    }
    if (encoding == delta_length && bytes) return lengths_then_bytes(s, n, out_.text);
    if (encoding == delta_bytes && bytes) return prefixes(s, n);
    if (encoding == byte_stream_split && !bytes && leaf_.type != ParquetType::boolean) {
      const std::size_t width = width_of();
      if (s.size() / width < n || s.size() % width != 0) bad("its values are cut");
      budget_.hold(s.size(), where_);
      std::string& joined = out_.pages.emplace_back(s.size(), '\0');
      const std::size_t count = s.size() / width;
      for (std::size_t k = 0; k < width; ++k)
        for (std::size_t i = 0; i < count; ++i) joined[i * width + k] = s[k * count + i];
      return read_plain(joined, n, out_);
    }
    bad(concat("encoding ", encoding, ", expected plain, a dictionary, RLE, DELTA or BYTE_STREAM_SPLIT"));
  }

  std::size_t width_of() const {
    switch (leaf_.type) {
      case ParquetType::int32: case ParquetType::float32: return 4;
      case ParquetType::fixed: return static_cast<std::size_t>(leaf_.length);
      case ParquetType::int96: return 12;
      default: return 8;
    }
  }
  std::int64_t as_type(std::int64_t v) const {
    if (leaf_.type == ParquetType::int64) return v;
    return leaf_.is_unsigned ? static_cast<std::int64_t>(static_cast<std::uint32_t>(v))
                             : static_cast<std::int64_t>(static_cast<std::int32_t>(v));
  }

  void read_plain(std::string_view s, std::uint64_t n, ParquetValues& to) const {
    if (leaf_.type == ParquetType::bytes) {
      for (std::uint64_t i = 0; i < n; ++i) {
        if (s.size() < 4 || little<std::uint32_t>(s, 0) > s.size() - 4) bad("its values are cut");
        const auto length = little<std::uint32_t>(s, 0);
        to.text.push_back(s.substr(4, length));
        s.remove_prefix(4 + length);
      }
      return;
    }
    if (leaf_.type == ParquetType::boolean) {
      if (n > s.size() * 8) bad("its values are cut");
      for (std::uint64_t i = 0; i < n; ++i) to.whole.push_back(static_cast<std::int64_t>(packed(s, i, 1)));
      return;
    }
    const std::size_t width = width_of();
    if (n > s.size() / width) bad("its values are cut");
    for (std::size_t i = 0; i < n; ++i) switch (leaf_.type) {
        case ParquetType::int32: to.whole.push_back(as_type(little<std::int32_t>(s, i * width))); break;
        case ParquetType::int64: to.whole.push_back(little<std::int64_t>(s, i * width)); break;
        case ParquetType::int96: to.whole.push_back(nanoseconds(s.substr(i * width, width))); break;
        case ParquetType::float32: to.real.push_back(static_cast<double>(little<float>(s, i * width))); break;
        case ParquetType::float64: to.real.push_back(little<double>(s, i * width)); break;
        default:
          if (leaf_.half) {
            float v = 0;
            floats_of_halves(reinterpret_cast<const std::byte*>(s.data()) + i * width, 1, &v);
            to.real.push_back(static_cast<double>(v));
          } else {
            to.text.push_back(s.substr(i * width, width));
          }
      }
  }

  // Of the day, and the day by Julian's count: since 1970.
  std::int64_t nanoseconds(std::string_view s) const {
    constexpr std::int64_t first = 2440588, of_day = std::int64_t{86400} * 1'000'000'000, most_days = 106751;
    const std::int64_t day = little<std::int32_t>(s, 8) - first, rest = little<std::int64_t>(s, 0);
    if (day > most_days || day < -most_days || rest < 0 || rest >= of_day)
      bad("a time beyond the years 1678 to 2262, in which nanoseconds count");
    return day * of_day + rest;
  }

  // DELTA_BINARY_PACKED, taken off the front.
  std::vector<std::int64_t> deltas(std::string_view& s, std::uint64_t n) const {
    budget_.hold(n * sizeof(std::int64_t), where_);
    std::uint64_t block = 0, minis = 0, count = 0;
    std::int64_t value = 0;
    if (!read_varint(s, block) || !read_varint(s, minis) || !read_varint(s, count) || !read_zigzag(s, value)) bad("its deltas are cut");
    if (minis == 0 || block == 0 || block > 1 << 20 || minis > block || block % minis != 0 || block / minis % 8 != 0 || count != n)
      bad("its deltas contradict themselves");
    const std::uint64_t each = block / minis;
    std::vector<std::int64_t> out;
    out.reserve(n);
    if (n > 0) out.push_back(value);
    while (out.size() < n) {
      std::int64_t least = 0;
      if (!read_zigzag(s, least) || s.size() < minis) bad("its deltas are cut");
      const std::string_view widths = s.substr(0, minis);
      s.remove_prefix(minis);
      for (std::uint64_t m = 0; m < minis && out.size() < n; ++m) {
        const int width = static_cast<unsigned char>(widths[m]);
        const std::uint64_t bytes = each / 8 * static_cast<unsigned>(width);
        if (width > 64 || bytes > s.size()) bad("its deltas are cut");
        for (std::uint64_t i = 0; i < each && out.size() < n; ++i) {
          value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(least) +
                                            packed(s, i * static_cast<unsigned>(width), width));
          out.push_back(value);
        }
        s.remove_prefix(bytes);
      }
    }
    return out;
  }
  void lengths_then_bytes(std::string_view s, std::uint64_t n, std::vector<std::string_view>& to) const {
    for (const std::int64_t length : deltas(s, n)) {
      if (length < 0 || static_cast<std::uint64_t>(length) > s.size()) bad("its values are cut");
      to.push_back(s.substr(0, static_cast<std::size_t>(length)));
      s.remove_prefix(static_cast<std::size_t>(length));
    }
  }
  void prefixes(std::string_view s, std::uint64_t n) {
    const std::vector<std::int64_t> shared = deltas(s, n);
    std::vector<std::string_view> rest;
    budget_.hold(n * (sizeof(std::string_view) + sizeof(std::string)), where_);
    lengths_then_bytes(s, n, rest);
    std::string_view before;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (shared[i] < 0 || static_cast<std::uint64_t>(shared[i]) > before.size()) bad("its values contradict themselves");
      budget_.hold(static_cast<std::uint64_t>(shared[i]) + rest[i].size(), where_);
      before = out_.pages.emplace_back(concat(before.substr(0, static_cast<std::size_t>(shared[i])), rest[i]));
      out_.text.push_back(before);
    }
  }

  const ParquetLeaf& leaf_;
  int codec_;
  std::uint64_t wanted_, seen_ = 0;
  ReadBudget& budget_;
  int empty_ = 0;
  const std::string& where_;
  bool has_dictionary_ = false;
  ParquetValues dictionary_, out_;
};

// Two's complement, the highest byte first, of any length: of a negative one the complement is one less than its amount.
double big_endian(std::string_view s) {
  const bool negative = !s.empty() && static_cast<unsigned char>(s[0]) >= 128;
  double v = 0;
  for (const char c : s) v = v * 256 + static_cast<unsigned char>(negative ? ~c : c);
  return negative ? -v - 1 : v;
}

void scale_decimals(ParquetValues& v, std::int64_t scale) {
  const double by = std::pow(10.0, static_cast<double>(scale));
  v.real.reserve(v.whole.size() + v.text.size());
  for (const std::int64_t whole : v.whole) v.real.push_back(static_cast<double>(whole) / by);
  for (const std::string_view text : v.text) v.real.push_back(big_endian(text) / by);
  v.whole.clear();
  v.text.clear();
}

}  // namespace

ParquetValues read_column(const ParquetLeaf& leaf, std::string chunk, int codec, std::uint64_t values, ReadBudget& budget,
                          const std::string& where) {
  ParquetValues v = Column(leaf, codec, values, budget, where).read(std::move(chunk));
  if (leaf.scale) scale_decimals(v, *leaf.scale);
  return v;
}

}  // namespace tandem
