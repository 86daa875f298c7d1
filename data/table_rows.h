// The rows that a table's files gave, as a data set: built once, field by field, then read by any number of threads.
#pragma once
#include <algorithm>

#include "data/spool.h"
#include "data/table.h"

namespace tandem {

class TableRows final : public Dataset {
 public:
  TableRows(std::string name, std::vector<Field> fields) : name_(std::move(name)), fields_(std::move(fields)), places_(name_) {
    for (const Field& f : fields_) {
      const auto bytes = f.encoded ? 0 : static_cast<std::size_t>(f.sample.shape.elements()) * size_of(f.sample.dtype);
      stores_.push_back({Spool(concat(name_, ", ", f.name)), bytes, {}, {}});
    }
  }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    const Store& store = stores_[field];
    if (fields_[field].encoded) fail(ExitCode::data, name_, ": '", fields_[field].name, "' holds image files, not numbers");
    for (const std::int64_t sample : samples) {
      store.values.read(static_cast<std::uint64_t>(sample) * store.bytes, store.bytes, to);
      to += store.bytes;
    }
  }
  void encoded(std::size_t field, std::int64_t sample, std::vector<std::byte>& to) const override {
    if (!fields_[field].encoded) return Dataset::encoded(field, sample, to);
    const Store& store = stores_[field];
    const Blob& blob = store.blobs[static_cast<std::size_t>(sample)];
    to.resize(blob.size);
    if (!blob.in_place) return store.values.read(blob.offset, to.size(), to.data());
    const std::string& path = file_of(sample);  // opened anew: there may be more shards than a process may have open
    const RegularFile file = open_regular(path, ExitCode::data);
    read_exactly(file.descriptor.get(), reinterpret_cast<char*>(to.data()), to.size(), static_cast<std::int64_t>(blob.offset), path);
  }
  std::string describe(std::int64_t sample) const override {
    std::uint64_t place = 0;
    places_.read(static_cast<std::uint64_t>(sample) * sizeof place, sizeof place, reinterpret_cast<std::byte*>(&place));
    return concat(file_of(sample), ": ", place_, ' ', place);
  }
  std::vector<std::string> classes(std::size_t field) const override {
    return static_cast<int>(field) == named_ ? classes_ : std::vector<std::string>{};
  }
  std::map<std::string, double> means() const override { return means_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::optional<std::int64_t> length(std::size_t field, std::int64_t sample) const override {
    const std::vector<std::int32_t>& lengths = stores_[field].lengths;
    return lengths.empty() ? std::nullopt : std::optional<std::int64_t>(lengths[static_cast<std::size_t>(sample)]);
  }

  // The building of it.
  void begin_file(const std::string& file, std::string_view place) {
    files_.emplace_back(size_, file);
    place_ = place;
  }
  void add(std::size_t field, std::span<const std::byte> bytes) { stores_[field].values.append(bytes); }
  void add_length(std::size_t field, std::int64_t length) { stores_[field].lengths.push_back(static_cast<std::int32_t>(length)); }
  void add_blob(std::size_t field, const TableCell& cell) {
    Store& store = stores_[field];
    store.blobs.push_back({cell.offset.value_or(store.values.size()), cell.offset ? cell.size : cell.text.size(), cell.offset.has_value()});
    if (!cell.offset) store.values.append(std::as_bytes(std::span(cell.text)));
  }
  void end_row(std::uint64_t place) {
    places_.append(std::as_bytes(std::span(&place, 1)));
    ++size_;
  }
  void finish(std::vector<std::string> notes, int named, std::vector<std::string> classes, std::map<std::string, double> means) {
    means_ = std::move(means);
    for (Store& store : stores_) store.values.finish();
    places_.finish();
    notes_ = std::move(notes);
    named_ = named;
    classes_ = std::move(classes);
  }

 private:
  struct Blob {
    std::uint64_t offset, size;
    bool in_place;  // in the data's own file
  };
  struct Store {
    Spool values;
    std::size_t bytes;        // of a sample
    std::vector<Blob> blobs;  // of encoded ones
    std::vector<std::int32_t> lengths;  // of lists that are filled up
  };
  const std::string& file_of(std::int64_t sample) const {
    return (std::upper_bound(files_.begin(), files_.end(), sample, [](std::int64_t s, const auto& f) { return s < f.first; }) - 1)->second;
  }
  std::string name_;
  std::vector<Field> fields_;
  std::vector<Store> stores_;
  Spool places_;
  std::vector<std::pair<std::int64_t, std::string>> files_;  // by first sample
  std::string_view place_;
  std::int64_t size_ = 0;
  int named_ = -1;  // the field with classes
  std::vector<std::string> classes_, notes_;
  std::map<std::string, double> means_;
};

}  // namespace tandem
