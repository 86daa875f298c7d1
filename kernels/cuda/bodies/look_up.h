// LookUp: numbers for bytes, eight elements a thread in y's order. It moves elements of any type and computes nothing.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

inline constexpr int look_up_bytes = 256, most_shared_rows = 4;

// y's dimensions, the last innermost, with what a step along each moves in x and in the table, and what one moves that ends a line of the
// dimension behind it.
struct LookUpLoops {
  Divider sizes[3];
  std::int32_t x[3] = {}, table[3] = {}, x_carry[2] = {}, table_carry[2] = {};
};

// `straight`: x lies as y does. `shared`: the table has at most most_shared_rows, which each block copies.
template <class T, bool straight, bool shared_table>
struct LookUpBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = shared_table;
  static constexpr int width = 8;
  const std::uint8_t* x;
  const T* table;
  T* y;
  int rows;
  std::int64_t elements;
  LookUpLoops loops;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const T* numbers = table;
    if constexpr (shared_table) {
      T* const copy = t.template shared<T, most_shared_rows * look_up_bytes, 0>();
      TANDEM_UNROLL(unroll 1)
      for (int i = t.thread(); i < rows * look_up_bytes / full_pack<T>; i += threads)
        write_pack(copy, i, read_pack<full_pack<T>>(table, i));
      t.sync();
      numbers = copy;
    }
    const std::int64_t packs = elements / width;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      Place at = place(static_cast<std::uint32_t>(i * width));
      Pack<std::uint8_t, width> from;
      if constexpr (straight) from = read_pack<width>(x, i);
      Pack<T, width> to;
      TANDEM_UNROLL(unroll)
      for (int k = 0; k < width; ++k) {
        to.v[k] = numbers[at.row + (straight ? from.v[k] : x[at.x])];
        if (k + 1 < width) advance(at);
      }
      write_pack(y, i, to);
    }
    // What is left fills no pack: an element a thread.
    const std::int64_t last = packs * width + t.thread();
    if (t.block() != 0 || last >= elements) return;
    const Place at = place(static_cast<std::uint32_t>(last));
    y[last] = numbers[at.row + x[at.x]];
  }

 private:
  struct Place {
    std::uint32_t middle, inner;
    std::int32_t x, row;
  };
  TANDEM_DEVICE Place place(std::uint32_t i) const {
    const std::uint32_t lines = loops.sizes[2].divide(i), outer = loops.sizes[1].divide(lines);
    Place p{lines - outer * loops.sizes[1].divisor, i - lines * loops.sizes[2].divisor, 0, 0};
    const std::uint32_t index[3] = {outer, p.middle, p.inner};
    for (int d = 0; d < 3; ++d) {
      p.x += static_cast<std::int32_t>(index[d]) * loops.x[d];
      p.row += static_cast<std::int32_t>(index[d]) * loops.table[d];
    }
    return p;
  }
  TANDEM_DEVICE void advance(Place& p) const {
    p.x += loops.x[2];
    p.row += loops.table[2];
    const bool line = ++p.inner == loops.sizes[2].divisor;
    if (line) {
      p.inner = 0;
      p.x += loops.x_carry[1];
      p.row += loops.table_carry[1];
      ++p.middle;
    }
    if (line && p.middle == loops.sizes[1].divisor) {
      p.middle = 0;
      p.x += loops.x_carry[0];
      p.row += loops.table_carry[0];
    }
  }
};

}  // namespace tandem::cuda
