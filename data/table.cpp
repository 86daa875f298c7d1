#include "data/table.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/option.h"
#include "data/column_contents.h"
#include "data/data_file.h"
#include "data/limits.h"
#include "data/table_rows.h"

namespace tandem {
namespace {

using Kind = TableCell::Kind;
constexpr std::size_t listed = 10;

// What the training part settles for the others.
struct Settled {
  bool there = false;
  std::string file;                     // whose columns they are
  std::vector<std::string> columns;
  std::vector<double> means;            // of each column
  std::vector<std::string> classes;     // of a label column that is text
};

class Builder {
 public:
  Builder(const Spec& spec, const DataRequest& request, const OpenTable& open, std::string_view part, const std::string& argument,
          Settled& settled)
      : spec_(spec),
        request_(request),
        open_(open),
        name_(concat(spec.name, ':', spec.argument, ", ", part)),
        files_(files_of(argument)),
        settled_(settled) {
    const std::string missing = spec.text("missing", "");
    drop_ = missing == "drop";
    trained_ = !request.training && !request.means.empty() && (missing.empty() || missing == "mean");
    mean_ = missing == "mean" || trained_;
    if (!missing.empty() && !drop_ && !mean_) fill_ = parse_number(missing, concat(spec.name, ": missing (mean, drop or a number)"));
    if (const std::string pad = spec.text("pad", ""); !pad.empty()) pad_ = parse_number(pad, concat(spec.name, ": pad (a number)"));
    const std::string truncate = spec.text("truncate", "off");
    if (truncate != "on" && truncate != "off") fail(ExitCode::usage, spec.name, ": truncate=", truncate, ", expected on or off");
    truncate_ = truncate == "on";
    if (files_.empty()) fail(ExitCode::usage, "data '", spec.name, "' needs a file: ", spec.name, ":FILE");
  }

  std::unique_ptr<Dataset> build() {
    for (const std::string& file : files_) scan(file);
    std::vector<Field> fields;
    places_of_.resize(chosen_.size());
    for (const bool labels : {false, true})  // labels may go by the inputs
      for (std::size_t f = 0; f < chosen_.size(); ++f)
        if (const ColumnField& c = chosen_[f]; (c.role == Role::label) == labels && c.of_lengths == OfLengths::none)
          for (const std::size_t at : c.columns) places_of_[f] = places_for(c, found_[at]);
    for (std::size_t f = 0; f < chosen_.size(); ++f) {
      const ColumnField& c = chosen_[f];
      fields.push_back(c.of_lengths == OfLengths::none ? field_of(c, places_of_[f])
                                                       : Field{.name = c.name, .role = c.role, .sample = c.wanted});
    }
    auto table = std::make_unique<TableRows>(name_, fields);
    if (mean_ && !settled_.there)
      for (std::size_t i = 0; i < found_.size(); ++i) settled_.means.push_back(mean_of(i));
    for (const std::string& file : files_) fill(*table, fields, file);
    if (table->size() == 0)
      fail(ExitCode::data, files_[0], ": holds no rows", dropped_ ? concat(" without missing values (", dropped_, " were dropped)") : "");
    if (cut_) notes_.push_back(concat(name_, ": ", cut_, " lists are longer than what the model takes and cut behind (truncate=on)"));
    if (filled_)
      notes_.push_back(concat(name_, ": ", filled_, " missing values are ", mean_ ? "their column's mean" : text_of(fill_.value_or(0)),
                              " (", trained_ ? "as the model was trained" : "missing=", ')'));
    if (dropped_)
      notes_.push_back(
          concat(name_, ": ", dropped_, " rows with missing values are left out (missing=drop), ", table->size(), " are kept"));
    settled_.there = true;
    std::map<std::string, double> means;
    for (std::size_t i = 0; i < columns_.size() && mean_; ++i)
      if (wanted_[i] && role_[i] == Role::input) means[columns_[i]] = settled_.means[i];
    table->finish(std::move(notes_), named_, settled_.classes, std::move(means));
    return table;
  }

 private:
  // The model's, where it knows the column.
  double mean_of(std::size_t column) const {
    const auto known = request_.means.find(columns_[column]);
    if (trained_ && known != request_.means.end()) return known->second;
    const ColumnContents& f = found_[column];
    return f.numbers ? f.sum / static_cast<double>(f.numbers) : 0;
  }
  [[noreturn]] void refuse(std::string_view place, std::size_t column, std::string_view what) const {
    fail(ExitCode::data, place, ", column '", columns_[column], "': ", what);
  }

