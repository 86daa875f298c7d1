// Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#include "kernels/cpu/native/vector/parts.h"
#include "kernels/cpu/native/vector/wide.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

struct Words {
  uint32_t w[4];
};

inline Words philox(uint64_t number, const PhiloxState& state) {
  uint32_t c0 = static_cast<uint32_t>(number), c1 = static_cast<uint32_t>(number >> 32);
  uint32_t c2 = state.counter_high[0], c3 = state.counter_high[1], k0 = state.key[0], k1 = state.key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The words of `group` counters side by side; gives how many of them were wanted.
template <int group>
int64_t philox_group(uint32_t* words, int64_t first, int64_t left, const PhiloxState& s) {
  const uint64_t begin = static_cast<uint64_t>(first), number = begin / 4;
  uint32_t all[4 * group];
  for (int k = 0; k < group; ++k) {
    const Words w = philox(number + static_cast<uint64_t>(k), s);
    for (int word = 0; word < 4; ++word) all[4 * k + word] = w.w[word];
  }
  const int64_t skip = static_cast<int64_t>(begin % 4), have = 4 * group - skip;
  const int64_t count = left < have ? left : have;
  for (int64_t k = 0; k < count; ++k) words[k] = all[skip + k];
  return count;
}

#ifdef TANDEM_WIDE
constexpr int counters = 8, groups = 4;  // side by side, one in each 64 bits of a vector; vectors at a time

// The words of the next counters. Only the lower half of a product's factors is read, and what lies above a word is not cleared.
void philox_vectors(uint32_t* words, uint64_t number, const PhiloxState& s) {
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  __m512i c0[groups], c1[groups], c2[groups], c3[groups];
  for (int g = 0; g < groups; ++g) {
    c0[g] = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(number) + g * counters), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    c1[g] = _mm512_srli_epi64(c0[g], 32);
    c2[g] = _mm512_set1_epi64(s.counter_high[0]);
    c3[g] = _mm512_set1_epi64(s.counter_high[1]);
  }
  uint32_t k0 = s.key[0], k1 = s.key[1];
  for (int round = 0; round < 10; ++round) {
    const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 4
    for (int g = 0; g < groups; ++g) {
      const __m512i p0 = _mm512_mul_epu32(c0[g], m0), p1 = _mm512_mul_epu32(c2[g], m1);
      c0[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1[g], key0, 0x96);
      c1[g] = p1;
      c2[g] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[g], key1, 0x96);
      c3[g] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m512i lower = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), upper = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  for (int g = 0; g < groups; ++g) {
    const __m512i c01 = _mm512_mask_shuffle_epi32(c0[g], 0xaaaa, c1[g], _MM_PERM_CCAA),
                  c23 = _mm512_mask_shuffle_epi32(c2[g], 0xaaaa, c3[g], _MM_PERM_CCAA);
    _mm512_storeu_si512(words + 4 * counters * g, _mm512_permutex2var_epi64(c01, lower, c23));
    _mm512_storeu_si512(words + 4 * counters * g + 2 * counters, _mm512_permutex2var_epi64(c01, upper, c23));
  }
}
#endif

}  // namespace

void philox_run(uint32_t* words, int64_t first, int64_t n, const PhiloxState& state) {
  const PhiloxState s = state;
  int64_t i = 0;
#ifdef TANDEM_WIDE
  constexpr int64_t step = 4 * counters * groups;
  if (first % 4 == 0)
    for (; i + step <= n; i += step) philox_vectors(words + i, static_cast<uint64_t>(first + i) / 4, s);
#endif
  while (i < n) i += n - i > 128 ? philox_group<64>(words + i, first + i, n - i, s) : philox_group<16>(words + i, first + i, n - i, s);
}

void philox_at(uint32_t* words, const int64_t* elements, int64_t n, const PhiloxState& state) {
  const PhiloxState s = state;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Words w = philox(static_cast<uint64_t>(elements[i]) / 4, s);
    const int64_t which = elements[i] & 3;
    words[i] = which < 2 ? (which == 0 ? w.w[0] : w.w[1]) : (which == 2 ? w.w[2] : w.w[3]);
  }
}

namespace {

template <class T>
void drop(const T* x, T* y, const uint32_t* words, int64_t n, uint32_t threshold, T scale) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = words[i] >= threshold ? x[i] * scale : T(0);
}
#ifdef TANDEM_WIDE
template <>
void drop<float>(const float* x, float* y, const uint32_t* words, int64_t n, uint32_t threshold, float scale) {
  const __m512i limit = _mm512_set1_epi32(static_cast<int>(threshold));
  for (int64_t i = 0; i < n; i += Wide::lanes) {
    const __mmask16 there = n - i < Wide::lanes ? Wide::first(static_cast<int>(n - i)) : static_cast<__mmask16>(-1);
    const __mmask16 kept = _mm512_mask_cmpge_epu32_mask(there, _mm512_maskz_loadu_epi32(there, words + i), limit);
    _mm512_mask_storeu_ps(y + i, there, _mm512_maskz_mul_ps(kept, _mm512_maskz_loadu_ps(kept, x + i), _mm512_set1_ps(scale)));
  }
}
#endif

}  // namespace

template <class T>
Drop<T>* dropping() {
  return drop<T>;
}
template Drop<float>* dropping<float>();
template Drop<double>* dropping<double>();

}  // namespace tandem::vector::TANDEM_ISA
