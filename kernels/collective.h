// What moves between devices. A group is made once for all ranks of a plan; each rank takes its kernels from it and runs them
// on its own streams.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace tandem {

// all_reduce: every member has the sum. all_max: each has the largest. reduce_scatter: each has its part of the sum. all_gather: each has
// all parts, one behind the other. broadcast: each has what the first gives. send: the second has what the first gives. reduce: the first
// has the sum. all_to_all: what each gives is cut into a piece for each, and each has its pieces of all, one behind the other.
enum class ExchangeKind { all_reduce, reduce_scatter, all_gather, broadcast, send, all_max, reduce, all_to_all };
constexpr bool is_in_place(ExchangeKind kind) { return kind == ExchangeKind::all_reduce || kind == ExchangeKind::all_max; }
std::string_view name_of(ExchangeKind kind);

struct ExchangeSpec {
  ExchangeKind kind = ExchangeKind::all_reduce;
  std::vector<int> members;         // ranks; sums are taken, and parts lie, in this order
  std::int64_t elements = 0;        // of the whole value
  DType dtype = DType::float32;
  std::vector<std::int64_t> parts;  // elements by member, of a reduce_scatter and an all_gather, and that each gives to an all_to_all
  int channel = 0;                  // numbers the exchanges of a group
  std::vector<int> streams = {};    // by member, on which it runs the exchange: those of a stream one after the other; empty: 0 for all
  int stream(std::size_t member) const { return streams.empty() ? 0 : streams[member]; }
  // elements by member that each gets of an all_to_all: a piece has that share of what its giver gives
  std::vector<std::int64_t> gets = {};
  bool operator==(const ExchangeSpec&) const = default;
};

class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;
  // Called by every process alike before kernels of these exchanges are made: what they need between processes.
  virtual void connect(std::span<const ExchangeSpec>) {}
  // One member's part in an exchange; every member makes one with the same spec and runs it as often. bind() takes what the
  // member gives as input 0 and what it gets as output 0, null where there is none; a part may lie in its place of the whole.
  // An all_reduce and an all_max are in place in output 0, and bitwise the same on each. Fails (device) where the group does not offer the
  // exchange.
  virtual std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) = 0;
  // Whether its kernels may be part of a recorded step: they wait on the device alone, and the group learns from the two
  // calls when a step of a rank is under way (two, where a device runs ahead). Both fail (communication) where the group has
  // stopped.
  virtual bool captures() const { return false; }
  virtual void begin_step(int) {}
  virtual void end_step(int) {}
  // Whether it gains by memory of Device::allocate_summed().
  virtual bool registers() const { return false; }
  // Where kernels wait for each other on devices: returns when all ranks of this process that take part in the exchange are here. Fails
  // (communication).
  virtual void meet(int /*channel*/, int /*rank*/) {}
  // Wakes every rank that waits, which then fail (communication) with this reason.
  virtual void abort(const std::string& reason) = 0;
};

// Ranks are threads of this process whose buffers are host memory; any of them may be members of an exchange. Deterministic:
// every element is summed once, in the members' order. Waits longer than the timeout fail naming the rank that is missing.
std::unique_ptr<CollectiveGroup> in_process_group(int ranks, double timeout_seconds);

// Whether it is a sum, or the largest, over all of a group's ranks in their order.
bool is_sum_over_all(const ExchangeSpec& spec, int ranks);

}  // namespace tandem
