// Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

constexpr int group = 16;  // counters side by side

void rounds(uint32_t (&c)[4][group], const uint32_t* key) {
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < group; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][i], p1 = uint64_t{0xCD9E8D57u} * c[2][i];
      const uint32_t c1 = c[1][i], c3 = c[3][i];
      c[0][i] = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c[1][i] = static_cast<uint32_t>(p1);
      c[2][i] = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c[3][i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

void set_counters(uint32_t (&c)[4][group], const uint64_t (&number)[group], const uint32_t* high) {
  for (int i = 0; i < group; ++i) {
    c[0][i] = static_cast<uint32_t>(number[i]);
    c[1][i] = static_cast<uint32_t>(number[i] >> 32);
    c[2][i] = high[0];
    c[3][i] = high[1];
  }
}

}  // namespace

void philox_run(uint32_t* words, int64_t first, int64_t n, const PhiloxState& state) {
  uint32_t c[4][group];
  for (int64_t i = 0; i < n;) {
    uint64_t number[group];
    const uint64_t begin = static_cast<uint64_t>(first + i);
    for (int k = 0; k < group; ++k) number[k] = begin / 4 + static_cast<uint64_t>(k);
    set_counters(c, number, state.counter_high);
    rounds(c, state.key);
    uint32_t all[4 * group];
    for (int k = 0; k < group; ++k)
      for (int word = 0; word < 4; ++word) all[4 * k + word] = c[word][k];
    for (int k = static_cast<int>(begin % 4); k < 4 * group && i < n; ++k, ++i) words[i] = all[k];
  }
}

void philox_at(uint32_t* words, const int64_t* elements, int64_t n, const PhiloxState& state) {
  uint32_t c[4][group];
  for (int64_t i = 0; i < n; i += group) {
    uint64_t number[group];
    const int count = static_cast<int>(n - i < group ? n - i : group);
    for (int k = 0; k < group; ++k) number[k] = static_cast<uint64_t>(elements[k < count ? i + k : i]) / 4;
    set_counters(c, number, state.counter_high);
    rounds(c, state.key);
    for (int k = 0; k < count; ++k) words[i + k] = c[elements[i + k] % 4][k];
  }
}

namespace {

// y = kept ? x·scale : 0, by one random word an element.
template <class T>
void drop(const T* x, T* y, std::uint8_t* mask, const uint32_t* words, int64_t n, uint32_t threshold, T scale) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) mask[i] = words[i] >= threshold;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = words[i] >= threshold ? x[i] * scale : T(0);
}
template <class T>
void drop_backward(const T* dy, T* dx, const std::uint8_t* mask, int64_t n, T scale) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = mask[i] != 0 ? dy[i] * scale : T(0);
}

}  // namespace

template <class T>
const Dropping<T>& dropping() {
  static constexpr Dropping<T> all = {drop<T>, drop_backward<T>};
  return all;
}
template const Dropping<float>& dropping<float>();
template const Dropping<double>& dropping<double>();

}  // namespace tandem::vector::TANDEM_ISA
