// Samples that somebody gives one after another, such as a generator of Python. Their number need not be known, and none is held longer
// than its batch.
#pragma once
#include <functional>
#include <utility>

#include "data/dataset.h"

namespace tandem {

class IterableDataset final : public Dataset {
 public:
  // Writes the next `count` samples of every field, one after another, to the field's place. Fails (data) where there are no more.
  using Next = std::function<void(std::int64_t count, std::span<std::byte* const> to)>;
  // `size`: samples of an epoch.
  IterableDataset(std::string name, std::int64_t size, std::vector<Field> fields, Next next);
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  bool iterable() const override { return true; }
  void draw(std::int64_t begin, std::int64_t count) const override;
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override;

 private:
  std::size_t bytes_of(std::size_t field) const;  // of a sample

  const std::string name_;
  const std::int64_t size_;
  const std::vector<Field> fields_;
  const Next next_;
  mutable std::vector<std::vector<std::byte>> drawn_;  // by field
  mutable std::int64_t begin_ = 0, count_ = 0;
};

// Fails (usage) where samples of `data` are known only as they come: `what` looks at all of them first.
void need_all_samples(const Dataset& data, std::string_view what);

}  // namespace tandem
