// Gives all ranks what every device wrote to the host. The steps since the last time cross together, in one message from each rank to each
// other, over lines of their own; with two ranks, and with more than can hold a line to each other, along the chain.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ranks/link.h"
#include "runtime/program.h"

namespace tandem {

class OutputExchange {
 public:
  // Every rank calls all of this alike, but for what it gives. `devices`: of each rank. Each fails (communication) as the World does.
  OutputExchange(World& world, int devices);
  // The plan that comes next. `own`: where this rank's devices write; `bytes`: of its outputs together.
  void add(std::span<const Program::HostPart> own, std::int64_t bytes);

  // Keeps what this rank's devices wrote in a step. Null outputs are not wanted, here and below.
  void keep(std::size_t plan, std::span<std::byte* const> outputs);
  // Exchanges the steps kept, and a word of each rank: returns all, by rank. Allocates where more bytes are kept than ever before.
  std::span<const std::uint64_t> exchange(std::uint64_t word = 0);
  // What all devices wrote in one of the steps exchanged last, counted back from the last of them, 0.
  void get(std::size_t back, std::span<std::byte* const> outputs) const;

 private:
  struct Parts {  // of a plan, which one rank's devices write
    std::vector<Program::HostPart> list;
    std::int64_t bytes = 0;
  };
  std::span<std::byte> of_rank(std::size_t rank) { return std::span(all_).subspan(starts_[rank], starts_[rank + 1] - starts_[rank]); }
  void by_pairs();

  World& world_;
  std::vector<std::vector<Parts>> parts_;  // by plan and rank
  std::vector<std::size_t> kept_, given_;  // steps by their plans: since the last exchange, of it
  std::vector<std::byte> own_;             // of the steps kept
  std::vector<std::byte> all_;             // by rank: its word, and its parts step by step
  std::vector<std::size_t> starts_;        // in `all_`, by rank, and the end
  std::vector<std::uint64_t> words_;
  const bool pairs_;
  std::vector<std::size_t> others_, come_;  // by link: the rank, and how many of its bytes have come
  Links links_;                            // by pairs
};

}  // namespace tandem
