// Source: Pillow's Resample.c: coefficients in 22 bits, a horizontal pass into 8 bits, then a vertical one.
#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "trainer/data/image.h"

namespace tandem {
namespace {

constexpr int precision = 32 - 8 - 2;

// What each output takes: weights[i · width ...] of inputs first[i] ... first[i] + count[i] - 1.
struct Taps {
  std::vector<std::int32_t> first, count, weights;
  std::size_t width = 0;
};

// Of outputs begin ... begin + wanted - 1 of `to`.
Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t wanted) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(1.0, scale), support = stretch;
  Taps t;
  t.width = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  t.weights.resize(static_cast<std::size_t>(wanted) * t.width);
  std::vector<double> weights(t.width);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto high = std::min(from, static_cast<std::int64_t>(centre + support + 0.5));
    double sum = 0;
    for (std::int64_t x = low; x < high; ++x) {
      const double w = std::max(0.0, 1 - std::abs((static_cast<double>(x) - centre + 0.5) * (1 / stretch)));
      weights[static_cast<std::size_t>(x - low)] = w;
      sum += w;
    }
    for (std::int64_t x = 0; x < high - low; ++x) {
      const double w = weights[static_cast<std::size_t>(x)] / (sum != 0 ? sum : 1);
      t.weights[static_cast<std::size_t>(i) * t.width + static_cast<std::size_t>(x)] = static_cast<std::int32_t>(0.5 + w * (1 << precision));
    }
    t.first.push_back(static_cast<std::int32_t>(low));
    t.count.push_back(static_cast<std::int32_t>(high - low));
  }
  return t;
}

