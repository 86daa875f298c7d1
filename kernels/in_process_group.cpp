#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "kernels/collective.h"
#include "kernels/wait.h"

namespace tandem {
namespace {

class InProcessGroup final : public CollectiveGroup {
 public:
  InProcessGroup(int ranks, double timeout_seconds)
      : timeout_(timeout_seconds), spins_(spins_for(ranks)), members_(static_cast<std::size_t>(ranks)) {}

  std::unique_ptr<Kernel> all_reduce(int rank, int channel, std::int64_t elements, DType dtype) override;
  void abort(const std::string& reason) override {
    {
      const std::lock_guard lock(reason_mutex_);
      if (epoch_.load() & aborted) return;  // the first reason is the cause
      reason_ = reason;
      epoch_.fetch_or(aborted);
    }
    wake_all(epoch_);
  }

  int ranks() const { return static_cast<int>(members_.size()); }
  struct Call {
    std::byte* buffer = nullptr;
    int channel = 0;
    std::int64_t elements = 0;
    DType dtype = DType::undefined;
  };
  const Call& call_of(int rank) const { return members_[static_cast<std::size_t>(rank)].call; }

  // Every rank tells what it calls and waits for the others; returns when all of them call the same.
  void enter(int rank, const Call& call) {
    members_[static_cast<std::size_t>(rank)].call = call;
    meet(rank);
    for (int r = 0; r < ranks(); ++r) {
      const Call& other = call_of(r);
      if (other.channel != call.channel || other.elements != call.elements || other.dtype != call.dtype)
        fail(ExitCode::communication, "all-reduce: rank ", rank, " sums ", call.elements, " ", call.dtype, " on channel ", call.channel,
             ", rank ", r, " ", other.elements, " ", other.dtype, " on channel ", other.channel);
    }
  }
  void leave(int rank) { meet(rank); }

 private:
  // A barrier. The epoch counts by two; its lowest bit says that the group was aborted.
  void meet(int rank) {
    const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (epoch & aborted) raise();
    Member& self = members_[static_cast<std::size_t>(rank)];
    const std::uint32_t turn = self.turn.load(std::memory_order_relaxed) + 1;
    self.turn.store(turn, std::memory_order_release);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks()) {
      arrived_.store(0, std::memory_order_relaxed);
      epoch_.fetch_add(2, std::memory_order_acq_rel);
      wake_all(epoch_);
    } else if (!wait_for_change(epoch_, epoch, spins_, timeout_)) {
      abort(concat("all-reduce: waited ", timeout_, " s for ", missing(turn)));
    }
    if (epoch_.load(std::memory_order_acquire) & aborted) raise();
  }
  std::string missing(std::uint32_t turn) const {
    std::string who;
    for (std::size_t r = 0; r < members_.size(); ++r)
      if (members_[r].turn.load(std::memory_order_acquire) != turn) who += concat(who.empty() ? "rank " : ", rank ", r);
    return who;
  }
  [[noreturn]] void raise() {
    const std::lock_guard lock(reason_mutex_);
    fail(ExitCode::communication, reason_);
  }

  static constexpr std::uint32_t aborted = 1;
  struct alignas(64) Member {
    Call call;
    std::atomic<std::uint32_t> turn{0};  // meetings it came to
  };
  const double timeout_;
  const int spins_;
  std::vector<Member> members_;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<int> arrived_{0};
  std::mutex reason_mutex_;  // taken only on the way to a failure
  std::string reason_;
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
