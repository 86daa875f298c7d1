// Where threads wait for each other: a brief spin, then sleep. Neither locks nor allocates on the way.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/wait.h"

namespace tandem {

class Meeting {
 public:
  // `ranks`: the members' numbers in messages; `what` they meet for.
  Meeting(std::vector<int> ranks, double timeout_seconds, std::string_view what)
      : timeout_(timeout_seconds),
        spins_(spins_for(static_cast<int>(ranks.size()))),
        what_(what),
        ranks_(std::move(ranks)),
        members_(ranks_.size()) {}
  // Members that are numbered from `first`.
  Meeting(int members, int first, double timeout_seconds) : Meeting(numbered(members, first), timeout_seconds, "all-reduce") {}
  int members() const { return static_cast<int>(members_.size()); }

  // Returns when every member has called it once more. Fails (communication) with the reason of abort(), or naming the
  // members that are missing when the time is over.
  void meet(int member);
  void abort(const std::string& reason);  // the first reason counts

 private:
  static std::vector<int> numbered(int members, int first);
  std::string missing(std::uint32_t turn) const;
  [[noreturn]] void raise();

  // The epoch counts by two; its lowest bit says that the meeting was aborted.
  static constexpr std::uint32_t aborted = 1;
  struct alignas(64) Member {
    std::atomic<std::uint32_t> turn{0};  // meetings it came to
  };
  const double timeout_;
  const int spins_;
  const std::string what_;
  const std::vector<int> ranks_;
  std::vector<Member> members_;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<int> arrived_{0};
  std::mutex reason_mutex_;  // taken only on the way to a failure
  std::string reason_;
};

}  // namespace tandem
