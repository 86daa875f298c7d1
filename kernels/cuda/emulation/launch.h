// Runs kernel bodies on the host, for tests. Under a sanitizer the threads of a cooperative body are threads of the system with
// real barriers, so that the thread sanitizer sees a missing sync; elsewhere they are fibers. Blocks run in an order that no body can go
// by, those of a cooperative body two at a time, which take turns at barriers. A launch fails (device) where an access of several elements
// does not lie as the device wants it (bodies/aligned.h).
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <memory>

#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda::emulation {

class Block;  // barriers, shuffles and shared memory of one block

struct HostThread {
  int index;
  std::int64_t block_index;
  std::int64_t block_count;
  Block* state;

  int thread() const { return index; }
  std::int64_t block() const { return block_index; }
  std::int64_t blocks() const { return block_count; }
  void sync() const;
  template <class T>
  T shuffle_xor(T value, int mask) const {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<T>(static_cast<Bits>(exchange(std::bit_cast<Bits>(value), mask)));
  }
  void sync_warp() const;
  template <bool half>
  void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) const {
    multiply(c, a, b, half);
  }
  void load_columns(std::uint32_t (&b)[2], const void* row) const;
  template <class T, int Elements, int Tag>
  T* shared() const {
    static const char array = 0;  // another for each type, length and tag, as on the device
    return static_cast<T*>(shared_bytes(&array, sizeof(T) * Elements));
  }

 private:
  std::uint64_t exchange(std::uint64_t bits, int mask) const;
  std::array<const void*, 32> gather(const void* own) const;  // what each thread of the warp gives
  void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bool half) const;
  void* shared_bytes(const void* array, std::size_t bytes) const;
};

// While it lives, a launch of this thread runs a few of its blocks at most: a third each of the first, the middle and the last. So bodies
// are tried on the grids of real shapes.
class Sample {
 public:
  explicit Sample(std::int64_t blocks);
  ~Sample();
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
};

// Every thread of every block; `cooperative`: the threads of a block at the same time.
void run_threads(int threads, std::int64_t blocks, bool cooperative, const std::function<void(const HostThread&)>& body);

template <class Body>
void run(const Body& body, std::int64_t blocks) {
  run_threads(Body::threads, blocks, Body::cooperative, [&](const HostThread& t) { body(t); });
}

}  // namespace tandem::cuda::emulation
