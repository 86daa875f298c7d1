// Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#include "kernels/cpu/native/vector/parts.h"

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

}  // namespace

void philox_run(uint32_t* words, int64_t first, int64_t n, const PhiloxState& state) {
  const PhiloxState s = state;
  for (int64_t i = 0; i < n;) i += n - i > 128 ? philox_group<64>(words + i, first + i, n - i, s) : philox_group<16>(words + i, first + i, n - i, s);
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
