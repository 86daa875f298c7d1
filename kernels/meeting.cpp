// Counts arrivals; the last one changes the word that the others wait for, and so does one that fails, with its reason.
#include "kernels/meeting.h"

#include <numeric>

#include "base/error.h"

namespace tandem {

std::vector<int> Meeting::numbered(int members, int first) {
  std::vector<int> ranks(static_cast<std::size_t>(members));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

void Meeting::meet(int member) {
  const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
  if (epoch & aborted) raise();
  Member& self = members_[static_cast<std::size_t>(member)];
  const std::uint32_t turn = self.turn.load(std::memory_order_relaxed) + 1;
  self.turn.store(turn, std::memory_order_release);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members()) {
    arrived_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(2, std::memory_order_acq_rel);
    wake_all(epoch_);
  } else if (!wait_for_change(epoch_, epoch, spins_, timeout_)) {
    abort(concat(what_, ": waited ", timeout_, " s for ", missing(turn)));
  }
  if (epoch_.load(std::memory_order_acquire) & aborted) raise();
}

void Meeting::abort(const std::string& reason) {
  {
    const std::lock_guard lock(reason_mutex_);
    if (epoch_.load() & aborted) return;  // the first reason is the cause
    reason_ = reason;
    epoch_.fetch_or(aborted);
  }
  wake_all(epoch_);
}

std::string Meeting::missing(std::uint32_t turn) const {
  std::string who;
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (members_[m].turn.load(std::memory_order_acquire) != turn)
      who += concat(who.empty() ? "rank " : ", rank ", ranks_[m]);
  return who;
}

void Meeting::raise() {
  const std::lock_guard lock(reason_mutex_);
  fail(ExitCode::communication, reason_);
}

}  // namespace tandem
