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
  std::int64_t run, stride, begin;  // of a part of an axis

  template <class T>
  TANDEM_DEVICE T apply(T x, std::uint32_t word) const {
    using C = Compute<T>;
    return store<T>(word >= threshold ? load(x) * static_cast<C>(scale) : C(0));
  }
};

// What a thread reads of `random` once. With `runs` samples do not lie one behind the other.
template <bool runs>
struct DropoutDraws {
  const DropoutRule& rule;
  std::uint32_t step[2], key[2];
  std::int64_t first;

  TANDEM_DEVICE explicit DropoutDraws(const DropoutRule& r) : rule(r), first(r.counted ? r.random[2] : 0) {
    const auto seed = static_cast<std::uint64_t>(r.random[0]), number = static_cast<std::uint64_t>(r.random[1]);
    step[0] = static_cast<std::uint32_t>(number);
    step[1] = static_cast<std::uint32_t>(number >> 32);
    key[0] = static_cast<std::uint32_t>(seed);
    key[1] = static_cast<std::uint32_t>(seed >> 32) ^ r.layer;
  }
  // Of the element that is number i in row-major order.
  TANDEM_DEVICE std::uint64_t number(std::int64_t i) const {
    if constexpr (!runs) return static_cast<std::uint64_t>(first * rule.inside + i);
    i = i / rule.run * rule.stride + rule.begin + i % rule.run;
    const std::int64_t run = i / rule.inside;
    return static_cast<std::uint64_t>((first + run % rule.samples) * rule.outside * rule.inside + run / rule.samples * rule.inside +
                                      i % rule.inside);
  }
  // The four words of elements 4·group … 4·group + 3, as the whole batch numbers them.
  TANDEM_DEVICE Philox words(std::uint64_t group) const {
    Philox p{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), step[0], step[1]}, {key[0], key[1]}};
    p.run();
    return p;
  }
  // Drops of values that a kernel holds and that are stored as T. They lie side by side from element `at` on, a multiple of four.
  template <class T, int width>
  TANDEM_DEVICE void drop(Compute<T> (&v)[width], std::int64_t at) const {
    static_assert(width % 4 == 0);
    const std::uint64_t group = number(at) / 4;
    for (int four = 0; four < width / 4; ++four) {
      const Philox p = words(group + static_cast<std::uint64_t>(four));
      for (int j = 0; j < 4; ++j) v[4 * four + j] = load(rule.apply(store<T>(v[4 * four + j]), p.counter[j]));
    }
  }
};

// In place of a rule and its draws where a kernel drops nothing.
struct NoDropout {
  template <class T, int width>
  TANDEM_DEVICE void drop(Compute<T> (&)[width], std::int64_t) const {}
};

// In any memory order, an element at a time.
template <class T, bool runs>
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
    const DropoutDraws<runs> draws(rule);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::uint64_t number = draws.number(row_major ? i : numbers.offset(static_cast<std::uint32_t>(i)));
      y[i] = rule.apply(x[i], draws.words(number / 4).word(static_cast<int>(number % 4)));
    }
  }
};

// With channels last and positions in fours: four positions of a channel take their words together, threads side by side have channels
// side by side. Samples lie one behind the other.
template <class T>
struct DropoutChannelsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  DropoutRule rule;
  Divider channels, fours;  // of a sample: its channels, and its positions by four
  std::uint32_t groups;     // of four elements, in all

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const DropoutDraws<false> draws(rule);
    const std::int64_t first = static_cast<std::int64_t>(draws.number(0) / 4);
    for (std::int64_t i = t.block() * threads + t.thread(); i < groups; i += t.blocks() * threads) {
      const std::uint32_t place = channels.divide(static_cast<std::uint32_t>(i)),
                          channel = static_cast<std::uint32_t>(i) - place * channels.divisor;
      const std::uint32_t sample = fours.divide(place), four = place - sample * fours.divisor;
      const Philox words = draws.words(
          static_cast<std::uint64_t>(first + (static_cast<std::int64_t>(sample) * channels.divisor + channel) * fours.divisor + four));
      const std::int64_t at = static_cast<std::int64_t>(place) * 4 * channels.divisor + channel;
      for (int j = 0; j < 4; ++j) y[at + j * channels.divisor] = rule.apply(x[at + j * channels.divisor], words.counter[j]);
    }
  }
};

// In row-major order, where the elements of a sample that lie side by side are multiples of `width`: each four take their words together.
template <class T, int width, bool runs>
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
    const DropoutDraws<runs> draws(rule);
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      Pack<T, width> pack = read_pack<width>(x, i);
      const std::uint64_t group = draws.number(i * width) / 4;
      for (int four = 0; four < width / 4; ++four) {
        const Philox words = draws.words(group + static_cast<std::uint64_t>(four));
        for (int j = 0; j < 4; ++j) pack.v[4 * four + j] = rule.apply(pack.v[4 * four + j], words.counter[j]);
      }
      write_pack(y, i, pack);
    }
  }
};

}  // namespace tandem::cuda