  void scan(const std::string& file) {
    const std::unique_ptr<TableFile> table = open_(file);
    if (columns_.empty()) {
      columns_ = table->columns();
      if (columns_.size() > data_limits::columns)
        fail(ExitCode::data, file, ": ", columns_.size(), " columns, at most ", data_limits::columns, " are read");
      if (settled_.there && columns_ != settled_.columns) fail(ExitCode::data, file, ": its columns are not those of ", settled_.file);
      if (!settled_.there) {
        settled_.file = file;
        settled_.columns = columns_;
      }
      chosen_ = choose_columns(spec_, request_, columns_, table->images(), file, notes_);
      wanted_.resize(columns_.size());
      role_.resize(columns_.size());
      for (const ColumnField& c : chosen_)
        for (const std::size_t at : c.columns) {
          wanted_[at] = true;
          role_[at] = c.role;
        }
      found_.resize(columns_.size());
    } else if (table->columns() != columns_) {
      fail(ExitCode::data, file, ": its columns are not those of ", files_[0]);
    }
    table->rows(wanted_, [&](std::span<const TableCell> row, std::uint64_t place) {
      for (std::size_t i = 0; i < row.size(); ++i)
        if (wanted_[i]) found_[i].add(row[i], role_[i], {file, table->place(), place, columns_[i]});
    });
  }

  Field field_of(const ColumnField& c, std::int64_t places) {
    Field field{.name = c.name, .role = c.role};
    std::int64_t width = 0;
    bool text = false, whole = true;
    for (const std::size_t at : c.columns) {
      const ColumnContents& f = found_[at];
      width += places > 0 ? places : std::max<std::int64_t>(1, f.width);
      const bool known_elsewhere = c.role == Role::input && (fill_ || (mean_ && (settled_.there || trained_)));
      if (f.width < 0 && !known_elsewhere) fail(ExitCode::data, files_[0], ": column '", columns_[at], "' holds no values at all");
      if (f.missing > 0 && !drop_ && (c.role != Role::input || (!mean_ && !fill_)))
        refuse(f.first_missing, at, concat("no value (", f.missing, " of them in all); ",
                                           c.role == Role::input ? "missing=mean, missing=drop or missing=NUMBER says what to do"
                                                                 : "missing=drop leaves such rows out"));
      if (f.image) {
        if (c.columns.size() > 1 || c.role != Role::input || f.numbers > 0) refuse(f.first_text, at, "an image file among other values");
        field.encoded = true;
        field.sample = {DType::uint8, {}};
        return field;
      }
      text = text || !f.first_text.empty();
      whole = whole && f.whole;
    }
    const bool single = width == 1;
    if (c.role == Role::label && single && (text || knows(found_[c.columns[0]]))) {
      settle_classes(c);
      field.sample = {DType::int64, {}};
      return field;
    }
    if (text)
      refuse(found_[c.columns[0]].first_text.empty() ? files_[0] : found_[c.columns[0]].first_text, c.columns[0],
             "text among numbers: several label columns are numbers");
    const DType want = c.wanted.dtype;
    const bool known = want != DType::undefined;
    const DType floats = known && want == DType::float64 ? DType::float64 : DType::float32;
    const bool takes_floats = known ? is_float(want) : c.role != Role::label;
    DType dtype = takes_floats ? floats : DType::int64;
    // Labels of one number are what the data says they are: whether they are classes or amounts, the loss decides.
    if (c.role == Role::label && !whole) dtype = floats;
    if (c.role == Role::label && known && is_float(want) && single && whole && c.wanted.shape.elements() > 1) dtype = DType::int64;
    field.sample = {dtype, single ? Shape{} : Shape{width}};
    if (known && c.wanted.shape.elements() == width) field.sample.shape = c.wanted.shape;
    return field;
  }

  // The places that lists take which are filled up to the model's size; 0: they are as they are.
  std::int64_t places_for(const ColumnField& c, const ColumnContents& f) {
    const Shape& want = c.wanted.shape;
    const bool known = c.wanted.dtype != DType::undefined, label = c.role == Role::label;
    std::int64_t places = known ? want.elements() : f.width;
    for (std::size_t i = 0; label && i < chosen_.size(); ++i)  // a label a token: as many as the tokens become
      if (const ColumnContents& input = found_[chosen_[i].columns[0]];
          places_of_[i] > 0 && chosen_[i].role == Role::input && input.width == f.width && input.least == f.least)
        places = places_of_[i];
    if (!f.lists || (f.other.empty() && (f.width == places || (want.rank() != 1 && !label)))) return 0;
    const bool tokens = known && !is_float(c.wanted.dtype);
    const bool fills = c.columns.size() == 1 && !f.single && (!known || label || want.rank() == 1) &&
                       (label ? request_.label_pad.has_value() : tokens || pad_);
    const std::size_t at = c.columns[0];
    if (!fills && f.other.empty()) return 0;
    if (!fills)
      refuse(f.other, at,
             concat(f.other_width, f.single || (known && !label && want.rank() != 1) || c.columns.size() > 1 ? ""
                                   : label ? concat(": ", option("ignore_index"), " fills them up")
                                           : ": pad=NUMBER fills them up"));
    if (f.width > places && !truncate_)
      refuse(f.longest, at,
             concat("a list of ", f.width, " numbers, the model takes ", places, ": truncate=on cuts such lists behind, ", option("dims"),
                    " may give the model another size"));
    notes_.push_back(concat(name_, ": '", columns_[at], "' holds lists of ", f.least, " to ", f.width, " numbers: filled up to ", places,
                            " with ", text_of(label ? static_cast<double>(*request_.label_pad) : pad_.value_or(0)),
                            label ? ", which the loss ignores" : " (pad=)"));
    return places;
  }

