// ArgMax and ArgMin.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

// The largest number so far and its place: the first (or last) of equals; NaN counts as largest, and the first of them stays.
template <class C>
struct Largest {
  C value = {};
  std::int32_t place = -1;

  // Of numbers in order.
  TANDEM_DEVICE void see(C v, std::int32_t at, bool last) {
    if (place >= 0 && !(value == value && !(last ? v < value : v <= value))) return;
    value = v;
    place = at;
  }
  // Of others, from anywhere.
  TANDEM_DEVICE void see(const Largest& other, bool last) {
    if (other.place < 0) return;
    const bool nan = value != value, other_nan = other.value != other.value, equal = value == other.value || (nan && other_nan);
    const bool further = last && !nan ? other.place > place : other.place < place;
    if (place >= 0 && !(equal ? further : other_nan || (!nan && other.value > value))) return;
    *this = other;
  }
};
// Turns the order around where the smallest is looked for.
template <class C>
TANDEM_DEVICE C ranked(C v, bool largest) {
  if constexpr (std::is_integral_v<C>)
    return largest ? v : static_cast<C>(~v);  // -v has no room for the least of all
  else
    return largest ? v : -v;
}

// y = place of the largest (or smallest) element along an axis: a thread a line, where neighbours in memory are of different lines.
template <class T>
struct ArgBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  std::int64_t* y;
  std::int32_t length;
  std::int64_t stride;
  std::uint32_t count;
  Nest<1> lines;
  bool largest, last;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t r = t.block() * threads + t.thread(); r < count; r += t.blocks() * threads) {
      const T* const from = x + lines.offset(static_cast<std::uint32_t>(r));
      Largest<Compute<T>> best;
      TANDEM_UNROLL(unroll 4)
      for (std::int32_t i = 0; i < length; ++i) best.see(ranked(load(from[i * stride]), largest), i, last);
      y[r] = best.place;
    }
  }
};

// The same by 32 threads a line, or by a block; packs of more than one element where the lines are made of them: the pack is found by its
// largest, and then the element in it.
template <class T, int threads_of_line, int width>
struct ArgLineBody {
  static constexpr int threads = 256, lines_of_block = threads / threads_of_line, warps_of_line = threads_of_line / 32;
  static constexpr bool cooperative = true;
  const T* x;
  std::int64_t* y;
  std::int32_t packs;  // of a line
  std::int64_t stride;
  std::uint32_t count;
  Nest<1> lines;
  bool largest, last;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const int lane = t.thread() % threads_of_line;
    for (std::int64_t r = t.block() * lines_of_block + t.thread() / threads_of_line; r < count; r += t.blocks() * lines_of_block) {
      const T* const from = x + lines.offset(static_cast<std::uint32_t>(r));
      Largest<C> best;
      TANDEM_UNROLL(unroll 2)
      for (std::int32_t i = lane; i < packs; i += threads_of_line) {
        const Pack<T, width> pack = width == 1 ? Pack<T, width>{from[i * stride]} : read_pack<width>(from, i);
        C most = ranked(load(pack.v[0]), largest);
        TANDEM_UNROLL(unroll)
        for (int k = 1; k < width; ++k) {
          const C v = ranked(load(pack.v[k]), largest);
          if (v > most || v != v) most = v;
        }
        best.see(most, i, last);
      }
      for (int mask = 16; mask > 0; mask /= 2) best.see(Largest<C>{t.shuffle_xor(best.value, mask), t.shuffle_xor(best.place, mask)}, last);
      if constexpr (warps_of_line > 1) {
        C* const values = t.template shared<C, warps_of_line, 0>();
        std::int32_t* const places = t.template shared<std::int32_t, warps_of_line, 1>();
        t.sync();  // they may still be read for the line before
        if (lane % 32 == 0) {
          values[lane / 32] = best.value;
          places[lane / 32] = best.place;
        }
        t.sync();
        if (lane == 0)
          for (int w = 1; w < warps_of_line; ++w) best.see(Largest<C>{values[w], places[w]}, last);
      }
      if (lane != 0) continue;
      if constexpr (width > 1) {
        const Pack<T, width> pack = read_pack<width>(from, best.place);
        Largest<C> in_pack;
        for (int k = 0; k < width; ++k) in_pack.see(ranked(load(pack.v[k]), largest), k, last);
        best.place = best.place * width + in_pack.place;
      }
      y[r] = best.place;
    }
  }
};

}  // namespace tandem::cuda
