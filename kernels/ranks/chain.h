// Sums along a chain of ranks: partial sums go up from rank 0 to the last, each rank adding its own, and the whole sums
// come down again, both at once in a stream. So every element is summed in rank order, and over each line go just its
// bytes in each direction.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/ranks/control.h"

namespace tandem {

class Chain {
 public:
  Chain(int rank, Neighbours neighbours, double timeout_seconds, Control& control);

  // What a call is; those of all ranks must be equal.
  struct Call {
    std::uint64_t kind = 0, channel = 0, bytes = 0;
    bool operator==(const Call&) const = default;
  };
  // `fold` makes `bytes` bytes of `memory` at `at` the sum of them and of `partial`, which are the lower ranks' (null
  // on rank 0). It is asked for whole elements, in order, once for each. Allocates nothing.
  struct Fold {
    void* context;
    void (*call)(void* context, std::int64_t at, std::int64_t bytes, const std::byte* partial);
  };
  void run(const Call& call, std::size_t element, std::byte* memory, const Fold& fold);

 private:
  static constexpr std::int64_t block = 1 << 16;

  struct Progress {  // bytes
    std::int64_t folded = 0, sent_up = 0, come_down = 0, sent_down = 0;
    bool operator==(const Progress&) const = default;
  };
  void announce(const Call& call);
  std::int64_t receive(const Socket& from, int rank, std::byte* to, std::int64_t bytes);
  std::int64_t send(const Socket& to, int rank, const std::byte* from, std::int64_t bytes);
  void wait(bool from_lower, bool to_lower, bool from_upper, bool to_upper);

  const int rank_;
  const double timeout_;
  const Socket lower_, upper_;
  Control& control_;
  alignas(64) std::array<std::byte, block> staged_;  // partial sums that came
};

}  // namespace tandem
