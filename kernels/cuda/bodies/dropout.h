// Dropout by Philox4x32-10, as docs/internal-operators.md defines it: which elements are kept depends on the sample and on their
// number in it, never on the layout or the number of threads, so that the gradient drops what was dropped.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/philox.h"

namespace tandem::cuda {

// What all elements of a DropoutTraining share, and how they are counted: as [outside, samples, inside] (kernels/sample_runs.h).
struct DropoutRule {
  const std::int64_t* random;  // seed, step, first sample
  std::int64_t outside, samples, inside;
  std::uint32_t threshold, layer;
  double scale;
  bool counted;

  // Of the element that is number i in row-major order.
  TANDEM_DEVICE std::uint64_t number(std::int64_t i) const {
    const std::int64_t first = counted ? random[2] : 0;
    if (outside == 1) return static_cast<std::uint64_t>(first * inside + i);
    const std::int64_t run = i / inside;
    return static_cast<std::uint64_t>((first + run % samples) * outside * inside + run / samples * inside + i % inside);
  }
  // The four words of elements 4·group … 4·group + 3, as the whole batch numbers them.
  TANDEM_DEVICE Philox words(std::uint64_t group) const {
    const auto seed = static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
    Philox p{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer}};
    p.run();
    return p;
  }
  template <class T>
  TANDEM_DEVICE T apply(T x, std::uint32_t word) const {
    using C = Compute<T>;
    return store<T>(word >= threshold ? load(x) * static_cast<C>(scale) : C(0));
  }
};

// In any memory order, an element at a time.
template <class T>
struct DropoutBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  DropoutRule rule;
  std::int64_t elements;
  bool row_major;
  Nest<1> numbers;  // row-major number of each element in memory order

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::uint64_t number = rule.number(row_major ? i : numbers.offset(static_cast<std::uint32_t>(i)));
      y[i] = rule.apply(x[i], rule.words(number / 4).word(static_cast<int>(number % 4)));
    }
  }
};

// In row-major order, where the elements of a sample that lie side by side are multiples of `width`: each four take their words together.
template <class T, int width>
struct DropoutPacksBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  static_assert(width % 4 == 0);
  const T* x;
  T* y;
  DropoutRule rule;
  std::int64_t packs;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      Pack<T, width> pack = read_pack<width>(x, i);
      const std::uint64_t group = rule.number(i * width) / 4;
      for (int four = 0; four < width / 4; ++four) {
        const Philox words = rule.words(group + static_cast<std::uint64_t>(four));
        for (int j = 0; j < 4; ++j) pack.v[4 * four + j] = rule.apply(pack.v[4 * four + j], words.counter[j]);
      }
      write_pack(y, i, pack);
    }
  }
};

}  // namespace tandem::cuda