  // Whether these labels, though they look like numbers, are among names that are known already.
  bool knows(const ColumnContents& f) const {
    const std::vector<std::string>& known = settled_.classes.empty() ? request_.class_names : settled_.classes;
    return !known.empty() && !f.names.empty() && std::all_of(f.names.begin(), f.names.end(), [&](const std::string& n) {
      return std::find(known.begin(), known.end(), n) != known.end();
    });
  }

  void settle_classes(const ColumnField& c) {
    const ColumnContents& f = found_[c.columns[0]];
    const bool own = settled_.classes.empty() && request_.class_names.empty();
    if (named_ >= 0) refuse(f.first_text, c.columns[0], "a second column of classes as text: write one of them as numbers");
    named_ = static_cast<int>(&c - chosen_.data());
    if (settled_.classes.empty()) settled_.classes = request_.class_names;
    for (const std::string& name : f.names) {
      if (own || std::find(settled_.classes.begin(), settled_.classes.end(), name) != settled_.classes.end()) continue;
      if (settled_.there || !request_.training)
        refuse(files_[0], c.columns[0], concat("class ", in_quotes(name), " is not among those trained on: ", list_of(settled_.classes)));
      notes_.push_back(concat(name_, ": class ", in_quotes(name), " is not among the model's, so classes are numbered anew"));
      settled_.classes.clear();
      break;
    }
    if (settled_.classes.empty()) settled_.classes.assign(f.names.begin(), f.names.end());
    notes_.push_back(
        concat(name_, ": '", columns_[c.columns[0]], "' holds ", settled_.classes.size(), " classes: ", list_of(settled_.classes)));
    for (std::size_t i = 0; i < settled_.classes.size(); ++i) places_.emplace(settled_.classes[i], static_cast<std::int64_t>(i));
  }
  static std::string list_of(const std::vector<std::string>& names) {
    std::string s;
    for (std::size_t i = 0; i < std::min(names.size(), listed); ++i) s += concat(i ? ", " : "", names[i], "=", i);
    return names.size() > listed ? s + ", ..." : s;
  }

  void fill(TableRows& table, const std::vector<Field>& fields, const std::string& file) {
    const std::unique_ptr<TableFile> source = open_(file);
    table.begin_file(file, source->place());
    std::vector<std::byte> bytes;
    source->rows(wanted_, [&](std::span<const TableCell> row, std::uint64_t number) {
      const auto place_of = [&](std::size_t column) { return CellPlace{file, source->place(), number, columns_[column]}; };
      if (drop_)
        for (std::size_t i = 0; i < row.size(); ++i)
          if (wanted_[i] && row[i].kind == Kind::missing) {
            ++dropped_;
            return;
          }
      for (std::size_t f = 0; f < fields.size(); ++f) {
        if (fields[f].encoded) {
          const TableCell& cell = row[chosen_[f].columns[0]];
          if (cell.kind != Kind::text || !is_image(cell.text))
            place_of(chosen_[f].columns[0]).refuse("no JPEG, PNG, WebP, GIF or BMP file, as those before are");
          table.add_blob(f, cell);
          continue;
        }
        bytes.clear();
        const TableCell& first = row[chosen_[f].columns[0]];
        if (chosen_[f].of_lengths != OfLengths::none) {
          append_of_lengths(fields[f], chosen_[f].of_lengths, first, bytes);
          table.add(f, bytes);
          continue;
        }
        if (places_of_[f] > 0) {
          append_filled(fields[f], places_of_[f],
                        chosen_[f].role == Role::label ? static_cast<double>(*request_.label_pad) : pad_.value_or(0), first,
                        chosen_[f].columns[0], bytes, place_of(chosen_[f].columns[0]));
          table.add(f, bytes);
          table.add_length(f, std::min(length_of(first), places_of_[f]));
          continue;
        }
        for (const std::size_t at : chosen_[f].columns) append(fields[f], static_cast<int>(f) == named_, row[at], at, bytes, place_of(at));
        table.add(f, bytes);
      }
      table.end_row(number);
    });
  }

  static std::int64_t length_of(const TableCell& cell) {
    return cell.kind == Kind::list ? std::ssize(cell.list) : cell.kind != Kind::missing;
  }

