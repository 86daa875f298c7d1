// Starts a body's threads on the host: threads of the system, which the sanitizers understand, or fibers, which are many times faster.
#include "kernels/cuda/emulation/launch.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/emulation/fibers.h"
#include "kernels/cuda/emulation/system_threads.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {

void launch_failed(int status) { fail(ExitCode::device, "CUDA: launch a kernel: status ", status); }

namespace emulation {
namespace {
constexpr int warp_size = 32;
// Of two blocks at the same time they have so many threads at most.
#ifdef TANDEM_SANITIZED
using Pool = SystemThreads;
using Barrier = SystemBarrier;
constexpr int most_threads = 512;
#else
using Pool = Fibers;
using Barrier = FiberBarrier;
constexpr int most_threads = 1024;
#endif
thread_local std::int64_t most_blocks = 0;  // 0: all
}  // namespace

Sample::Sample(std::int64_t blocks) { most_blocks = blocks; }
Sample::~Sample() { most_blocks = 0; }

class Block {
 public:
  explicit Block(int threads) : all(threads) {
    for (int first = 0; first < threads; first += warp_size)
      warps.push_back(std::make_unique<Warp>(std::min(warp_size, threads - first)));
  }

  struct Warp {
    explicit Warp(int lanes) : barrier(lanes) {}
    Barrier barrier;
    // Two rows in turn: who is fast enough for the next exchange writes where nobody reads any more.
    std::array<std::array<std::uint64_t, 2>, warp_size> lanes{};
    std::array<std::size_t, warp_size> row{};  // each lane's own
  };
  Barrier all;
  std::vector<std::unique_ptr<Warp>> warps;
  std::mutex lock;
  struct Array {
    const void* name;
    std::size_t size;
    std::unique_ptr<std::byte[]> bytes;
    // On the device it holds whatever was there before: NaNs make a read before the first write visible.
    void poison() const { std::memset(bytes.get(), 0xff, size); }
  };
  std::vector<Array> arrays;
};

void HostThread::sync() const { state->all.arrive_and_wait(); }

std::uint64_t HostThread::exchange(std::uint64_t bits, int mask) const {
  Block::Warp& warp = *state->warps[static_cast<std::size_t>(index / warp_size)];
  const auto lane = static_cast<std::size_t>(index % warp_size);
  const std::size_t row = warp.row[lane] ^= 1;
  warp.lanes[lane][row] = bits;
  warp.barrier.arrive_and_wait();
  return warp.lanes[lane ^ static_cast<std::size_t>(mask)][row];
}

std::array<const void*, 32> HostThread::gather(const void* own) const {
  Block::Warp& warp = *state->warps[static_cast<std::size_t>(index / warp_size)];
  const auto lane = static_cast<std::size_t>(index % warp_size);
  const std::size_t row = warp.row[lane] ^= 1;
  warp.lanes[lane][row] = reinterpret_cast<std::uint64_t>(own);
  warp.barrier.arrive_and_wait();
  std::array<const void*, 32> all;
  for (std::size_t l = 0; l < all.size(); ++l) all[l] = reinterpret_cast<const void*>(warp.lanes[l][row]);
  return all;
}

void HostThread::sync_warp() const { state->warps[static_cast<std::size_t>(index / warp_size)]->barrier.arrive_and_wait(); }

// Thread 4·g + q holds the pairs of elements 2q, 2q+1 and 2q+8, 2q+9 of rows g and g + 8 of a, of column g of b, and the pair 2q, 2q+1
// of rows g and g + 8 of c (PTX ISA, "Matrix fragments for mma.m16n8k16").
void HostThread::multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bool half) const {
  struct Parts {
    std::uint32_t a[4], b[2];
  } const own{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const std::array<const void*, 32> all = gather(&own);
  const auto number = [&](std::uint32_t pair, int k) {
    const auto bits = static_cast<std::uint16_t>(pair >> (k % 2 * 16));
    return half ? to_float(Half{bits}) : to_float(BFloat16{bits});
  };
  const int lane = index % warp_size;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int quarter = k % 8 / 2;
      const auto& of_row = *static_cast<const Parts*>(all[static_cast<std::size_t>(row % 8 * 4 + quarter)]);
      const auto& of_column = *static_cast<const Parts*>(all[static_cast<std::size_t>(column * 4 + quarter)]);
      c[i] += number(of_row.a[row / 8 + k / 8 * 2], k) * number(of_column.b[k / 8], k);
    }
  }
  sync_warp();  // the others still read what this thread holds
}

