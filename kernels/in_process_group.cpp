// Sums over the devices of one process: each thread adds its share of the elements in the order of the ranks, which gives the
// same bits in every run.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "kernels/collective.h"
#include "kernels/meeting.h"

namespace tandem {
namespace {

// What the members of an exchange share. Each tells its addresses before its first run; the meetings of a run let the others
// see them.
struct Channel {
  Channel(const ExchangeSpec& s, double timeout_seconds) : spec(s), meeting(s.members, timeout_seconds, name_of(s.kind)), gives(s.members.size()), gets(s.members.size()) {}
  const ExchangeSpec spec;
  Meeting meeting;
  std::vector<std::byte*> gives, gets;  // by member
};

// Every member waits until all have come, moves what is its own to move, and waits until all have.
class MemberKernel : public Kernel {
 public:
  MemberKernel(Channel& channel, std::size_t self) : channel_(channel), self_(self) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) final {
    channel_.gives[self_] = inputs.empty() ? nullptr : inputs[0];
    channel_.gets[self_] = outputs.empty() ? nullptr : outputs[0];
  }
  void run(StreamHandle) final {
    channel_.meeting.meet(static_cast<int>(self_));
    move();
    channel_.meeting.meet(static_cast<int>(self_));
  }

 protected:
  virtual void move() = 0;
  const ExchangeSpec& spec() const { return channel_.spec; }
  std::size_t members() const { return channel_.gives.size(); }

  Channel& channel_;
  const std::size_t self_;
};

// Sums of a block at a time stay in the first-level cache; no two members write the same cache line.
constexpr std::int64_t block = 1024, line = 64;  // elements

struct Sum {
  template <class T>
  static T of(T a, T b) { return a + b; }
};
struct Largest {
  template <class T>
  static T of(T a, T b) { return std::max(a, b); }
};

// Sums elements [begin, end) of what all members have in `from`, in their order, and gives each block of sums to give(at, sums, n).
template <class T, class Fold = Sum, class Give>
void sum(const std::vector<std::byte*>& from, std::int64_t begin, std::int64_t end, const Give& give) {
  T sums[block];
  const auto values = [&](std::size_t member, std::int64_t at) { return reinterpret_cast<const T*>(from[member]) + at; };
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t n = std::min(block, end - at);
    std::memcpy(sums, values(0, at), static_cast<std::size_t>(n) * sizeof(T));
    for (std::size_t m = 1; m < from.size(); ++m) {
      const T* x = values(m, at);
      for (std::int64_t i = 0; i < n; ++i) sums[i] = Fold::of(sums[i], x[i]);
    }
    give(at, sums, static_cast<std::size_t>(n) * sizeof(T));
  }
}

// Each member sums its own share of the elements and writes the sums to all.
template <class T, class Fold>
class AllReduce final : public MemberKernel {
  using MemberKernel::MemberKernel;
  void move() override {
    const auto count = static_cast<std::int64_t>(members()), self = static_cast<std::int64_t>(self_);
    const std::int64_t share = ((spec().elements + count - 1) / count + line - 1) / line * line;
    sum<T, Fold>(channel_.gets, std::min(spec().elements, share * self), std::min(spec().elements, share * (self + 1)), [&](std::int64_t at, const T* sums, std::size_t bytes) {
      for (std::byte* whole : channel_.gets) std::memcpy(reinterpret_cast<T*>(whole) + at, sums, bytes);
    });
  }
};

template <class T>
class ReduceScatter final : public MemberKernel {
  using MemberKernel::MemberKernel;
  void move() override {
    const auto parts = spec().parts.begin();
    const std::int64_t begin = std::accumulate(parts, parts + static_cast<std::ptrdiff_t>(self_), std::int64_t{0});
    T* const part = reinterpret_cast<T*>(channel_.gets[self_]);
    sum<T>(channel_.gives, begin, begin + spec().parts[self_], [&](std::int64_t at, const T* sums, std::size_t bytes) { std::memcpy(part + (at - begin), sums, bytes); });
  }
};

