// Source: Pillow's Resample.c: coefficients in 22 bits, a horizontal pass into 8 bits, then a vertical one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "data/image.h"

namespace tandem {
namespace {

constexpr int precision = 32 - 8 - 2;

// What each output takes: weights[i · width ...] of inputs first[i] ... first[i] + count[i] - 1.
struct Taps {
  std::vector<std::int32_t> first, count, weights;
  std::size_t width = 0;
};

// What a value at distance x counts, of as far as `support`.
struct Curve {
  double support;
  double (*at)(double x);
};
constexpr Curve curves[] = {  // by Filter
    {1, [](double x) { return std::max(0.0, 1 - std::abs(x)); }},
    {2,
     [](double x) {  // Keys' cubic, a = -1/2
       constexpr double a = -0.5;
       x = std::abs(x);
       return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
     }},
};

// Of outputs begin ... begin + wanted - 1 of `to`.
Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t wanted, Filter filter) {
  const Curve& curve = curves[static_cast<std::size_t>(filter)];
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(1.0, scale),
               support = curve.support * stretch;
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
      const double w = curve.at((static_cast<double>(x) - centre + 0.5) * (1 / stretch));
      weights[static_cast<std::size_t>(x - low)] = w;
      sum += w;
    }
    for (std::int64_t x = 0; x < high - low; ++x) {
      const double w = weights[static_cast<std::size_t>(x)] / (sum != 0 ? sum : 1);
      t.weights[static_cast<std::size_t>(i) * t.width + static_cast<std::size_t>(x)] =
          static_cast<std::int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << precision));
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
using Across = void (*)(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t* end, const Taps& taps,
                        std::uint8_t* to, std::ptrdiff_t out);

template <int channels>
void across(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t*, const Taps& taps, std::uint8_t* to,
            std::ptrdiff_t out) {
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

// Values x ... of a row of the result: lines, `row` apart, by their weights.
void down_from(std::int64_t x, const std::uint8_t* lines, std::int64_t row, std::span<const std::int32_t> weights, std::uint8_t* to) {
  constexpr std::int64_t chunk = 256;
  for (; x < row; x += chunk) {
    std::int32_t sums[chunk];
    const std::int64_t size = std::min(chunk, row - x);
    std::fill_n(sums, size, 1 << (precision - 1));
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const std::uint8_t* const line = lines + static_cast<std::int64_t>(k) * row + x;
      for (std::int64_t i = 0; i < size; ++i) sums[i] += line[i] * weights[k];
    }
    for (std::int64_t i = 0; i < size; ++i) to[x + i] = clip(sums[i]);
  }
}
void down(const std::uint8_t* lines, std::int64_t row, std::span<const std::int32_t> weights, std::uint8_t* to) {
  down_from(0, lines, row, weights, to);
}

// The same sums by other instructions, where the machine has them.
struct Loops {
  Across across1, across3;
  void (*down)(const std::uint8_t* lines, std::int64_t row, std::span<const std::int32_t> weights, std::uint8_t* to);
};
constexpr Loops baseline{across<1>, across<3>, down};
#if defined(__x86_64__)
// Weights as two numbers of 16 bits, high · 2^11 + low: products of two pixels are summed at once, and exactly.
constexpr int low_bits = 11;
std::int32_t pair_of(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) & 0xFFFF) | static_cast<std::int32_t>(static_cast<std::uint32_t>(b) << 16);
}
struct Pair {
  std::int32_t high, low;
};
Pair split_pair(std::int32_t a, std::int32_t b) {
  constexpr std::int32_t mask = (1 << low_bits) - 1;
  return {pair_of(a >> low_bits, b >> low_bits), pair_of(a & mask, b & mask)};
}

inline __m128i load(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

struct Sums {
  __m256i high, low;
};
[[gnu::target("avx2"), gnu::always_inline]] inline void add_products(Sums& s, __m256i words, Pair w) {
  s.high = _mm256_add_epi32(s.high, _mm256_madd_epi16(words, _mm256_set1_epi32(w.high)));
  s.low = _mm256_add_epi32(s.low, _mm256_madd_epi16(words, _mm256_set1_epi32(w.low)));
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i rounded(const Sums& s) {
  return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(s.high, low_bits), s.low), precision);
}

