// Kernel bodies are function objects, templated on the thread that runs them: nvcc runs them as __global__ functions,
// the emulation (kernels/cuda/emulation) on the host's threads. A body is
//
//   struct XBody {
//     static constexpr int threads = 256;         // of a block
//     static constexpr bool cooperative = false;  // true: uses sync, shuffle_xor or shared
//     ...pointers and sizes...
//     template <class Thread> TANDEM_DEVICE void operator()(const Thread& t) const;
//   };
//
// Grids are one-dimensional. All threads of a block reach every sync, all of a warp every shuffle.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_DEVICE __device__ __forceinline__
#else
#define TANDEM_DEVICE inline
#endif

namespace tandem::cuda {

#if defined(__CUDACC__)
struct GpuThread {
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ std::int64_t block() const { return blockIdx.x; }
  __device__ std::int64_t blocks() const { return gridDim.x; }
  __device__ void sync() const { __syncthreads(); }
  template <class T>
  __device__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  // Memory that the block shares; a kernel tells its arrays apart by their tags.
  template <class T, int Elements, int Tag>
  __device__ T* shared() const {
    // Bytes, since shared memory has no constructors.
    __shared__ alignas(16) unsigned char array[sizeof(T) * Elements];
    return reinterpret_cast<T*>(array);
  }
};
#endif

// Sum (or another associative operation) over a block's threads, the same on each of them and in every run.
template <int Threads, int Tag, class T, class Thread, class Combine>
TANDEM_DEVICE T combine_block(const Thread& t, T value, Combine combine) {
  for (int mask = 16; mask > 0; mask >>= 1) value = combine(value, t.shuffle_xor(value, mask));
  if constexpr (Threads > 32) {
    T* part = t.template shared<T, Threads / 32, Tag>();
    t.sync();  // the array may still be read from an earlier call
    if (t.thread() % 32 == 0) part[t.thread() / 32] = value;
    t.sync();
    value = part[0];
    for (int w = 1; w < Threads / 32; ++w) value = combine(value, part[w]);
  }
  return value;
}

}  // namespace tandem::cuda
