// The right factor of many products: packed once, then multiplied by rows as they come, by every thread its own, of all columns or of
// some. With `dots` (float alone)
// both factors are rounded to bfloat16 and multiplied in pairs (vector.h); `inner` is even then.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/gemm.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

// Columns [begin, end) of each of `runs` that begin `apart` columns from each other.
struct Columns {
  std::int64_t begin = 0, end = 0, runs = 1, apart = 0;
};

// b[p, j] of inner × columns lies at from[p·step + j·line].
template <class T>
struct RightFactor {
  std::int64_t inner = 0, columns = 0, step = 0, line = 0;
  bool dots = false;

  // bytes
  std::int64_t workspace() const { return packs ? panels() * width() * pairs_of(inner) * static_cast<std::int64_t>(sizeof(T)) : 0; }
  // Of each thread's own, while it packs and while it multiplies `rows` rows.
  std::int64_t scratch(std::int64_t rows) const {
    return dots ? std::max(rows, width()) * inner * static_cast<std::int64_t>(sizeof(std::uint16_t)) : 0;
  }

  // Part `part` of `parts` of the packing.
  void pack(const T* from, std::byte* workspace, int part, int parts, std::byte* scratch) const {
    if constexpr (packs) {
      if (dots && line == 1) {  // lines as they lie: panels are cut where there are too few for all
        const std::int64_t pieces = std::clamp<std::int64_t>((parts + panels() - 1) / panels(), 1, inner / 2);
        const Range mine = part_of(panels() * pieces, part, parts);
        for (std::int64_t i = mine.begin; i < mine.end; ++i) {
          const std::int64_t left = i / pieces * width();
          const Range pairs = part_of(inner / 2, i % pieces, pieces);
          std::uint32_t* const to = pair_panel(workspace, i / pieces) + pairs.begin * width();
          dot_products()->pair_narrowed(to, width(), from + left + 2 * pairs.begin * step, step, 2 * (pairs.end - pairs.begin),
                                        std::min(width(), columns - left));
        }
        return;
      }
      const Range mine = part_of(panels(), part, parts);
      if (mine.begin == mine.end) return;
      if (dots) {
        for (std::int64_t n = mine.begin; n < mine.end; ++n) pack_pairs(from, n, pair_panel(workspace, n), scratch);
        return;
      }
      for (std::int64_t k = 0; k < inner; k += most_depth) {
        const std::int64_t deep = std::min(most_depth, inner - k), left = mine.begin * width();
        loops().pack({from + k * step + left * line, false, line, step, std::min(mine.end * width(), columns) - left, deep, width(),
                      panel(workspace, k, deep, mine.begin), deep * width()});
      }
    }
  }

  // c = a·b, or c + a·b where `accumulate`: of `rows` rows of a, whose numbers lie side by side. Column j of the result is c[i·c_row + j].
  // Where a run does not begin at a panel's first column, up to a line is read behind the packed numbers.
  void multiply(const T* from, const std::byte* workspace, std::int64_t rows, const T* a, std::int64_t a_row, T* c, std::int64_t c_row,
                bool accumulate, std::byte* scratch, const Columns& some) const {
    if constexpr (packs) {
      const std::int64_t wide = width();
      if (dots) {
        auto* const narrow = reinterpret_cast<std::uint16_t*>(scratch);
        const vector::Dots& products = *dot_products();
        for (std::int64_t i = 0; i < rows; ++i) products.narrow(narrow + i * inner, a + i * a_row, inner);
        by_panels(some, wide, [&](std::int64_t n, std::int64_t left, std::int64_t count) {
          products.block({reinterpret_cast<const std::uint32_t*>(narrow),
                          pair_panel(const_cast<std::byte*>(workspace), n) + left - n * wide, c + left, rows, count, inner / 2,
                          inner / 2, 1, wide, c_row, accumulate});
        });
        return;
      }
      const vector::Products& products = loops();
      const std::int64_t height = products.panel_rows, tiles = (rows + height - 1) / height, all = panels() * wide;
      for (std::int64_t k = 0; k < inner; k += most_depth) {
        const std::int64_t deep = std::min(most_depth, inner - k);
        by_panels(some, wide, [&](std::int64_t n, std::int64_t left, std::int64_t count) {
          const T* const b = reinterpret_cast<const T*>(workspace) + k * all + n * deep * wide;
          for (std::int64_t t = 0; t < tiles; ++t) {
            const auto [begin, end] = part_of(rows, static_cast<int>(t), static_cast<int>(tiles));
            const T* const from_a = a + begin * a_row + k;
            products.panels({from_a,
                             b + left - n * wide,
                             c + begin * c_row + left,
                             end - begin,
                             count,
                             deep,
                             a_row,
                             1,
                             0,
                             c_row,
                             nullptr,
                             accumulate || k > 0,
                             false,
                             false,
                             {b + deep * wide * (t + 1) / tiles, from_a}});
          }
        });
      }
    } else {
      for (std::int64_t run = 0; run < some.runs; ++run) {
        const std::int64_t left = some.begin + run * some.apart;
        gemm<T>(rows, some.end - some.begin, inner, {a, a_row, 1}, {from + left * line, step, line}, c + left, c_row, accumulate);
      }
    }
  }

 private:
  static constexpr bool packs = std::is_same_v<T, float>;
  static constexpr std::int64_t most_depth = 1024;
  static const vector::Products& loops() { return *vector_table().products; }
  std::int64_t width() const { return dots ? 64 : loops().panel_columns; }
  std::int64_t pairs_of(std::int64_t n) const { return dots ? n / 2 : n; }
  // each(panel, column, count) for the columns' pieces, each of one panel, `wide` columns.
  template <class Each>
  static void by_panels(const Columns& some, std::int64_t wide, const Each& each) {
    for (std::int64_t run = 0; run < some.runs; ++run)
      for (std::int64_t left = some.begin + run * some.apart, end = some.end + run * some.apart; left < end;) {
        const std::int64_t n = left / wide, count = std::min(end, (n + 1) * wide) - left;
        each(n, left, count);
        left += count;
      }
  }
  std::int64_t panels() const { return (columns + width() - 1) / width(); }
  std::uint32_t* pair_panel(std::byte* workspace, std::int64_t n) const {
    return reinterpret_cast<std::uint32_t*>(workspace) + n * width() * inner / 2;
  }
  void pack_pairs(const T* from, std::int64_t n, std::uint32_t* to, std::byte* scratch) const {
    const std::int64_t left = n * width(), some = std::min(width(), columns - left);
    auto* const narrow = reinterpret_cast<std::uint16_t*>(scratch);  // step is 1
    for (std::int64_t i = 0; i < some; ++i) dot_products()->narrow(narrow + i * inner, from + (left + i) * line, inner);
    loops().pack({reinterpret_cast<const float*>(narrow), false, inner / 2, 1, some, inner / 2, width(), reinterpret_cast<float*>(to)});
  }
  // Panel n of the numbers from k on, `deep` of them.
  T* panel(std::byte* workspace, std::int64_t k, std::int64_t deep, std::int64_t n) const {
    return reinterpret_cast<T*>(workspace) + k * panels() * width() + n * deep * width();
  }
};

}  // namespace tandem::native
