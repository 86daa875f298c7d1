#include "kernels/cuda/emulation/launch.h"

#include <array>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "graph/error.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {

void launch_failed(int status) { fail(ExitCode::device, "CUDA: launch a kernel: status ", status); }

namespace emulation {
namespace {
constexpr int warp_size = 32;
constexpr int tags = 16;
}  // namespace

class Block {
 public:
  explicit Block(int threads) : all(threads) {
    for (int first = 0; first < threads; first += warp_size)
      warps.push_back(std::make_unique<Warp>(std::min(warp_size, threads - first)));
  }

  struct Warp {
    explicit Warp(int lanes) : barrier(lanes) {}
    std::barrier<> barrier;
    std::array<std::uint64_t, warp_size> lanes{};
  };
  std::barrier<> all;
  std::vector<std::unique_ptr<Warp>> warps;
  std::mutex lock;
  std::array<std::unique_ptr<std::byte[]>, tags> arrays;
};

void HostThread::sync() const { state->all.arrive_and_wait(); }

std::uint64_t HostThread::exchange(std::uint64_t bits, int mask) const {
  Block::Warp& warp = *state->warps[static_cast<std::size_t>(index / warp_size)];
  const auto lane = static_cast<std::size_t>(index % warp_size);
  warp.lanes[lane] = bits;
  warp.barrier.arrive_and_wait();
  const std::uint64_t other = warp.lanes[lane ^ static_cast<std::size_t>(mask)];
  warp.barrier.arrive_and_wait();
  return other;
}

void* HostThread::shared_bytes(int tag, std::size_t bytes) const {
  const std::scoped_lock hold(state->lock);
  auto& array = state->arrays[static_cast<std::size_t>(tag)];
  // On the device it holds whatever was there before: NaNs make a read before the first write visible.
  if (!array) {
    array = std::make_unique<std::byte[]>(bytes);
    std::memset(array.get(), 0xff, bytes);
  }
  return array.get();
}

void run_threads(int threads, std::int64_t blocks, bool cooperative, const std::function<void(const HostThread&)>& body) {
  // Threads of a block that do not cooperate run in any order: four system threads show what they share.
  const int workers = cooperative ? threads : 4;
  Block state(threads);
  std::barrier next(workers);
  std::vector<std::jthread> pool;
  for (int w = 0; w < workers; ++w)
    pool.emplace_back([&, w] {
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (int t = w; t < threads; t += workers) body(HostThread{t, b, blocks, &state});
        if (cooperative) next.arrive_and_wait();
      }
    });
}

}  // namespace emulation
}  // namespace tandem::cuda
