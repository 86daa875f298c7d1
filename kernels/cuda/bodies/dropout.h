// Dropout by Philox4x32-10, as docs/internal-operators.md defines it: which elements are kept depends on their row-major
// number, never on the layout or the number of threads.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/philox.h"

namespace tandem::cuda {

// What all elements of a DropoutTraining share.
struct DropoutRule {
  const std::int64_t* random;  // seed, step, first row of the slice
  std::int64_t row;            // elements of a sample
  std::uint32_t threshold, layer;
  double scale;

  // The four words of elements 4·group … 4·group + 3, as the whole batch numbers them.
  TANDEM_DEVICE Philox words(std::uint64_t group) const {
    const auto seed = static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
    Philox p{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer}};
    p.run();
    return p;
  }
  template <class T>
  TANDEM_DEVICE T apply(T x, bool kept) const {
    using C = Compute<T>;
    return store<T>(kept ? load(x) * static_cast<C>(scale) : C(0));
  }
};

// In any memory order, an element at a time.
template <class T>
struct DropoutBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::uint8_t* mask;
  DropoutRule rule;
  std::int64_t elements;
  bool row_major;
  Nest<1> numbers;  // row-major number of each element in memory order

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t own = row_major ? i : numbers.offset(static_cast<std::uint32_t>(i));
      const auto number = static_cast<std::uint64_t>(rule.random[2] * rule.row + own);
      const bool kept = rule.words(number / 4).word(static_cast<int>(number % 4)) >= rule.threshold;
      mask[i] = kept;
      y[i] = rule.apply(x[i], kept);
    }
  }
};

// In row-major order, where samples are multiples of four elements: each four take their words together.
template <class T, int width>
struct DropoutPacksBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  static_assert(width % 4 == 0);
  const T* x;
  T* y;
  std::uint8_t* mask;
  DropoutRule rule;
  std::int64_t packs;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t first = rule.random[2] * rule.row / 4;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      Pack<T, width> pack = read_pack<width>(x, i);
      Pack<std::uint8_t, width> kept;
      for (int four = 0; four < width / 4; ++four) {
        const Philox words = rule.words(static_cast<std::uint64_t>(first + i * (width / 4) + four));
        for (int j = 0; j < 4; ++j) {
          const int k = 4 * four + j;
          kept.v[k] = words.counter[j] >= rule.threshold;
          pack.v[k] = rule.apply(pack.v[k], kept.v[k] != 0);
        }
      }
      write_pack(mask, i, kept);
      write_pack(y, i, pack);
    }
  }
};

template <class T, int width>
struct DropoutBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const std::uint8_t* mask;
  T* dx;
  std::int64_t packs;
  double scale;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      Pack<T, width> pack = read_pack<width>(dy, i);
      const Pack<std::uint8_t, width> kept = read_pack<width>(mask, i);
      for (int k = 0; k < width; ++k) pack.v[k] = store<T>(kept.v[k] != 0 ? load(pack.v[k]) * static_cast<C>(scale) : C(0));
      write_pack(dx, i, pack);
    }
  }
};

}  // namespace tandem::cuda
