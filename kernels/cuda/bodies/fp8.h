// 8-bit floats with delayed scaling (graph/operators/fp8.cpp): rounding, also by columns, the largest magnitude, and the scales that
// follow.
#pragma once
#include "graph/fp8.h"
#include "kernels/cuda/bodies/pack.h"

#if defined(__CUDACC__)
#include <cuda_fp8.h>
#else
#include <bit>
#endif

namespace tandem::cuda {

// The element of a number that is scaled already: fp8_of's.
TANDEM_DEVICE std::uint8_t fp8_element(float scaled, DType to) {
#if defined(__CUDACC__)
  return __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, to == DType::float8e5m2 ? __NV_E5M2 : __NV_E4M3);
#else
  return fp8_of(scaled, 1, to);
#endif
}

// A block rounds a square of x[rows, columns], columns a multiple of 8, and writes it as it lies and by columns. part[block] is its largest
// magnitude, infinity where one is NaN.
struct QuantizeFp8Body {
  static constexpr int tile = 64, width = 8;  // elements a side, and of a thread at a time
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  static constexpr int pitch = tile + 4;      // of a row in shared memory: columns lie in different banks
  const BFloat16* x;
  const Fp8Row* row;                          // of the state
  std::uint8_t *y, *transposed;               // transposed: null for none
  float* part;
  std::int64_t rows, columns, tiles_across;
  DType to;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    std::uint8_t* const square = t.template shared<std::uint8_t, tile * pitch, 1>();
    const std::int64_t top = t.block() / tiles_across * tile, left = t.block() % tiles_across * tile;
    const float scale = fp8_scale(*row);
    float largest = 0;
    for (int p = t.thread(); p < tile * tile / width; p += threads) {
      const int r = p / (tile / width), c = p % (tile / width) * width;
      if (top + r >= rows || left + c >= columns) continue;
      const std::int64_t at = ((top + r) * columns + left + c) / width;
      const Pack<BFloat16, width> in = read_pack<width>(x, at);
      Pack<std::uint8_t, width> out;
      for (int i = 0; i < width; ++i) {
        const float v = load(in.v[i]), magnitude = v < 0 ? -v : v;
        largest = magnitude <= largest ? largest : v == v ? magnitude : infinite();
        out.v[i] = fp8_element(v * scale, to);
        square[r * pitch + c + i] = out.v[i];
      }
      write_pack<width>(y, at, out);
    }
    largest = combine_block<threads, 0>(t, largest, [](float a, float b) { return a < b ? b : a; });
    if (t.thread() == 0) part[t.block()] = largest;
    if (!transposed) return;
    t.sync();
    for (int p = t.thread(); p < tile * tile / width; p += threads) {
      const int c = p / (tile / width), r = p % (tile / width) * width;
      if (left + c >= columns || top + r >= rows) continue;
      const std::int64_t at = (left + c) * rows + top + r;
      if (rows % width == 0) {
        Pack<std::uint8_t, width> out;
        for (int i = 0; i < width; ++i) out.v[i] = square[(r + i) * pitch + c];
        write_pack<width>(transposed, at / width, out);
      } else {
        for (int i = 0; i < width && top + r + i < rows; ++i) transposed[at + i] = square[(r + i) * pitch + c];
      }
    }
  }

 private:
  static TANDEM_DEVICE float infinite() {
#if defined(__CUDACC__)
    return __int_as_float(0x7f800000);
#else
    return std::bit_cast<float>(0x7f800000);
#endif
  }
};

// The largest of all parts, in one block, and what undoes the scale.
struct LargestBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  const float* part;
  std::int64_t parts;
  const Fp8Row* row;
  float *inverse, *amax;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    float largest = 0;
    for (std::int64_t i = t.thread(); i < parts; i += threads) largest = part[i] > largest ? part[i] : largest;
    largest = combine_block<threads, 0>(t, largest, [](float a, float b) { return a < b ? b : a; });
    if (t.thread() != 0) return;
    *amax = largest;
    *inverse = 1 / fp8_scale(*row);
  }
};

inline constexpr int fp8_rows_a_launch = 256;

// A thread takes a row of the state.
struct Fp8ScaleUpdateBody {
  static constexpr int threads = 64;
  static constexpr bool cooperative = false;
  int count, margin;
  std::uint8_t types[fp8_rows_a_launch];  // as ONNX numbers them
  const float* amax[fp8_rows_a_launch];
  const Fp8Row* state;
  Fp8Row* now;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto i = static_cast<int>(t.block()) * threads + t.thread();
    if (i >= count) return;
    Fp8Row row = state[i];
    next_scale(row, *amax[i], static_cast<DType>(types[i]), margin);
    now[i] = row;
  }
};

}  // namespace tandem::cuda
