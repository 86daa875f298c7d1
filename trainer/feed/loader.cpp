#include "trainer/feed/loader.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <utility>

#include "data/stream.h"
#include "planner/micro_batches.h"

namespace tandem {

std::vector<std::int64_t> BatchOrder::epoch(std::int64_t number) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (shuffle) {
    Random random(seed, stream_of(concat("order/", number)));
    tandem::shuffle(order, random);
    if (buckets) group(order, random);
  }
  return order;
}

// Within every so many batches, samples of a bucket next to each other, then the batches in any order; the short one stays the last.
void BatchOrder::group(std::vector<std::int64_t>& order, Random& random) const {
  constexpr std::int64_t together = 50;
  const auto bucket = [&](std::int64_t sample) { return (*buckets)[static_cast<std::size_t>(sample)]; };
  for (std::int64_t begin = 0; begin < samples; begin += together * batch)
    std::stable_sort(order.begin() + begin, order.begin() + std::min(samples, begin + together * batch),
                     [&](std::int64_t a, std::int64_t b) { return bucket(a) < bucket(b); });
  std::vector<std::int64_t> whole(static_cast<std::size_t>(samples / batch)), moved;
  std::iota(whole.begin(), whole.end(), std::int64_t{0});
  tandem::shuffle(whole, random);
  for (const std::int64_t b : whole) moved.insert(moved.end(), order.begin() + b * batch, order.begin() + (b + 1) * batch);
  std::copy(moved.begin(), moved.end(), order.begin());
}

EpochOrder::EpochOrder(const BatchOrder& order, std::int64_t number)
    : samples_(order.samples), shuffle_(order.shuffle), key_{order.seed, stream_of(concat("order/", number))} {
  if (samples_ <= listed || order.buckets)
    list_ = order.epoch(number);
  else
    half_ = (std::bit_width(static_cast<std::uint64_t>(samples_ - 1)) + 1) / 2;
}

// Luby and Rackoff's permutation of numbers of 2 · half_ bits, again until it is below samples_.
std::int64_t EpochOrder::operator[](std::int64_t place) const {
  if (!list_.empty()) return list_[static_cast<std::size_t>(place)];
  if (!shuffle_) return place;
  constexpr std::uint32_t rounds = 6;
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
  auto at = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = at >> half_, right = at & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto mixed = philox({low(right), low(key_[1]), high(key_[1]), round}, {low(key_[0]), high(key_[0])});
      left = std::exchange(right, left ^ (mixed[0] & mask));
    }
    at = left << half_ | right;
  } while (at >= static_cast<std::uint64_t>(samples_));
  return static_cast<std::int64_t>(at);
}

Loader::Loader(Feed& feed, LoaderOptions options) : feed_(feed), o_(std::move(options)), epoch_(o_.epoch), index_(o_.batch) {
  const std::int64_t workers = feed.data().iterable() ? 1 : o_.workers > 0 ? o_.workers : feed.workers();
  slots_.resize(static_cast<std::size_t>(workers) + o_.held + 1);
  const std::int64_t rows = std::max(o_.order.batch, parts_of(o_.order.samples % o_.order.batch).batch());
  std::size_t number = 0;
  for (Slot& slot : slots_)
    for (std::size_t t = 0; t < feed.targets().size(); ++t) {
      const TensorType& sample = feed.targets()[t].sample;
      const auto bytes = static_cast<std::size_t>(sample.shape.elements() * rows) * size_of(sample.dtype);
      std::byte* place = nullptr;
      if (feed.has(t)) place = o_.memory ? o_.memory(number++, static_cast<std::int64_t>(bytes)) : slot.storage.emplace_back(bytes).data();
      slot.batch.inputs.push_back(place);
    }
  try {
    for (std::int64_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {  // no thread more
    stop();
    throw;
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Loader::Ticket Loader::wait_for_ticket() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || begun_ - taken_ + held_ < slots_.size(); });
  if (!stop_ && index_ >= o_.order.batches()) {
    ++epoch_;
    index_ = 0;
    order_.reset();
  }
  const bool ended = o_.order.batches() == 0 || (o_.epochs != 0 && epoch_ >= o_.epochs);
  if (stop_ || ended) return {};
  if (!order_) order_ = std::make_shared<const EpochOrder>(o_.order, epoch_);
  Slot& slot = slot_of(begun_++);
  slot.ready = false;
  return {&slot, epoch_, index_++, order_};
}

void Loader::make(const Ticket& ticket) {
  const BatchOrder& batches = o_.order;
  const std::int64_t begin = ticket.index * batches.batch, size = std::min(batches.batch, batches.samples - begin);
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < size; ++i) samples.push_back((*ticket.order)[begin + i]);
  if (o_.pad) samples.resize(static_cast<std::size_t>(batches.batch), samples[0]);
  const MicroBatches parts = parts_of(std::ssize(samples));
  if (parts.last > 0) {
    std::vector<std::int64_t> filled;
    for (const std::int64_t place : places_of(parts)) filled.push_back(samples[static_cast<std::size_t>(place)]);
    samples = std::move(filled);
  }
  LoadedBatch& batch = ticket.slot->batch;
  const std::vector<RowRange> rows = o_.rows ? o_.rows(std::ssize(samples), parts.count) : std::vector{RowRange{0, std::ssize(samples)}};
  feed_.data().draw(begin, size);
  feed_.fill(samples, rows, ticket.epoch, o_.augment, batch.inputs);
  batch.bucket = o_.buckets ? o_.buckets->of(samples) : 0;
  if (o_.buckets) o_.buckets->cut(batch.bucket, std::ssize(samples), rows, batch.inputs);
  batch.epoch = ticket.epoch;
  batch.index = ticket.index;
  batch.size = size;
}

void Loader::work() {
  while (true) {
    Ticket ticket;
    std::exception_ptr error;
    try {
      ticket = wait_for_ticket();
      if (!ticket.slot) return;
      make(ticket);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (!ticket.slot) ticket.slot = &slot_of(begun_++);  // no memory for an epoch's order
    ticket.slot->error = error;
    ticket.slot->ready = true;
    if (error) stop_ = true;  // no batch after it is begun
    changed_.notify_all();
  }
}

const LoadedBatch* Loader::next() {
  std::unique_lock lock(mutex_);
  if (held_ == o_.held) {
    --held_;
    changed_.notify_all();
  }
  wait_for_batch(lock);
  if (begun_ == taken_) return nullptr;
  Slot& slot = slot_of(taken_);
  if (slot.error) std::rethrow_exception(slot.error);
  ++held_;
  ++taken_;
  return &slot.batch;
}

void Loader::wait_for_batch(std::unique_lock<std::mutex>& lock) {
  const auto ended = [&] {
    return stop_ || o_.order.batches() == 0 || (o_.epochs != 0 && epoch_ + (index_ >= o_.order.batches() ? 1 : 0) >= o_.epochs);
  };
  changed_.wait(lock, [&] { return begun_ > taken_ ? slot_of(taken_).ready : ended(); });
}

const LoadedBatch* Loader::peek(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) wait_for_batch(lock);
  const bool there = begun_ > taken_ && slot_of(taken_).ready && !slot_of(taken_).error;
  return there ? &slot_of(taken_).batch : nullptr;
}

}  // namespace tandem
