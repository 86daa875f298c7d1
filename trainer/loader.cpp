#include "trainer/loader.h"

#include <algorithm>
#include <numeric>

#include "trainer/random.h"

namespace tandem {

std::vector<std::int64_t> BatchOrder::epoch(std::int64_t number) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (shuffle) {
    Random random(seed, stream_of(concat("order/", number)));
    tandem::shuffle(order, random);
  }
  return order;
}

Loader::Loader(Feed& feed, LoaderOptions options) : feed_(feed), o_(std::move(options)) {
  std::size_t number = 0;
  for (Slot& slot : slots_)
    for (std::size_t t = 0; t < feed.targets().size(); ++t) {
      const TensorType& sample = feed.targets()[t].sample;
      const auto bytes = static_cast<std::size_t>(sample.shape.elements() * o_.order.batch) * size_of(sample.dtype);
      std::byte* place = nullptr;
      if (feed.has(t)) place = o_.memory ? o_.memory(number++, static_cast<std::int64_t>(bytes)) : slot.storage.emplace_back(bytes).data();
      slot.batch.inputs.push_back(place);
    }
  thread_ = std::thread([this] { work(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Loader::Slot* Loader::wait_for_free() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || filled_ - taken_ + (holding_ ? 1 : 0) < depth; });
  return stop_ ? nullptr : &slots_[filled_ % depth];
}

void Loader::work() {
  const BatchOrder& batches = o_.order;
  try {
    std::int64_t index = o_.batch;
    for (std::int64_t epoch = o_.epoch; o_.epochs == 0 || epoch < o_.epochs; ++epoch, index = 0) {
      const std::vector<std::int64_t> order = batches.epoch(epoch);
      for (; index < batches.batches(); ++index) {
        Slot* slot = wait_for_free();
        if (!slot) return;
        const auto begin = order.begin() + index * batches.batch;
        const std::int64_t size = std::min(batches.batch, batches.samples - index * batches.batch);
        std::vector<std::int64_t> samples(begin, begin + size);
        if (o_.pad) samples.resize(static_cast<std::size_t>(batches.batch), samples[0]);
        feed_.fill(samples, o_.rows ? o_.rows(std::ssize(samples)) : RowRange{0, std::ssize(samples)}, epoch, o_.augment, slot->batch.inputs);
        slot->batch.epoch = epoch;
        slot->batch.index = index;
        slot->batch.size = size;
        const std::lock_guard lock(mutex_);
        ++filled_;
        changed_.notify_all();
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

const LoadedBatch* Loader::next() {
  std::unique_lock lock(mutex_);
  if (holding_) {
    holding_ = false;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return filled_ > taken_ || done_; });
  if (filled_ == taken_) {
    if (error_) std::rethrow_exception(error_);
    return nullptr;
  }
  holding_ = true;
  return &slots_[taken_++ % depth].batch;
}

const LoadedBatch* Loader::peek() {
  const std::lock_guard lock(mutex_);
  return filled_ > taken_ ? &slots_[taken_ % depth].batch : nullptr;
}

}  // namespace tandem