void HostThread::load_columns(std::uint32_t (&b)[2], const void* row) const {
  as_aligned<const Pack<std::uint32_t, 4>>(row);  // of 8 elements
  const std::array<const void*, 32> rows = gather(row);
  const int lane = index % warp_size;
  for (int i = 0; i < 2; ++i) {
    const auto first = static_cast<std::size_t>(lane % 4 * 2 + i * 8);
    const auto at = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(rows[k])[lane / 4]); };
    b[i] = at(first) | at(first + 1) << 16;
  }
}

void* HostThread::shared_bytes(const void* name, std::size_t bytes) const {
  const std::scoped_lock hold(state->lock);
  for (const Block::Array& a : state->arrays)
    if (a.name == name) return a.bytes.get();
  const Block::Array& made = state->arrays.emplace_back(Block::Array{name, bytes, std::make_unique<std::byte[]>(bytes)});
  made.poison();
  return made.bytes.get();
}

namespace {

// The blocks of a launch that are run, in an order that differs from launch to launch and is the same in every run of a program.
class Blocks {
 public:
  explicit Blocks(std::int64_t blocks) : all_(blocks), count_(most_blocks > 0 ? std::min(blocks, most_blocks) : blocks) {
    thread_local std::mt19937_64 random(1);
    if (count_ < 2) return;
    const auto below = [](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    first_ = below(count_);
    do stride_ = 1 + below(count_ - 1);
    while (std::gcd(stride_, count_) != 1);
  }
  std::int64_t count() const { return count_; }
  std::int64_t operator[](std::int64_t i) const {
    const std::int64_t n = (first_ + i * stride_) % count_;
    if (count_ == all_) return n;
    const std::int64_t third = count_ / 3;
    return n < third ? n : n < 2 * third ? all_ / 2 + n - third : all_ - count_ + n;
  }

 private:
  std::int64_t all_, count_, first_ = 0, stride_ = 1;
};

}  // namespace

void run_threads(int threads, std::int64_t blocks, bool cooperative, const std::function<void(const HostThread&)>& body) {
  const Blocks chosen(blocks);
  thread_local Pool pool;  // each thread that launches has its own
  if (cooperative) {
    // Two places for blocks, of two states by turns: while a block runs in one, the other is poisoned for the next block.
    const int places = chosen.count() > 1 && 2 * threads <= most_threads ? 2 : 1;
    std::vector<std::unique_ptr<Block>> states;
    for (int i = 0; i < 2 * places; ++i) states.push_back(std::make_unique<Block>(threads));
    Barrier next(places * threads);
    pool.run(places * threads, [&](int w) {
      const int place = w / threads, t = w % threads;
      for (std::int64_t round = 0; round * places < chosen.count(); ++round) {
        Block* const state = states[static_cast<std::size_t>(2 * place + round % 2)].get();
        if (t == 0)
          for (const Block::Array& a : states[static_cast<std::size_t>(2 * place + (round + 1) % 2)]->arrays) a.poison();
        if (const std::int64_t i = round * places + place; i < chosen.count()) body(HostThread{t, chosen[i], blocks, state});
        next.arrive_and_wait();
      }
    });
  } else {
    // Such threads run in any order: a sanitizer sees what four of them share.
    constexpr int workers = 4;
    Block state(threads);
    pool.run(workers, [&](int w) {
      for (std::int64_t i = 0; i < chosen.count(); ++i)
        for (int t = w; t < threads; t += workers) body(HostThread{t, chosen[i], blocks, &state});
    });
  }
  if (const std::size_t bytes = misaligned.exchange(0))
    fail(ExitCode::device, "a kernel reads or writes several elements at an address that is no multiple of ", bytes);
}

}  // namespace emulation
}  // namespace tandem::cuda
