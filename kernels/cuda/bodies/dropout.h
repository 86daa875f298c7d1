// Dropout by Philox4x32-10, as docs/internal-operators.md defines it: which elements are kept depends on their row-major
// number, never on the layout or the number of threads.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/philox.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

template <class T>
struct DropoutBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::uint8_t* mask;
  const std::int64_t* random;  // seed, step, first row of the slice
  std::int64_t elements, row;
  std::uint32_t threshold, layer;
  double scale;
  bool row_major;
  Nest<1> numbers;  // row-major number of each element in memory order

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const auto seed = static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t own = row_major ? i : numbers.offset(static_cast<std::uint32_t>(i));
      const auto number = static_cast<std::uint64_t>(random[2] * row + own);
      const std::uint64_t group = number / 4;
      Philox p{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)},
               {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer}};
      p.run();
      const bool kept = p.word(static_cast<int>(number % 4)) >= threshold;
      mask[i] = kept;
      y[i] = store<T>(kept ? load(x[i]) * static_cast<C>(scale) : C(0));
    }
  }
};

template <class T>
struct DropoutBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const std::uint8_t* mask;
  T* dx;
  std::int64_t elements;
  double scale;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads)
      dx[i] = store<T>(mask[i] ? load(dy[i]) * static_cast<C>(scale) : C(0));
  }
};

}  // namespace tandem::cuda
