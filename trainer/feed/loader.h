// Prepares the next batches on threads of its own, into buffers made once. What is in them, and their order, is the same for
// any number of threads.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "planner/options.h"
#include "trainer/feed/buckets.h"

namespace tandem {

// Which samples come when: every epoch once through the data, in batches, the last one short where they do not divide.
// The order depends on the seed and the epoch, and on nothing else.
struct BatchOrder {
  std::int64_t samples = 0;
  std::int64_t batch = 1;
  bool shuffle = false;
  std::uint64_t seed = 1;
  SampleBuckets buckets;  // null: all alike. Shuffled samples of a bucket come together, within some tens of batches

  std::int64_t batches() const { return (samples + batch - 1) / batch; }
  std::vector<std::int64_t> epoch(std::int64_t number) const;  // all samples of an epoch, listed

 private:
  void group(std::vector<std::int64_t>& order, class Random& random) const;
};

// Which sample stands at a place of an epoch: from its list, or, of more samples than are listed, computed: then memory and work go by
// the places that are asked for.
class EpochOrder {
 public:
  static constexpr std::int64_t listed = std::int64_t{1} << 27;
  EpochOrder(const BatchOrder& order, std::int64_t number);
  std::int64_t operator[](std::int64_t place) const;

 private:
  std::vector<std::int64_t> list_;
  std::int64_t samples_;
  bool shuffle_;
  std::array<std::uint64_t, 2> key_;
  int half_ = 0;  // bits of half a number below samples_
};

struct LoadedBatch {
  std::int64_t epoch = 0, index = 0;  // from 0; index within the epoch
  std::int64_t size = 0;
  std::size_t bucket = 0;  // that it is cut to
  std::vector<std::byte*> inputs;  // of the feed's targets; null where the data has none
};

// Which batches a loader makes, and where it puts them.
struct LoaderOptions {
  using RowsOf = std::function<std::vector<RowRange>(std::int64_t batch, std::int64_t parts)>;
  BatchOrder order;
  bool augment = false;
  bool pad = false;              // batches are filled up to order.batch samples by repeating the first; `size` tells how many count
  std::int64_t most = 0;         // rows of a micro-batch: batches are filled up as micro_batches_of has it; 0: a batch is one
  std::int64_t epoch = 0, batch = 0;  // it begins with this batch of this epoch
  std::int64_t epochs = 1;       // it ends before the epoch of this number; 0: never
  std::size_t held = 1;          // of the batches given so many stay as they are, the last ones
  std::int64_t workers = 0;      // threads, each at a batch of its own; 0: Feed::workers. Of an iterable data set one
  const Buckets* buckets = nullptr;  // outlives the loader; null: batches are not cut
  RowsOf rows;                   // which of a batch of so many, in so many micro-batches, the model's inputs are wanted of; empty: all
  std::function<std::byte*(std::size_t number, std::int64_t bytes)> memory;  // buffers, by number; empty: the loader's own
};

class Loader {
 public:
  Loader(Feed& feed, LoaderOptions options);
  ~Loader();
  // Waits for the next batch; null at the end. The oldest batch given goes back to be filled anew, where `held` are given.
  const LoadedBatch* next();
  // The batch that next() will give, where it is ready; null where it is not, or, with `wait`, where there is none. It stays as it is.
  const LoadedBatch* peek(bool wait = false);

 private:
  struct Slot {
    LoadedBatch batch;
    std::vector<std::vector<std::byte>> storage;
    bool ready = false;
    std::exception_ptr error;  // instead of a batch
  };
  struct Ticket {  // one batch to make
    Slot* slot = nullptr;  // null: stop
    std::int64_t epoch = 0, index = 0;
    std::shared_ptr<const EpochOrder> order;  // of that epoch
  };
  void work();
  void make(const Ticket& ticket);
  Ticket wait_for_ticket();
  void wait_for_batch(std::unique_lock<std::mutex>& lock);
  MicroBatches parts_of(std::int64_t size) const { return micro_batches_of(size, o_.most > 0 ? o_.most : o_.order.batch); }
  void stop();
  Slot& slot_of(std::size_t number) { return slots_[number % slots_.size()]; }
  const Slot& slot_of(std::size_t number) const { return slots_[number % slots_.size()]; }

  Feed& feed_;
  const LoaderOptions o_;
  std::vector<Slot> slots_;                // more than threads: those given and the next
  std::size_t begun_ = 0, taken_ = 0;      // batches so far
  std::size_t held_ = 0;                   // given and not yet back
  std::int64_t epoch_ = 0, index_ = 0;     // of the next to be begun
  std::shared_ptr<const EpochOrder> order_;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace tandem