// A lane is a row; four rows at once. Of 16 bytes four pixels are used.
[[gnu::target("avx2")]] void across3_avx2(const std::uint8_t* from, std::ptrdiff_t stride, std::int64_t lines, const std::uint8_t* end,
                                          const Taps& taps, std::uint8_t* to, std::ptrdiff_t out) {
  constexpr int at_once = 4, beyond = 16;
  const std::size_t outputs = taps.first.size(), quads = (taps.width + 3) / 4;
  std::vector<Pair> weights(outputs * quads * 2);
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t k = 0; k < quads * 2; ++k) {
      const auto weight = [&](std::size_t tap) {
        return tap < static_cast<std::size_t>(taps.count[i]) ? taps.weights[i * taps.width + tap] : 0;
      };
      weights[i * quads * 2 + k] = split_pair(weight(2 * k), weight(2 * k + 1));
    }
  const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i second = _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  std::int64_t y = 0;
  for (; y + at_once <= lines; y += at_once) {
    const std::uint8_t* const row = from + y * stride;
    if (end - row < at_once * stride + beyond) break;  // bytes behind the last pixels would be beyond the image
    std::uint8_t* t = to + y * out;
    for (std::size_t i = 0; i < outputs; ++i, t += 3) {
      const std::uint8_t* p = row + static_cast<std::ptrdiff_t>(taps.first[i]) * 3;
      const Pair* w = weights.data() + i * quads * 2;
      Sums sums[2];
      for (Sums& s : sums) s = {_mm256_setzero_si256(), _mm256_set1_epi32(1 << (precision - 1))};
      for (std::int32_t k = 0; k < taps.count[i]; k += 4, p += 12, w += 2)
        for (int l = 0; l < 2; ++l) {
          const __m256i pixels =
              _mm256_inserti128_si256(_mm256_castsi128_si256(load(p + 2 * l * stride)), load(p + (2 * l + 1) * stride), 1);
          add_products(sums[l], _mm256_shuffle_epi8(pixels, first), w[0]);
          add_products(sums[l], _mm256_shuffle_epi8(pixels, second), w[1]);
        }
      const __m256i words = _mm256_packs_epi32(rounded(sums[0]), rounded(sums[1])), bytes = _mm256_packus_epi16(words, words);
      const std::int64_t even = _mm_cvtsi128_si64(_mm256_castsi256_si128(bytes)),
                         odd = _mm_cvtsi128_si64(_mm256_extracti128_si256(bytes, 1));
      const std::int64_t rows[at_once] = {even, odd, even >> 32, odd >> 32};
      for (int l = 0; l < at_once; ++l)  // the byte behind a pixel is written again, but for a line's last
        if (i + 1 < outputs)
          std::memcpy(t + l * out, &rows[l], 4);
        else
          std::memcpy(t + l * out, &rows[l], 3);
    }
  }
  across<3>(from + y * stride, stride, lines - y, end, taps, to + y * out, out);
}
[[gnu::target("avx2")]] void down_avx2(const std::uint8_t* lines, std::int64_t row, std::span<const std::int32_t> weights,
                                       std::uint8_t* to) {
  std::int64_t x = 0;
  for (; x + 16 <= row; x += 16) {
    Sums sums[2];
    for (Sums& s : sums) s = {_mm256_setzero_si256(), _mm256_set1_epi32(1 << (precision - 1))};
    for (std::size_t k = 0; k < weights.size(); k += 2) {
      const bool two = k + 1 < weights.size();
      const std::uint8_t* const line = lines + static_cast<std::int64_t>(k) * row + x;
      const __m256i a = _mm256_cvtepu8_epi16(load(line)), b = _mm256_cvtepu8_epi16(load(two ? line + row : line));
      const Pair w = split_pair(weights[k], two ? weights[k + 1] : 0);
      add_products(sums[0], _mm256_unpacklo_epi16(a, b), w);
      add_products(sums[1], _mm256_unpackhi_epi16(a, b), w);
    }
    const __m256i words = _mm256_packs_epi32(rounded(sums[0]), rounded(sums[1]));  // in order again
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + x), _mm256_castsi256_si128(bytes));
  }
  down_from(x, lines, row, weights, to);
}
constexpr Loops avx2{across<1>, across3_avx2, down_avx2};
const Loops& loops() { return __builtin_cpu_supports("avx2") ? avx2 : baseline; }
#else
const Loops& loops() { return baseline; }
#endif

}  // namespace

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, Image& to, Filter filter) {
  resize_image(from, box, height, width, {0, 0, height, width}, to, filter);
}

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, const Box& window, Image& to, Filter filter) {
  const std::int64_t c = from.channels, row = window.width * c;
  to.reshape(window.height, window.width, c);
  const bool across_too = width != box.width, down_too = height != box.height;
  const Taps down = down_too ? taps_of(box.height, height, window.top, window.height, filter) : Taps{};
  const std::int64_t first = down_too ? down.first.front() : window.top;
  const std::int64_t lines = down_too ? down.first.back() + down.count.back() - first : window.height;  // that are needed
  thread_local std::vector<std::uint8_t> middle;  // [lines, row]
  if (down_too) middle.resize(static_cast<std::size_t>(lines * row));
  std::uint8_t* const rows = down_too ? middle.data() : to.pixels.data();
  const Taps taps = across_too ? taps_of(box.width, width, window.left, window.width, filter) : Taps{};
  const std::uint8_t* const start = from.pixels.data() + ((box.top + first) * from.width + box.left) * c;
  if (across_too)
    (c == 1 ? loops().across1 : loops().across3)(start, from.width * c, lines, from.pixels.data() + from.pixels.size(), taps, rows, row);
  else
    for (std::int64_t y = 0; y < lines; ++y) std::copy_n(start + (y * from.width + window.left) * c, row, rows + y * row);
  if (!down_too) return;
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    const std::span weights(down.weights.data() + y * down.width, static_cast<std::size_t>(down.count[y]));
    loops().down(rows + (down.first[y] - first) * row, row, weights, to.pixels.data() + static_cast<std::int64_t>(y) * row);
  }
  constexpr std::size_t kept = std::size_t{16} << 20;
  if (middle.capacity() > kept) std::vector<std::uint8_t>().swap(middle);  // of an image that was larger than others
}

Box centre_box(std::int64_t height, std::int64_t width, std::int64_t box_height, std::int64_t box_width) {
  const auto half = [](std::int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); };  // Python's round(n / 2)
  return {half(height - box_height), half(width - box_width), box_height, box_width};
}

}  // namespace tandem
