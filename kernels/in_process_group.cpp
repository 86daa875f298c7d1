// Sums over the devices of one process: each thread adds its share of the elements in the order of the ranks, which gives the
// same bits in every run.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/collective.h"
#include "kernels/meeting.h"

namespace tandem {
namespace {

class InProcessGroup final : public CollectiveGroup {
 public:
  InProcessGroup(int ranks, double timeout_seconds) : meeting_(ranks, 0, timeout_seconds), calls_(static_cast<std::size_t>(ranks)) {}

  std::unique_ptr<Kernel> all_reduce(int rank, int channel, std::int64_t elements, DType dtype) override;
  void abort(const std::string& reason) override { meeting_.abort(reason); }

  int ranks() const { return meeting_.members(); }
  struct alignas(64) Call {
    std::byte* buffer = nullptr;
    int channel = 0;
    std::int64_t elements = 0;
    DType dtype = DType::undefined;
  };
  const Call& call_of(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }

  // Every rank tells what it calls and waits for the others; returns when all of them call the same.
  void enter(int rank, const Call& call) {
    calls_[static_cast<std::size_t>(rank)] = call;
    meeting_.meet(rank);
    for (int r = 0; r < ranks(); ++r) {
      const Call& other = call_of(r);
      if (other.channel != call.channel || other.elements != call.elements || other.dtype != call.dtype)
        fail(ExitCode::communication, "all-reduce: rank ", rank, " sums ", call.elements, " ", call.dtype, " on channel ", call.channel,
             ", rank ", r, " ", other.elements, " ", other.dtype, " on channel ", other.channel);
    }
  }
  void leave(int rank) { meeting_.meet(rank); }

 private:
  Meeting meeting_;
  std::vector<Call> calls_;
};

// Each rank sums its own share of the elements over all ranks and writes the sums to all of them.
template <class T>
class AllReduce final : public Kernel {
 public:
  AllReduce(InProcessGroup& group, int rank, int channel, std::int64_t elements)
      : group_(group), rank_(rank), call_{nullptr, channel, elements, dtype_of<T>()} {}

  void bind(std::span<std::byte* const>, std::span<std::byte* const> outputs, std::byte*) override { call_.buffer = outputs[0]; }

  void run(StreamHandle) override {
    if (group_.ranks() == 1) return;
    group_.enter(rank_, call_);
    const std::int64_t ranks = group_.ranks();
    const std::int64_t share = ((call_.elements + ranks - 1) / ranks + line - 1) / line * line;
    const std::int64_t end = std::min(call_.elements, share * (rank_ + 1));
    for (std::int64_t at = share * rank_; at < end; at += block) sum(at, std::min(block, end - at));
    group_.leave(rank_);
  }

 private:
  static constexpr std::int64_t block = 1024;  // elements: the sums stay in the first-level cache
  static constexpr std::int64_t line = 64;     // elements: no two ranks write the same cache line

  void sum(std::int64_t at, std::int64_t n) {
    T sums[block];
    std::memcpy(sums, buffer_of(0) + at, static_cast<std::size_t>(n) * sizeof(T));
    for (int r = 1; r < group_.ranks(); ++r) {
      const T* x = buffer_of(r) + at;
      for (std::int64_t i = 0; i < n; ++i) sums[i] += x[i];
    }
    for (int r = 0; r < group_.ranks(); ++r) std::memcpy(buffer_of(r) + at, sums, static_cast<std::size_t>(n) * sizeof(T));
  }
  T* buffer_of(int rank) const { return reinterpret_cast<T*>(group_.call_of(rank).buffer); }

  InProcessGroup& group_;
  const int rank_;
  InProcessGroup::Call call_;
};

std::unique_ptr<Kernel> InProcessGroup::all_reduce(int rank, int channel, std::int64_t elements, DType dtype) {
  if (rank < 0 || rank >= ranks()) fail(ExitCode::communication, "all-reduce: rank ", rank, " of ", ranks());
  return visit_float(dtype,
                     [&]<class T>() -> std::unique_ptr<Kernel> { return std::make_unique<AllReduce<T>>(*this, rank, channel, elements); });
}

}  // namespace

std::unique_ptr<CollectiveGroup> in_process_group(int ranks, double timeout_seconds) {
  if (ranks < 1) fail(ExitCode::communication, "a collective group of ", ranks, " ranks");
  return std::make_unique<InProcessGroup>(ranks, timeout_seconds);
}

}  // namespace tandem
