#include "kernels/cuda/rendezvous/meeting.h"

#include <chrono>

#include "graph/error.h"

namespace tandem::cuda {

void Meeting::wait(int rank) {
  std::unique_lock hold(lock_);
  if (!aborted_.empty()) fail(ExitCode::communication, aborted_);
  arrived_[static_cast<std::size_t>(rank)] = true;
  if (++count_ == arrived_.size()) {
    count_ = 0;
    arrived_.assign(arrived_.size(), false);
    ++round_;
    changed_.notify_all();
    return;
  }
  const std::uint64_t round = round_;
  const bool met = changed_.wait_for(hold, std::chrono::duration<double>(timeout_), [&] { return round_ != round || !aborted_.empty(); });
  if (round_ != round) return;
  if (met) fail(ExitCode::communication, aborted_);
  std::string missing;
  for (std::size_t r = 0; r < arrived_.size(); ++r)
    if (!arrived_[r]) missing += concat(missing.empty() ? "" : ", ", r);
  aborted_ = concat("all-reduce: after ", timeout_, " s still waiting for rank ", missing);
  changed_.notify_all();
  fail(ExitCode::communication, aborted_);
}

void Meeting::abort(const std::string& reason) {
  const std::scoped_lock hold(lock_);
  if (aborted_.empty()) aborted_ = reason.empty() ? "all-reduce: stopped" : reason;
  changed_.notify_all();
}

}  // namespace tandem::cuda
