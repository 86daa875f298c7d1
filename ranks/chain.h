// Sums along a chain of ranks: partial sums go up from rank 0 to the last, each rank adding its own, and the whole sums
// come down again, both at once in a stream. So every element is summed in rank order, and over each line go just its
// bytes in each direction. A checksum follows each stream (CRC-32C): no rank returns from a call before all that came up
// to the last rank, and all that came down to itself, was found whole.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "ranks/call.h"
#include "ranks/control.h"

namespace tandem {

class Chain {
 public:
  Chain(int rank, Neighbours neighbours, double timeout_seconds, Control& control);

  // `fold` makes `bytes` bytes of `memory` at `at` the sum of them and of `partial`, which are the lower ranks' (null
  // on rank 0). It is asked for whole elements, in order, once for each. Allocates nothing.
  struct Fold {
    void* context;
    void (*call)(void* context, std::int64_t at, std::int64_t bytes, const std::byte* partial);
  };
  void run(const Call& call, std::size_t element, std::byte* memory, const Fold& fold);

 private:
  static constexpr std::int64_t block = 1 << 16;

  // What went where, in bytes; but for `folded` each goes on to the checksum behind the stream.
  struct Progress {
    std::int64_t come_up = 0, folded = 0, sent_up = 0, come_down = 0, sent_down = 0;
    bool operator==(const Progress&) const = default;
  };
  // Bytes to be sent or received, and what follows them in the same stream.
  struct Piece {
    std::byte* bytes;
    std::int64_t count;
    std::span<std::byte> behind = {};
    std::int64_t all() const { return count + std::ssize(behind); }
  };
  class Streams;
  void announce(const Call& call);
  std::int64_t receive(const Socket& from, int rank, const Piece& piece);
  std::int64_t send(const Socket& to, int rank, const Piece& piece);
  void wait(bool from_lower, bool to_lower, bool from_upper, bool to_upper);
  void check(int from, std::uint32_t sum, std::span<const std::byte> received);

  const int rank_;
  const double timeout_;
  const Socket lower_, upper_;
  Control& control_;
  alignas(64) std::array<std::byte, block> staged_;  // partial sums that came
};

}  // namespace tandem
