// parquet:SHARDS: Apache Parquet files as pyarrow and pandas write them: columns of numbers, booleans, text and image files, lists of
// one length, and members of structs (image.bytes); decimals are numbers, times of 96 bits nanoseconds since 1970; nulls are missing
// values.
// A row group's wanted columns are in memory at a time; what a pass over the file may take: limits.h. What columns become, and the bound
// on memory beyond that: table.h. Source: parquet.thrift, Apache Parquet 2.10.
#include <algorithm>
#include <map>

#include "base/file_kind.h"
#include "data/column_names.h"
#include "data/data_file.h"
#include "data/parquet_column.h"
#include "data/table.h"
#include "data/thrift.h"

namespace tandem {
namespace {

using Kind = TableCell::Kind;
enum Repetition { required, optional, repeated };
constexpr std::int64_t decimal = 5, decimal_type = 5, max_scale = 100, uint8_type = 11, uint64_type = 14, float16_type = 15;
constexpr std::uint64_t tail = 8;

class ParquetFile final : public TableFile {
 public:
  explicit ParquetFile(const std::string& path) : file_(path) {
    if (file_.size() < tail + 4 || file_.read(0, 4) != "PAR1")
      bad(concat("no Parquet file (PAR1 at its start)", it_is(file_.read(0, std::min<std::uint64_t>(file_.size(), 512)))));
    const std::string end = file_.read(file_.size() - tail, tail);
    if (end.substr(4) == "PARE") bad("its footer is encrypted");
    if (end.substr(4) != "PAR1") bad("truncated: no PAR1 at its end");
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= std::uint64_t{static_cast<unsigned char>(end[i])} << (8 * i);
    if (length > file_.size() - tail - 4) bad(concat("a footer of ", length, " bytes in a file of ", file_.size()));
    footer_ = file_.read(file_.size() - tail - length, length);
    std::string_view bytes = footer_;
    if (!parse_thrift(bytes, meta_)) bad("its footer is damaged");
    groups_ = meta_[4];
    ThriftList schema = meta_[2].list();
    if (schema.size() > 0) add_leaves(schema, "", 0, 0, false, 0);
    if (leaves_.empty()) bad("it has no columns");
  }
  const std::vector<std::string>& columns() const override { return names_.list(); }
  std::string_view place() const override { return "row"; }

  // By the first row group's first values.
  std::vector<bool> images() const override {
    std::vector<bool> are(leaves_.size());
    Thrift group;
    if (ThriftList groups = groups_.list(); groups.next(group)) {
      Pass pass(file_);
      each_chunk(group, pass, [&](std::size_t c, const Thrift& chunk) {
        if (leaves_[c].type != ParquetType::bytes || leaves_[c].scale) return;
        const ParquetValues v = column(chunk, c, pass);
        are[c] = !v.text.empty() && is_image(v.text[0]);
        pass.budget.release();
      });
    }
    return std::find(are.begin(), are.end(), true) == are.end() ? std::vector<bool>{} : are;
  }

  void rows(const std::vector<bool>& wanted, const Each& each) override {
    std::uint64_t number = 0;
    std::vector<TableCell> row(leaves_.size());
    Pass pass(file_);
    Thrift group;
    for (ThriftList groups = groups_.list(); groups.next(group); ++pass.group) {
      const std::int64_t count = group[3].number;
      if (count < 0) bad("a negative number of rows");
      pass.budget.spend(static_cast<std::uint64_t>(count), file_.name());
      std::deque<Reader> readers;  // of the columns that are wanted; texts refer to what they hold, which may not move
      each_chunk(group, pass, [&](std::size_t c, const Thrift& chunk) {
        if (!wanted[c]) return;
        const std::int64_t values = chunk[5].number;
        if (leaves_[c].repetition > 0 ? values < count : values != count)
          bad(concat("column '", columns()[c], "' has ", values, " values for the ", count, " rows of row group ", pass.group));
        readers.push_back({.column = c, .values = column(chunk, c, pass)});
      });
      for (std::int64_t r = 0; r < count; ++r, ++number) {
        for (Reader& reader : readers) {
          TableCell& cell = row[reader.column];
          if (!next(reader, leaves_[reader.column], cell))
            bad(concat("column '", columns()[reader.column], "' has less than the ", count, " rows of row group ", pass.group));
          pass.budget.spend(cell.text.size(), file_.name());  // of a dictionary, the same for many rows
        }
        each(row, number);
      }
      pass.budget.release();
    }
  }

 private:
  struct Reader {
    std::size_t column;
    ParquetValues values;
    std::size_t level = 0, value = 0;
  };
  struct Pass {
    explicit Pass(const DataFile& file) : budget(file.stored()), unread(file.size()) {}
    ReadBudget budget;
    std::uint64_t unread;  // bytes of the file; columns have none in common
    std::size_t group = 0;
  };

