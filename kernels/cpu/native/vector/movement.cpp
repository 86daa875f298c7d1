// Transposing copies by squares that are turned over in registers.
#include "kernels/cpu/native/vector/parts.h"
#include "kernels/cpu/native/vector/tile.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using std::uint16_t;
using std::uint32_t;

// Of both sides: what a block reads and writes lies in the nearest cache, in runs of whole lines.
constexpr int64_t block = 64;

struct Words {
  using Element = uint32_t;
  static constexpr int64_t columns = tile_size;  // of x's rows that become one of y's
  static void tile(const uint32_t* x, uint32_t* y, int64_t x_step, int64_t y_step) {
    TileRegister rows[tile_size];
#pragma GCC unroll 16
    for (int k = 0; k < tile_size; ++k) rows[k] = *reinterpret_cast<const TileRow*>(x + k * x_step);
    turn(rows);
#pragma GCC unroll 16
    for (int k = 0; k < tile_size; ++k) *reinterpret_cast<TileRow*>(y + k * y_step) = rows[k];
  }
};
// Two rows' elements side by side are words.
struct Halves {
  using Element = uint16_t;
  static constexpr int64_t columns = 2 * tile_size;
  using Row [[gnu::vector_size(tile_size * 2), gnu::aligned(2), gnu::may_alias]] = uint16_t;
  using Pairs [[gnu::vector_size(tile_size * 4), gnu::aligned(2), gnu::may_alias]] = uint32_t;
  static void tile(const uint16_t* x, uint16_t* y, int64_t x_step, int64_t y_step) {
    TileRegister rows[tile_size];
#pragma GCC unroll 16
    for (int k = 0; k < tile_size; ++k) {
      const TileRegister even = __builtin_convertvector(*reinterpret_cast<const Row*>(x + 2 * k * x_step), TileRegister);
      const TileRegister odd = __builtin_convertvector(*reinterpret_cast<const Row*>(x + (2 * k + 1) * x_step), TileRegister);
      rows[k] = even | odd << 16;
    }
    turn(rows);
#pragma GCC unroll 16
    for (int k = 0; k < tile_size; ++k) *reinterpret_cast<Pairs*>(y + k * y_step) = rows[k];
  }
};

template <class E>
void transpose(const void* from, void* to, int64_t rows, int64_t columns, int64_t x_step, int64_t y_step) {
  using T = typename E::Element;
  const T* const x = static_cast<const T*>(from);
  T* const y = static_cast<T*>(to);
  const auto one_by_one = [&](int64_t i, int64_t i_end, int64_t j_begin, int64_t j_end) {
    for (; i < i_end; ++i)
      for (int64_t j = j_begin; j < j_end; ++j) y[i * y_step + j] = x[j * x_step + i];
  };
  for (int64_t i0 = 0; i0 < rows; i0 += block)
    for (int64_t j0 = 0; j0 < columns; j0 += block) {
      const int64_t i1 = i0 + block < rows ? i0 + block : rows, j1 = j0 + block < columns ? j0 + block : columns;
      int64_t j = j0;
      for (; j + E::columns <= j1; j += E::columns) {
        int64_t i = i0;
        for (; i + tile_size <= i1; i += tile_size) E::tile(x + j * x_step + i, y + i * y_step + j, x_step, y_step);
        one_by_one(i, i1, j, j + E::columns);
      }
      one_by_one(i0, i1, j, j1);
    }
}

}  // namespace

const Transpose transposes[] = {transpose<Halves>, transpose<Words>};

}  // namespace tandem::vector::TANDEM_ISA