class AllGather final : public MemberKernel {
  using MemberKernel::MemberKernel;
  void move() override {
    std::byte* to = channel_.gets[self_];
    for (std::size_t m = 0; m < members(); ++m) {
      const std::size_t bytes = static_cast<std::size_t>(spec().parts[m]) * size_of(spec().dtype);
      if (to != channel_.gives[m] && bytes > 0) std::memcpy(to, channel_.gives[m], bytes);
      to += bytes;
    }
  }
};

// What the first gives goes to all who want it: a broadcast, and a send.
class Spread final : public MemberKernel {
  using MemberKernel::MemberKernel;
  void move() override {
    const std::byte* const from = channel_.gives[0];
    std::byte* const to = channel_.gets[self_];
    if (to && to != from) std::memcpy(to, from, static_cast<std::size_t>(spec().elements) * size_of(spec().dtype));
  }
};

std::unique_ptr<Kernel> kernel_of(Channel& channel, std::size_t self) {
  switch (channel.spec.kind) {
    case ExchangeKind::all_reduce: return visit_float(channel.spec.dtype, [&]<class T>() -> std::unique_ptr<Kernel> { return std::make_unique<AllReduce<T, Sum>>(channel, self); });
    case ExchangeKind::all_max: return visit_float(channel.spec.dtype, [&]<class T>() -> std::unique_ptr<Kernel> { return std::make_unique<AllReduce<T, Largest>>(channel, self); });
    case ExchangeKind::reduce_scatter: return visit_float(channel.spec.dtype, [&]<class T>() -> std::unique_ptr<Kernel> { return std::make_unique<ReduceScatter<T>>(channel, self); });
    case ExchangeKind::all_gather: return std::make_unique<AllGather>(channel, self);
    case ExchangeKind::broadcast:
    case ExchangeKind::send: return std::make_unique<Spread>(channel, self);
  }
  fail("unknown exchange");
}

class InProcessGroup final : public CollectiveGroup {
 public:
  InProcessGroup(int ranks, double timeout_seconds) : ranks_(ranks), timeout_seconds_(timeout_seconds) {}

  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override {
    const auto self = std::find(spec.members.begin(), spec.members.end(), rank);
    if (self == spec.members.end() || rank < 0 || rank >= ranks_) fail(ExitCode::communication, name_of(spec.kind), ": rank ", rank, " of ", ranks_, " is no member");
    const std::scoped_lock hold(lock_);
    auto& channel = channels_[spec.channel];
    if (!channel) {
      channel = std::make_unique<Channel>(spec, timeout_seconds_);
      if (aborted_) channel->meeting.abort(reason_);
    }
    if (channel->spec != spec) fail(ExitCode::communication, "rank ", rank, " makes ", text(spec), ", another rank ", text(channel->spec));
    return kernel_of(*channel, static_cast<std::size_t>(self - spec.members.begin()));
  }
  void abort(const std::string& reason) override {
    const std::scoped_lock hold(lock_);
    if (!aborted_) reason_ = reason;  // the first is the cause
    aborted_ = true;
    for (const auto& [number, channel] : channels_) channel->meeting.abort(reason_);
  }

 private:
  static std::string text(const ExchangeSpec& spec) {
    return concat(name_of(spec.kind), " of ", spec.elements, " ", spec.dtype, " among ", spec.members.size(), " ranks on channel ", spec.channel);
  }

  const int ranks_;
  const double timeout_seconds_;
  std::mutex lock_;  // not taken while steps run
  std::map<int, std::unique_ptr<Channel>> channels_;
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> in_process_group(int ranks, double timeout_seconds) {
  if (ranks < 1) fail(ExitCode::communication, "a collective group of ", ranks, " ranks");
  return std::make_unique<InProcessGroup>(ranks, timeout_seconds);
}

}  // namespace tandem