  // A schema's tree, depth first. Lists are called as the field that holds them.
  void add_leaves(ThriftList& schema, const std::string& name, int definition, int repetition, bool in_list, int depth) {
    Thrift e;
    if (!schema.next(e)) bad("its schema is damaged");
    if (depth > data_limits::nested_columns)
      bad(concat("its schema has groups in groups, ", depth, " deep: at most ", data_limits::nested_columns, " are read"));
    const bool root = depth == 0;
    const std::int64_t kind = root ? std::int64_t{required} : e[3].number, children = e[5].number;
    definition += kind != required;
    repetition += kind == repeated;
    if (children < 0 || static_cast<std::uint64_t>(children) > schema.size()) bad("its schema is damaged");
    const bool hidden =
        root || kind == repeated || (in_list && (e[4].text == "element" || e[4].text == "item" || e[4].text == "array_element"));
    std::string own = hidden && !(kind == repeated && name.empty()) ? name : concat(name, name.empty() ? "" : ".", e[4].text);
    if (children > 0) {
      for (std::int64_t i = 0; i < children; ++i) add_leaves(schema, own, definition, repetition, in_list || kind == repeated, depth + 1);
      return;
    }
    ParquetLeaf leaf{.length = e[2].number, .definition = definition, .repetition = repetition};
    const std::int64_t type = e[1].number, converted = e.has(6) ? e[6].number : -1;
    if (type < 0 || type > static_cast<std::int64_t>(ParquetType::fixed) || !e.has(1))
      bad(concat("column '", own, "' has an unknown type"));
    leaf.type = static_cast<ParquetType>(type);
    leaf.is_unsigned = converted >= uint8_type && converted <= uint64_type;
    leaf.half = leaf.type == ParquetType::fixed && leaf.length == 2 && e[10].has(float16_type);
    if (leaf.type == ParquetType::fixed && (leaf.length < 1 || leaf.length > 1 << 20))
      bad(concat("column '", own, "' has values of ", leaf.length, " bytes"));
    if (converted == decimal || e[10].has(decimal_type)) leaf.scale = converted == decimal ? e[7].number : e[10][decimal_type][1].number;
    if (leaf.scale && (*leaf.scale < -max_scale || *leaf.scale > max_scale))
      bad(concat("column '", own, "' has decimals of scale ", *leaf.scale));
    names_.add(own, file_.name());
    leaves_.push_back(leaf);
  }

  // Each column's metadata in a row group, in order.
  template <class Each>
  void each_chunk(const Thrift& group, const Pass& pass, const Each& each) const {
    ThriftList chunks = group[1].list();
    if (chunks.size() != leaves_.size())
      bad(concat("row group ", pass.group, " has ", chunks.size(), " columns, the schema ", leaves_.size()));
    Thrift chunk;
    for (std::size_t c = 0; chunks.next(chunk); ++c) each(c, chunk[3]);
  }

  ParquetValues column(const Thrift& m, std::size_t c, Pass& pass) const {
    const std::string where = concat(file_.name(), ": row group ", pass.group, ", column '", columns()[c], "'");
    std::int64_t begin = m[9].number;
    if (m[11].number > 0) begin = std::min(begin, m[11].number);
    const std::int64_t bytes = m[7].number, values = m[5].number;
    if (begin < 0 || bytes < 0 || values < 0 || static_cast<std::uint64_t>(begin) > file_.size() ||
        static_cast<std::uint64_t>(bytes) > file_.size() - static_cast<std::uint64_t>(begin))
      fail(ExitCode::data, where, ": ", bytes, " bytes from byte ", begin, " on, ", values, " values, of a file of ", file_.size(),
           " bytes");
    if (static_cast<std::uint64_t>(bytes) > pass.unread) fail(ExitCode::data, where, ": its bytes are those of another column, too");
    pass.unread -= static_cast<std::uint64_t>(bytes);
    pass.budget.hold(static_cast<std::uint64_t>(bytes), where);
    std::string chunk = file_.read(static_cast<std::uint64_t>(begin), static_cast<std::size_t>(bytes));
    return read_column(leaves_[c], std::move(chunk), static_cast<int>(m[4].number), static_cast<std::uint64_t>(values), pass.budget, where);
  }

  static TableCell scalar(const Reader& r, std::size_t i) {
    if (i < r.values.whole.size()) return {.kind = Kind::whole, .whole = r.values.whole[i]};
    // pandas' NaN
    if (i < r.values.real.size())
      return r.values.real[i] != r.values.real[i] ? TableCell{} : TableCell{.kind = Kind::real, .real = r.values.real[i]};
    return {.kind = Kind::text, .text = r.values.text[i]};
  }
  // False where there are no more rows.
  bool next(Reader& r, const ParquetLeaf& leaf, TableCell& cell) const {
    const std::size_t values = r.values.whole.size() + r.values.real.size() + r.values.text.size();
    const auto there = [&] { return leaf.definition == 0 || r.values.definition[r.level] == leaf.definition; };
    const std::size_t levels = leaf.definition == 0 ? values : r.values.definition.size();
    if (r.level >= levels) return false;
    cell = {};
    if (leaf.repetition == 0) {
      if (there()) cell = scalar(r, r.value++);
      ++r.level;
      return true;
    }
    bool nulls = false;
    do {
      if (there()) {
        const TableCell one = scalar(r, r.value++);
        if (one.kind == Kind::text) bad(concat("column '", columns()[r.column], "' holds lists of texts, expected lists of numbers"));
        cell.list.push_back(one.kind == Kind::whole ? static_cast<double>(one.whole) : one.real);
      } else {
        nulls = true;  // of an empty list, of none, or in a list
      }
      ++r.level;
    } while (r.level < levels && r.values.repetition[r.level] > 0);
    if (!cell.list.empty()) cell.kind = Kind::list;
    if (nulls && !cell.list.empty()) bad(concat("column '", columns()[r.column], "' holds lists with nulls in them"));
    return true;
  }
  [[noreturn]] void bad(std::string_view what) const { fail(ExitCode::data, file_.name(), ": ", what); }

  DataFile file_;
  std::string footer_;
  Thrift meta_, groups_;
  std::vector<ParquetLeaf> leaves_;
  ColumnNames names_;  // of leaves_
};

}  // namespace

Splits open_parquet(const Spec& spec, const DataRequest& request) {
  return open_tables(spec, request, {}, [](const std::string& file) { return std::make_unique<ParquetFile>(file); });
}

}  // namespace tandem
