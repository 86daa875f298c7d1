// Philox4x32-10: four random words of a counter and a key.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once
#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

struct Philox {
  std::uint32_t counter[4];
  std::uint32_t key[2];
  TANDEM_DEVICE void run() {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0], b = std::uint64_t{0xCD9E8D57U} * counter[2];
      const std::uint32_t c1 = counter[1], c3 = counter[3];
      counter[0] = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key[0];
      counter[1] = static_cast<std::uint32_t>(b);
      counter[2] = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key[1];
      counter[3] = static_cast<std::uint32_t>(a);
      key[0] += 0x9E3779B9U;
      key[1] += 0xBB67AE85U;
    }
  }
  // One of the words, which stay in registers.
  TANDEM_DEVICE std::uint32_t word(int i) const { return i < 2 ? (i == 0 ? counter[0] : counter[1]) : i == 2 ? counter[2] : counter[3]; }
};

}  // namespace tandem::cuda
