// Places sorted by the row that each goes to or comes from, as keys: the row above, the place below, so that places of one row follow
// each other in order. Rows and places are below 2^32 − 1.
#pragma once
#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

inline constexpr std::uint64_t no_row = 0xffffffffU;
TANDEM_DEVICE std::uint64_t row_of(std::uint64_t key) { return key >> 32; }
TANDEM_DEVICE std::int64_t place_of(std::uint64_t key) { return static_cast<std::int64_t>(key & 0xffffffffU); }

// keys[i] = row of place i, then i: those without a row, and what fills up to `padded`, come last.
template <class Rows>
struct SortKeysBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  std::uint64_t* keys;
  Rows rows;
  std::int64_t count, padded;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < padded; i += t.blocks() * threads) {
      const std::int64_t row = i < count ? rows.row(i) : -1;
      keys[i] = (row < 0 ? no_row : static_cast<std::uint64_t>(row)) << 32 | static_cast<std::uint64_t>(i);
    }
  }
};

// A bitonic sort of 2^n keys (K. E. Batcher, "Sorting networks and their applications", 1968) is runs of steps: in a step pairs that lie
// `distance`, a power of two, apart are ordered, upwards where the bit of `run` in the place is 0.
struct SortPair {
  std::int64_t a, b;
  TANDEM_DEVICE SortPair(std::int64_t pair, std::int64_t distance) : a(2 * pair - (pair & (distance - 1))), b(a + distance) {}
};
TANDEM_DEVICE void order(std::uint64_t& a, std::uint64_t& b, bool upwards) {
  const std::uint64_t first = a, second = b;
  if (upwards != (first > second)) return;
  a = second;
  b = first;
}

// One step over all keys.
struct SortStepBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  std::uint64_t* keys;
  std::int64_t run, distance, pairs;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t p = t.block() * threads + t.thread(); p < pairs; p += t.blocks() * threads) {
      const SortPair pair(p, distance);
      order(keys[pair.a], keys[pair.b], (pair.a & run) == 0);
    }
  }
};

inline constexpr int keys_of_block = 2048;

// The runs from `first` to `last`, of each the steps within `keys` keys, 2048 at most: a block sorts as many in shared memory.
struct SortBlockBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  std::uint64_t* all;
  std::int64_t first, last;
  int keys;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    std::uint64_t* const own = t.template shared<std::uint64_t, keys_of_block, 0>();
    const std::int64_t begin = t.block() * keys;
    for (int i = t.thread(); i < keys; i += threads) own[i] = all[begin + i];
    for (std::int64_t run = first; run <= last; run *= 2)
      for (std::int64_t distance = run < keys ? run / 2 : keys / 2; distance > 0; distance /= 2) {
        t.sync();
        for (int p = t.thread(); p < keys / 2; p += threads) {
          const SortPair pair(p, distance);
          order(own[pair.a], own[pair.b], ((begin + pair.a) & run) == 0);
        }
      }
    t.sync();
    for (int i = t.thread(); i < keys; i += threads) all[begin + i] = own[i];
  }
};

}  // namespace tandem::cuda
