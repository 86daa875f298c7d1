// Uniform random numbers in (0, 1), as docs/internal-operators.md defines them: the same bits as the CPU's.
#pragma once
#include "kernels/cuda/bodies/dropout.h"

namespace tandem::cuda {

TANDEM_DEVICE float uniform_number(std::uint32_t word, float) {
  const float u = (static_cast<float>(word) + 0.5F) * 0x1p-32F, most = 1 - 0x1p-24F;
  return u < most ? u : most;
}
TANDEM_DEVICE double uniform_number(std::uint32_t word, double) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

// y is [outside, samples, inside], row-major.
template <class T>
struct RandomNumbersBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  T* y;
  const std::int64_t* random;  // seed, step, first sample
  std::int64_t elements, outside, samples, inside;
  std::uint32_t layer, seed;
  bool seeded, holds_samples;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::uint64_t key = seeded ? seed : static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
    const std::int64_t first = holds_samples ? random[2] : 0;
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t run = i / inside;
      const auto number = static_cast<std::uint64_t>((first + run % samples) * outside * inside + run / samples * inside + i % inside);
      const std::uint64_t group = number / 4;
      Philox p{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), static_cast<std::uint32_t>(step),
                static_cast<std::uint32_t>(step >> 32)},
               {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32) ^ layer}};
      p.run();
      y[i] = uniform_number(p.counter[number % 4], T());
    }
  }
};

}  // namespace tandem::cuda