  void append_filled(const Field& field, std::int64_t places, double pad, const TableCell& value, std::size_t column,
                     std::vector<std::byte>& to, const CellPlace& place) {
    TableCell number{.kind = Kind::real};
    const std::int64_t length = length_of(value);
    cut_ += length > places;
    for (std::int64_t i = 0; i < places; ++i) {
      number.real = i < length ? (value.kind == Kind::list ? value.list[static_cast<std::size_t>(i)] : as_double(number_of(value))) : pad;
      append(field, false, number, column, to, place);
    }
  }
  // A mask's places, or a length.
  void append_of_lengths(const Field& field, OfLengths kind, const TableCell& value, std::vector<std::byte>& to) {
    const std::int64_t places = field.sample.shape.elements();
    visit_number(field.sample.dtype, [&]<class T>() {
      const auto put = [&](T v) {
        to.insert(to.end(), reinterpret_cast<const std::byte*>(&v), reinterpret_cast<const std::byte*>(&v + 1));
      };
      if (kind == OfLengths::length) return put(static_cast<T>(length_of(value)));
      for (std::int64_t i = 0; i < places; ++i) put(static_cast<T>((i < length_of(value)) != (kind == OfLengths::padding_mask)));
    });
  }

  void append(const Field& field, bool named, const TableCell& value, std::size_t column, std::vector<std::byte>& to,
              const CellPlace& place) {
    const auto put = [&](const auto& v) {
      to.resize(to.size() + sizeof v);
      std::memcpy(to.data() + to.size() - sizeof v, &v, sizeof v);
    };
    const auto changed = [&] { place.refuse("the file changed while it was read"); };
    if (named) {
      if (value.kind != Kind::text) changed();
      const auto found = places_.find(value.text);
      if (found == places_.end()) changed();
      return put(found->second);
    }
    if (value.kind == Kind::list) {
      for (const double v : value.list) append(field, false, {.kind = Kind::real, .real = v}, column, to, place);
      return;
    }
    TableCell v = number_of(value);
    if (v.kind == Kind::missing) {
      ++filled_;
      v = {.kind = Kind::real, .real = mean_ ? settled_.means[column] : fill_.value_or(0)};
      for (std::int64_t i = 1; i < found_[column].width; ++i) append(field, false, v, column, to, place);
    }
    if (v.kind == Kind::text) changed();
    if (field.sample.dtype == DType::float32) return put(static_cast<float>(as_double(v)));
    if (field.sample.dtype == DType::float64) return put(as_double(v));
    if (!is_whole(v)) place.refuse(concat(text_of(as_double(v)), " is no whole number, as the model's input '", field.name, "' takes"));
    put(v.kind == Kind::whole ? v.whole : static_cast<std::int64_t>(v.real));
  }

  const Spec& spec_;
  const DataRequest& request_;
  const OpenTable& open_;
  std::string name_;
  std::vector<std::string> files_, columns_, notes_;
  Settled& settled_;
  bool drop_ = false, mean_ = false;
  std::optional<double> fill_, pad_;
  bool truncate_ = false;
  std::vector<std::int64_t> places_of_;  // of each field's lists that are filled up, else 0
  std::int64_t cut_ = 0;
  bool trained_ = false;  // the means are the model's
  std::vector<ColumnField> chosen_;
  std::vector<bool> wanted_;
  std::vector<Role> role_;  // of each column
  std::vector<ColumnContents> found_;
  std::map<std::string, std::int64_t, std::less<>> places_;  // of classes
  int named_ = -1;
  std::int64_t filled_ = 0, dropped_ = 0;
};

}  // namespace

Splits open_tables(const Spec& spec, const DataRequest& request, const std::vector<std::string>& options, const OpenTable& open) {
  std::vector<std::string> known{"val", "test", "missing", "pad", "truncate"};
  known.insert(known.end(), options.begin(), options.end());
  allow_columns(spec, request, known);
  const auto argument = [&](std::string_view part) {
    return part == "train"        ? spec.argument
           : part == "validation" ? spec.text("val", "")
           : part == "test"       ? spec.text("test", "")
                                  : std::string();
  };
  const auto wanted = [&](std::string_view part) {
    return wants_part(request, part, [&](std::string_view p) { return !argument(p).empty(); });
  };
  Settled settled;
  // What names and means are, the training part says.
  const bool settles = wanted("train") || request.class_names.empty() || spec.text("missing", "") == "mean";
  Splits splits;
  if (settles) splits.train = Builder(spec, request, open, "train", spec.argument, settled).build();
  for (auto [part, to] : {std::pair{"validation", &splits.validation}, {"test", &splits.test}})
    if (!argument(part).empty() && wanted(part)) *to = Builder(spec, request, open, part, argument(part), settled).build();
  return splits;
}

}  // namespace tandem
