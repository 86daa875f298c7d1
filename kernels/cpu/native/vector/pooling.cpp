// Maxima over windows and their gradient, where channels lie side by side: lanes are channels.
#include "kernels/cpu/native/vector/lanes.h"
#include "kernels/cpu/native/vector/parts.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

// A byte for each lane. (Compilers convert such vectors a lane at a time.)
#if defined(__AVX512F__)
Words load(const std::uint8_t* p) {
  return reinterpret_cast<Words>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
void store(std::uint8_t* p, Words v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v)));
}
#elif defined(__AVX2__)
Words load(const std::uint8_t* p) {
  return reinterpret_cast<Words>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
void store(std::uint8_t* p, Words v) {
  const auto words = reinterpret_cast<__m256i>(v);
  const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
}
#else
using Bytes [[gnu::vector_size(lanes), gnu::aligned(1), gnu::may_alias]] = std::uint8_t;
Words load(const std::uint8_t* p) { return __builtin_convertvector(*reinterpret_cast<const Bytes*>(p), Words); }
void store(std::uint8_t* p, Words v) { *reinterpret_cast<Bytes*>(p) = __builtin_convertvector(v, Bytes); }
#endif

// Calls body(from, to, taps) for whole vectors of each place's channels; the last one may begin within the one before.
template <class T, class Body>
void for_each_vector(const PooledRun& r, int64_t taps_step, const Body& body) {
  const T* from = static_cast<const T*>(r.from);
  T* to = static_cast<T*>(r.to);
  std::uint8_t* taps = r.taps;
  const int64_t channels = r.channels, from_step = r.from_step, to_step = r.to_step;
  for (int64_t place = r.places; place > 0; --place, from += from_step, to += to_step, taps += taps_step) {
    int64_t channel = 0;
    for (; channel + lanes <= channels; channel += lanes) body(from + channel, to + channel, taps + channel);
    channel = channels - lanes;
    if (channels % lanes != 0) body(from + channel, to + channel, taps + channel);
  }
}

template <class T, bool keep>
void largest_of(const PooledRun& r) {
  for_each_vector<T>(r, keep ? r.to_step : 0,
                     [offsets = r.offsets, numbers = r.numbers, count = r.count](const T* from, T* to, std::uint8_t* taps) {
                       Lanes best = load(from + offsets[0]);
                       Words tap = Words{} + numbers[0];
                       for (int64_t t = 1; t < count; ++t) {
                         const Lanes x = load(from + offsets[t]);
                         const auto larger = (x > best) | (x != x);  // NaN stays
                         best = larger ? x : best;
                         if constexpr (keep) tap = larger ? Words{} + numbers[t] : tap;
                       }
                       store(to, best);
                       if constexpr (keep) store(taps, tap);
                     });
}
template <class T>
void largest(const PooledRun& r) {
  (r.taps ? largest_of<T, true> : largest_of<T, false>)(r);
}

// What came by one of so many taps; 0: by any number of them.
template <class T, int some>
void spread_by(const PooledRun& r) {
  int64_t offset[some + 1] = {};
  std::uint8_t number[some + 1] = {};
  for (int t = 0; t < some; ++t) offset[t] = r.offsets[t], number[t] = r.numbers[t];
  const int64_t* const offsets = some ? offset : r.offsets;
  const std::uint8_t* const numbers = some ? number : r.numbers;
  const int64_t count = some ? some : r.count;
  for_each_vector<T>(r, r.from_step, [&](const T* from, T* to, const std::uint8_t* taps) {
    Lanes sum{};
#pragma GCC unroll 4
    for (int64_t t = 0; t < count; ++t) {
      const Lanes dy = load(from + offsets[t]);
      sum += load(taps + offsets[t]) == Words{} + numbers[t] ? dy : Lanes{};
    }
    store(to, sum);
  });
}
template <class T>
void spread(const PooledRun& r) {
  constexpr void (*by[])(const PooledRun&) = {spread_by<T, 0>, spread_by<T, 1>, spread_by<T, 2>, spread_by<T, 0>, spread_by<T, 4>};
  by[r.count <= 4 ? r.count : 0](r);
}

}  // namespace

const Pooling& pooling() {
  static constexpr Pooling all = {lanes, {largest<float>, largest<std::uint16_t>}, {spread<float>, spread<std::uint16_t>}};
  return all;
}

}  // namespace tandem::vector::TANDEM_ISA
