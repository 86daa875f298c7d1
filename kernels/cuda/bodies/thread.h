// Kernel bodies are function objects, templated on the thread that runs them: nvcc runs them as __global__ functions,
// the emulation (kernels/cuda/emulation) on the host's threads. A body is
//
//   struct XBody {
//     static constexpr int threads = 256;         // of a block
//     static constexpr bool cooperative = false;  // true: uses sync, shuffle_xor, shared or what a warp does as one
//     ...pointers and sizes...
//     template <class Thread> TANDEM_DEVICE void operator()(const Thread& t) const;
//   };
//
// Grids are one-dimensional. All threads of a block reach every sync, all of a warp every shuffle.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_DEVICE __device__ __forceinline__
#define TANDEM_DEVICE_CALL __device__ __noinline__
#else
#define TANDEM_DEVICE inline
#define TANDEM_DEVICE_CALL inline
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
  __device__ void sync_warp() const { __syncwarp(); }
  // c[16×8] += a[16×16]·b[16×8] by a warp, each thread holding a part of each, of Half or else BFloat16 (PTX: mma.m16n8k16).
  template <bool half>
  __device__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) const {
    if constexpr (half)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  // b of `multiply` from shared memory that holds its 16 rows: thread k below 16 gives where row k begins (PTX: ldmatrix).
  __device__ void load_columns(std::uint32_t (&b)[2], const void* row) const {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(address) : "memory");
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