std::uint8_t clip(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

// Rows of an image, each `stride` behind the one before, to rows `out` apart.
using Across = void (*)(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t* end, const Taps& taps, std::uint8_t* to, std::ptrdiff_t out);

template <int channels>
void across(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t*, const Taps& taps, std::uint8_t* to, std::ptrdiff_t out) {
  for (std::int64_t y = 0; y < lines; ++y)
    for (std::size_t i = 0; i < taps.first.size(); ++i) {
      const std::uint8_t* p = from + y * stride + static_cast<std::ptrdiff_t>(taps.first[i]) * channels;
      const std::int32_t* w = taps.weights.data() + i * taps.width;
      std::int32_t sum[channels];
      std::fill_n(sum, channels, 1 << (precision - 1));
      for (std::int32_t k = 0; k < taps.count[i]; ++k, p += channels)
        for (int c = 0; c < channels; ++c) sum[c] += p[c] * w[k];
      for (int c = 0; c < channels; ++c) to[y * out + static_cast<std::ptrdiff_t>(i) * channels + c] = clip(sum[c]);
    }
}

// Adds a row's share to the sums.
[[gnu::always_inline]] inline void add_row(const std::uint8_t* line, std::int32_t w, std::int32_t* sum, std::int64_t row) {
  for (std::int64_t x = 0; x < row; ++x) sum[x] += line[x] * w;
}
[[gnu::always_inline]] inline void clip_row(const std::int32_t* sum, std::uint8_t* to, std::int64_t row) {
  for (std::int64_t x = 0; x < row; ++x) to[x] = clip(sum[x]);
}

void add(const std::uint8_t* line, std::int32_t w, std::int32_t* sum, std::int64_t row) { add_row(line, w, sum, row); }
void clip_all(const std::int32_t* sum, std::uint8_t* to, std::int64_t row) { clip_row(sum, to, row); }

// The same sums by other instructions, where the machine has them.
struct Loops {
  Across across1, across3;
  void (*add)(const std::uint8_t* line, std::int32_t w, std::int32_t* sum, std::int64_t row);
  void (*clip)(const std::int32_t* sum, std::uint8_t* to, std::int64_t row);
};
constexpr Loops baseline{across<1>, across<3>, add, clip_all};
#if defined(__x86_64__)
// A pixel and the byte behind it are one vector; four rows at once, whose sums do not wait for one another.
[[gnu::target("avx2")]] void across3_avx2(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t* end, const Taps& taps, std::uint8_t* to, std::ptrdiff_t out) {
  constexpr int at_once = 4;
  std::int64_t y = 0;
  for (; y + at_once <= lines; y += at_once) {
    const std::uint8_t* const row = from + y * stride;
    if (end - row < at_once * stride + 1) break;  // the byte behind the last pixel would be beyond the image
    std::uint8_t* t = to + y * out;
    for (std::size_t i = 0; i < taps.first.size(); ++i, t += 3) {
      const std::uint8_t* p = row + static_cast<std::ptrdiff_t>(taps.first[i]) * 3;
      const std::int32_t* w = taps.weights.data() + i * taps.width;
      const __m128i half = _mm_set1_epi32(1 << (precision - 1));
      __m128i sum[at_once] = {half, half, half, half};
      for (std::int32_t k = 0; k < taps.count[i]; ++k, p += 3) {
        const __m128i weight = _mm_set1_epi32(w[k]);
        for (int l = 0; l < at_once; ++l) {
          std::int32_t pixel = 0;
          std::memcpy(&pixel, p + l * stride, sizeof pixel);
          sum[l] = _mm_add_epi32(sum[l], _mm_mullo_epi32(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(pixel)), weight));
        }
      }
      for (int l = 0; l < at_once; ++l) {
        const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum[l], precision), _mm_setzero_si128());
        const std::int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        std::memcpy(t + l * out, &bytes, 3);
      }
    }
  }
  across<3>(from + y * stride, stride, lines - y, end, taps, to + y * out, out);
}
[[gnu::target("avx2")]] void add_avx2(const std::uint8_t* line, std::int32_t w, std::int32_t* sum, std::int64_t row) { add_row(line, w, sum, row); }
[[gnu::target("avx2")]] void clip_avx2(const std::int32_t* sum, std::uint8_t* to, std::int64_t row) { clip_row(sum, to, row); }
constexpr Loops avx2{across<1>, across3_avx2, add_avx2, clip_avx2};
const Loops& loops() { return __builtin_cpu_supports("avx2") ? avx2 : baseline; }
#else
const Loops& loops() { return baseline; }
#endif

}  // namespace

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, Image& to) {
  resize_image(from, box, height, width, {0, 0, height, width}, to);
}

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, const Box& window, Image& to) {
  const std::int64_t c = from.channels, row = window.width * c;
  to.reshape(window.height, window.width, c);
  const bool across_too = width != box.width, down_too = height != box.height;
  const Taps down = down_too ? taps_of(box.height, height, window.top, window.height) : Taps{};
  const std::int64_t first = down_too ? down.first.front() : window.top;
  const std::int64_t lines = down_too ? down.first.back() + down.count.back() - first : window.height;  // that are needed
  thread_local std::vector<std::uint8_t> middle;  // [lines, row]
  thread_local std::vector<std::int32_t> sums;    // of one row of the output
  if (down_too) middle.resize(static_cast<std::size_t>(lines * row));
  std::uint8_t* const rows = down_too ? middle.data() : to.pixels.data();
  const Taps taps = across_too ? taps_of(box.width, width, window.left, window.width) : Taps{};
  const std::uint8_t* const start = from.pixels.data() + ((box.top + first) * from.width + box.left) * c;
  if (across_too)
    (c == 1 ? loops().across1 : loops().across3)(start, from.width * c, lines, from.pixels.data() + from.pixels.size(), taps, rows, row);
  else
    for (std::int64_t y = 0; y < lines; ++y) std::copy_n(start + (y * from.width + window.left) * c, row, rows + y * row);
  if (!down_too) return;
  sums.resize(static_cast<std::size_t>(row));
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (precision - 1));
    std::int32_t* const sum = sums.data();
    for (std::int32_t k = 0; k < down.count[y]; ++k) {
      const std::uint8_t* const line = rows + (down.first[y] - first + k) * row;
      const std::int32_t w = down.weights[y * down.width + static_cast<std::size_t>(k)];
      loops().add(line, w, sum, row);
    }
    std::uint8_t* const out = to.pixels.data() + static_cast<std::int64_t>(y) * row;
    loops().clip(sum, out, row);
  }
}

Box centre_box(std::int64_t height, std::int64_t width, std::int64_t box_height, std::int64_t box_width) {
  const auto half = [](std::int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); };  // Python's round(n / 2)
  return {half(height - box_height), half(width - box_width), box_height, box_width};
}

}  // namespace tandem
