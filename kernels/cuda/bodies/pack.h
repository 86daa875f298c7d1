// Elements that a thread reads or writes as one: 16 bytes at a time where the packs are that large.
#pragma once
#include "kernels/cuda/bodies/aligned.h"
#include "kernels/cuda/bodies/types.h"

// Asks nvcc to unroll a loop, TANDEM_UNROLL(unroll 4), so that as many loads are under way.
#if defined(__CUDACC__)
#define TANDEM_UNROLL(what) _Pragma(#what)
#else
#define TANDEM_UNROLL(what)
#endif

namespace tandem::cuda {

template <class T, int width>
struct alignas(width * sizeof(T) < 16 ? width * sizeof(T) : 16) Pack {
  T v[width];
};
template <class T>
inline constexpr int full_pack = static_cast<int>(16 / sizeof(T));

// Pack `i` of an array.
template <int width, class T>
TANDEM_DEVICE Pack<T, width> read_pack(const T* from, std::int64_t i) {
  return as_aligned<const Pack<T, width>>(from)[i];
}
template <int width, class T>
TANDEM_DEVICE void write_pack(T* to, std::int64_t i, const Pack<T, width>& pack) {
  as_aligned<Pack<T, width>>(to)[i] = pack;
}

// A pack from element `i` on, a multiple of its width.
template <int width, class T>
TANDEM_DEVICE Pack<T, width> read_at(const T* from, std::int64_t i) {
  return *as_aligned<const Pack<T, width>>(from + i);
}
template <class T, int width>
TANDEM_DEVICE void write_at(T* to, std::int64_t i, const Pack<T, width>& pack) {
  *as_aligned<Pack<T, width>>(to + i) = pack;
}

}  // namespace tandem::cuda
