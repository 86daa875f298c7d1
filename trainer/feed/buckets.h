// Sizes of a dimension that differ from batch to batch: each batch is cut to the smallest that holds its longest sample.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/feed/feed.h"

namespace tandem {

// Which bucket each sample needs: 0 is the largest.
using SampleBuckets = std::shared_ptr<const std::vector<std::uint8_t>>;

class Buckets {
 public:
  Buckets() = default;  // one: nothing is cut
  // shapes[b][t]: a sample of the feed's target t in bucket b, the largest first, which is what the feed gives. How long a sample
  // is its data set says (Dataset::length); where it does not, a mask among the inputs, read here once.
  Buckets(Feed& feed, std::vector<std::vector<Shape>> shapes);

  std::size_t count() const { return shapes_.empty() ? 1 : shapes_.size(); }
  std::size_t of(std::span<const std::int64_t> samples) const;
  // Cuts a batch that lies as bucket 0 has it, in place: these rows of the inputs, all rows of the labels.
  void cut(std::size_t bucket, std::int64_t batch, std::span<const RowRange> inputs, std::span<std::byte* const> to) const;
  const SampleBuckets& by_sample() const { return by_sample_; }  // null: one bucket
  std::string text() const;  // how many samples each has, or why all have the largest; empty: one bucket

 private:
  std::vector<std::vector<Shape>> shapes_;
  std::vector<FeedTarget> targets_;
  SampleBuckets by_sample_;
  std::string lengths_of_;  // what the lengths were taken from
};

// Copies the front part of each of `count` tensors of shape `whole`. `to` may be `from`, or lie before it.
void crop(const std::byte* from, std::byte* to, std::int64_t count, const Shape& whole, const Shape& part, std::size_t element);

}  // namespace tandem
