#include "trainer/feed/buckets.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "data/iterable.h"

namespace tandem {
namespace {

// The axis of target t whose size differs between buckets; -1: none.
int axis_of(const std::vector<std::vector<Shape>>& shapes, std::size_t t) {
  for (int axis = 0; axis < shapes[0][t].rank(); ++axis)
    if (shapes.back()[t][axis] != shapes[0][t][axis]) return axis;
  return -1;
}

// A mask [T] tells a sample's length where it is ones and then zeros, a padding mask where it is zeros and then ones. Any other
// row, such as one padded in front, is as long as it is.
std::int64_t length_in(std::span<const std::byte> row, std::size_t element, bool padding) {
  const auto places = static_cast<std::int64_t>(row.size() / element);
  const auto counts = [&](std::int64_t i) {
    const auto one = row.subspan(static_cast<std::size_t>(i) * element, element);
    return std::any_of(one.begin(), one.end(), [](std::byte b) { return b != std::byte{0}; }) != padding;
  };
  std::int64_t length = 0;
  while (length < places && counts(length)) ++length;
  for (std::int64_t i = length; i < places; ++i)
    if (counts(i)) return places;
  return length == 0 ? places : length;
}

// Hands on each sample's length by the mask that is target t, [T].
void each_length(Feed& feed, std::size_t t, const std::function<void(std::int64_t sample, std::int64_t length)>& each) {
  const FeedTarget& target = feed.targets()[t];
  const std::size_t element = size_of(target.sample.dtype), bytes = static_cast<std::size_t>(target.sample.shape.elements()) * element;
  constexpr std::int64_t chunk = 1024;
  std::vector<std::byte> rows(static_cast<std::size_t>(std::min(chunk, feed.data().size())) * bytes);
  std::vector<std::byte*> to(feed.targets().size());
  to[t] = rows.data();
  std::vector<std::int64_t> samples;
  for (std::int64_t begin = 0; begin < feed.data().size(); begin += chunk) {
    samples.resize(static_cast<std::size_t>(std::min(chunk, feed.data().size() - begin)));
    std::iota(samples.begin(), samples.end(), begin);
    feed.fill(samples, 0, false, to);
    for (std::size_t i = 0; i < samples.size(); ++i)
      each(samples[i], length_in(std::span(rows).subspan(i * bytes, bytes), element, target.name.find("padding") != std::string::npos));
  }
}

}  // namespace

Buckets::Buckets(Feed& feed, std::vector<std::vector<Shape>> shapes) : shapes_(std::move(shapes)), targets_(feed.targets()) {
  if (shapes_.size() < 2) return;
  need_all_samples(feed.data(), "a plan for several lengths");
  const auto samples = static_cast<std::size_t>(feed.data().size());
  std::vector<std::uint8_t> needs(samples, static_cast<std::uint8_t>(shapes_.size() - 1));
  std::vector<bool> known(samples);
  const auto note = [&](std::size_t t, int axis, std::int64_t sample, std::int64_t length) {
    std::uint8_t& bucket = needs[static_cast<std::size_t>(sample)];
    while (bucket > 0 && shapes_[bucket][t][axis] < length) --bucket;
    known[static_cast<std::size_t>(sample)] = true;
  };
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const int axis = axis_of(shapes_, t);
    if (axis != 0 || !feed.has(t)) continue;
    for (std::int64_t sample = 0; sample < feed.data().size(); ++sample)
      if (const auto length = feed.length(t, sample)) {
        note(t, axis, sample, *length);
        lengths_of_ = "the data's lists";
      }
  }
  for (std::size_t t = 0; t < targets_.size() && lengths_of_.empty(); ++t)
    if (const FeedTarget& mask = targets_[t]; !mask.label && feed.has(t) && mask.sample.shape.rank() == 1 && axis_of(shapes_, t) == 0 &&
                                              mask.name.find("mask") != std::string::npos) {
      each_length(feed, t, [&](std::int64_t sample, std::int64_t length) { note(t, 0, sample, length); });
      lengths_of_ = concat('\'', mask.name, '\'');
    }
  for (std::size_t i = 0; i < samples; ++i)
    if (!known[i]) needs[i] = 0;
  by_sample_ = std::make_shared<const std::vector<std::uint8_t>>(std::move(needs));
}

std::size_t Buckets::of(std::span<const std::int64_t> samples) const {
  if (!by_sample_) return 0;
  std::size_t bucket = shapes_.size() - 1;
  for (const std::int64_t sample : samples) bucket = std::min<std::size_t>(bucket, (*by_sample_)[static_cast<std::size_t>(sample)]);
  return bucket;
}

void Buckets::cut(std::size_t bucket, std::int64_t batch, std::span<const RowRange> inputs, std::span<std::byte* const> to) const {
  if (bucket == 0) return;
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    if (!to[t]) continue;
    const Shape &whole = shapes_[0][t], &part = shapes_[bucket][t];
    const RowRange all{0, batch};
    const std::size_t element = size_of(targets_[t].sample.dtype);
    for (const RowRange& rows : targets_[t].label ? std::span(&all, 1) : inputs) {
      const auto at = [&](const Shape& sample) { return to[t] + static_cast<std::size_t>(rows.first * sample.elements()) * element; };
      crop(at(whole), at(part), rows.count, whole, part, element);
    }
  }
}

std::string Buckets::text() const {
  if (!by_sample_) return "";
  if (lengths_of_.empty())
    return "neither lists of several lengths nor a mask tell how long samples are: all batches have the largest size";
  std::vector<std::size_t> counts(shapes_.size());
  for (const std::uint8_t bucket : *by_sample_) ++counts[bucket];
  std::size_t t = 0;  // the first that is cut
  while (axis_of(shapes_, t) < 0) ++t;
  std::string text;
  for (std::size_t b = shapes_.size(); b-- > 0;)
    text += concat(text.empty() ? "" : ", ", counts[b], " of ", shapes_[b][t][axis_of(shapes_, t)]);
  return concat("samples by their length, after ", lengths_of_, ": ", text);
}

void crop(const std::byte* from, std::byte* to, std::int64_t count, const Shape& whole, const Shape& part, std::size_t element) {
  if (whole == part) {
    std::memmove(to, from, static_cast<std::size_t>(count * whole.elements()) * element);
    return;
  }
  // Runs of the last axis that differs move as one; they are numbered over the axes before it.
  int last = whole.rank() - 1;
  auto run = static_cast<std::int64_t>(element);
  while (last >= 0 && whole[last] == part[last]) run *= part[last--];
  const std::size_t bytes = static_cast<std::size_t>(run * part[last]);
  std::int64_t runs = count;
  for (int axis = 0; axis < last; ++axis) runs *= part[axis];
  for (std::int64_t i = 0; i < runs; ++i, to += bytes) {
    std::int64_t left = i, at = 0, stride = run * whole[last];
    for (int axis = last - 1; axis >= 0; --axis) {
      at += left % part[axis] * stride;
      left /= part[axis];
      stride *= whole[axis];
    }
    std::memmove(to, from + at + left * stride, bytes);
  }
}

}  // namespace tandem
