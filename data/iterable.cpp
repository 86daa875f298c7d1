#include "data/iterable.h"

#include <cstring>

#include "base/error.h"

namespace tandem {

IterableDataset::IterableDataset(std::string name, std::int64_t size, std::vector<Field> fields, Next next)
    : name_(std::move(name)), size_(size), fields_(std::move(fields)), next_(std::move(next)), drawn_(fields_.size()) {}

std::size_t IterableDataset::bytes_of(std::size_t field) const {
  const TensorType& sample = fields_[field].sample;
  return static_cast<std::size_t>(sample.shape.elements()) * size_of(sample.dtype);
}

void IterableDataset::draw(std::int64_t begin, std::int64_t count) const {
  std::vector<std::byte*> to;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    drawn_[f].resize(static_cast<std::size_t>(count) * bytes_of(f));
    to.push_back(drawn_[f].data());
  }
  count_ = 0;  // where it fails there are none
  next_(count, to);
  begin_ = begin;
  count_ = count;
}

void IterableDataset::read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const {
  const std::size_t bytes = bytes_of(field);
  for (const std::int64_t sample : samples) {
    if (sample < begin_ || sample >= begin_ + count_)
      fail(ExitCode::usage, name_, ": samples come in order, and sample ", sample, " is not among those that were drawn");
    std::memcpy(to, drawn_[field].data() + static_cast<std::size_t>(sample - begin_) * bytes, bytes);
    to += bytes;
  }
}

void need_all_samples(const Dataset& data, std::string_view what) {
  if (data.iterable()) fail(ExitCode::usage, data.name(), ": samples come one after another, and ", what, " looks at all of them first");
}

}  // namespace tandem
