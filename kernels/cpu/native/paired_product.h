// c = aᵀ·b of float32 numbers that are rounded to bfloat16 and multiplied in pairs (vector.h), as a weight's gradient is that of all
// samples: c[i, j] = Σ a[p, i]·b[p, j] over p, in order. Every thread has rows of c of its own, packs what it reads of a, and all of b.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

struct PairedProduct {
  std::int64_t rows = 0, columns = 0, inner = 0;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;  // from one line of each to the next
  bool sums = false;                             // Σ a[p, i], too, of numbers that are not rounded
  int threads = 1;

  std::int64_t workspace() const { return parts() * bytes_of_part(); }

  void run(const float* a, const float* b, float* c, float* sums_at, std::byte* workspace) const {
    const vector::Dots& dots = *dot_products();
    parallel(parts(), [&](int part) {
      const Range mine = part_of(rows, part, parts());
      auto* const strips = reinterpret_cast<std::uint32_t*>(workspace + part * bytes_of_part());
      auto* const panel = strips + (columns + strip - 1) / strip * strip * depth / 2;
      for (std::int64_t k = 0; k < inner; k += depth) {
        const std::int64_t deep = std::min(depth, inner - k), pairs = (deep + 1) / 2;
        for (std::int64_t j = 0; j < columns; j += strip)
          dots.pair_narrowed(strips + j * depth / 2, strip, b + k * b_row + j, b_row, deep, std::min(strip, columns - j));
        for (std::int64_t i = mine.begin; i < mine.end; i += height) {
          const std::int64_t some = std::min(height, mine.end - i);
          dots.pair_narrowed(panel, height, a + k * a_row + i, a_row, deep, some);
          for (std::int64_t j = 0; j < columns; j += strip)
            dots.block({panel, strips + j * depth / 2, c + i * c_row + j, some, std::min(strip, columns - j), pairs, 1, height, strip,
                        c_row, k > 0});
        }
      }
      if (!sums) return;
      std::fill_n(sums_at + mine.begin, mine.end - mine.begin, 0.0F);
      for (std::int64_t p = 0; p < inner; ++p)
        for (std::int64_t i = mine.begin; i < mine.end; ++i) sums_at[i] += a[p * a_row + i];
    });
  }

 private:
  static constexpr std::int64_t strip = 64, height = 48, depth = 256;  // a strip of b stays in the first cache beside lines of a's panel
  int parts() const { return threads_for(rows * columns * inner, threads); }
  std::int64_t bytes_of_part() const {
    return ((columns + strip - 1) / strip * strip + height) * (depth / 2) * static_cast<std::int64_t>(sizeof(std::uint32_t));
  }
};

}  // namespace tandem::native
