// What ends a wait: NCCL's own errors, ranks that are late, and whoever stops the group.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/collectives/nccl_state.h"
#include "ranks/world.h"

namespace tandem::cuda {
namespace {

constexpr auto watch_interval = std::chrono::milliseconds(200);
constexpr auto poll_interval = std::chrono::microseconds(50);
constexpr auto poll_awake = std::chrono::microseconds(20);  // what queueing an exchange takes; joining takes longer
constexpr double most_seconds_to_leave = 10;

std::string fault_of_end(const End& e) {
  ncclResult_t state = ncclSuccess;
  if (ncclCommGetAsyncError(e.comm, &state) != ncclSuccess || state == ncclSuccess || state == ncclInProgress) return "";
  return concat(ncclGetErrorString(state), " (", ncclGetLastError(e.comm), ")");
}

}  // namespace

// NCCL refuses to destroy a communicator that is still finalized; a rank that is gone must not keep this one.
void NcclGroup::leave() {
  for_each_end([](const End& e) { ncclCommFinalize(e.comm); });
  const Clock::time_point end = Clock::now() + seconds(std::min(timeout_, most_seconds_to_leave));
  for_each_end([&](const End& e) {
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(e.comm, &state) == ncclSuccess && state == ncclInProgress && Clock::now() < end)
      std::this_thread::sleep_for(poll_interval);
    state == ncclSuccess ? ncclCommDestroy(e.comm) : ncclCommAbort(e.comm);
  });
}

void NcclGroup::settle(ncclComm_t comm, ncclResult_t status, std::string_view what) {
  const Clock::time_point begun = Clock::now(), end = begun + seconds(timeout_);
  while (status == ncclInProgress) {
    const Clock::time_point now = Clock::now();
    if (now > end) {
      const std::string reason = concat("NCCL: ", what, ": other ranks did not come within ", timeout_, " s");
      stop(reason, true);
      fail(ExitCode::communication, reason);
    }
    if (const ncclResult_t asked = call_nccl([&] { return ncclCommGetAsyncError(comm, &status); }); asked != ncclSuccess) status = asked;
    if (status == ncclInProgress && now > begun + poll_awake) std::this_thread::sleep_for(poll_interval);
  }
  if (status == ncclSuccess) return;
  std::string reason = concat("NCCL: ", what, ": ", ncclGetErrorString(status));
  call_nccl([&] { return reason += concat(" (", ncclGetLastError(comm), ")"), ncclSuccess; });
  stop(reason, true);
  fail(ExitCode::communication, reason);
}

// Recorded exchanges must not be started with communicators that are no more.
void NcclGroup::begin_step(int rank) {
  if (world_) world_->count_call();
  const std::scoped_lock hold(lock_);
  if (!stopped_.empty()) fail(ExitCode::communication, stopped_);
  Rank& r = ranks_[static_cast<std::size_t>(rank - first_rank_)];
  if (r.steps++ == 0) r.step_since = Clock::now();
}

void NcclGroup::end_step(int rank) {
  const std::scoped_lock hold(lock_);
  Rank& r = ranks_[static_cast<std::size_t>(rank - first_rank_)];
  --r.steps;
  r.step_since = Clock::now();
  if (!stopped_.empty()) fail(ExitCode::communication, stopped_);
}

// The ranks of this process that queued fewer exchanges of a communicator than others; else, it is one of another process.
std::string NcclGroup::who_is_late() const {
  std::string late;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    bool behind = false;
    for (std::size_t c = 0; c < communicators_.size(); ++c)
      for (const Rank& r : ranks_) behind = behind || (ranks_[i].ends[c].comm && r.ends[c].queued > ranks_[i].ends[c].queued);
    if (behind) late += concat(late.empty() ? "" : ", ", first_rank_ + static_cast<int>(i));
  }
  return late.empty() ? "none of this process" : concat("rank ", late);
}

void NcclGroup::watch() {
  cudaSetDevice(ranks_.front().device);  // else this thread's would be device 0
  std::unique_lock hold(lock_);
  while (!wake_.wait_for(hold, watch_interval, [&] { return ending_ || !stopped_.empty(); })) {
    std::string reason;
    bool late = false;
    for (std::size_t i = 0; i < ranks_.size() && reason.empty(); ++i) {
      Rank& r = ranks_[i];
      late = late || (r.steps > 0 && Clock::now() > r.step_since + seconds(timeout_));
      for (End& e : r.ends) {
        if (!e.comm) continue;
        if (const std::string fault = fault_of_end(e); !fault.empty())
          reason = concat("NCCL: rank ", first_rank_ + static_cast<int>(i), ": ", fault);
        if (e.pending && cudaEventQuery(e.newest) != cudaErrorNotReady) e.pending = false;
        late = late || (e.pending && Clock::now() > e.since + seconds(timeout_));
      }
    }
    if (reason.empty() && late) reason = reason_of_delay(hold);
    if (reason.empty()) continue;
    hold.unlock();
    stop(reason, true);
    hold.lock();
  }
  const bool stopped = !stopped_.empty();
  hold.unlock();
  if (stopped) abort_all();
}

// Who keeps an exchange, or the recorded exchanges of a step, waiting; empty where it may be waited for.
std::string NcclGroup::reason_of_delay(std::unique_lock<std::mutex>& hold) {
  const std::string late = concat("NCCL: exchanges did not end within ", timeout_, " s; missing is ", who_is_late());
  if (!world_) return late;
  hold.unlock();  // the world may stop this group meanwhile
  std::string reason;
  try {
    world_->stalled();
  } catch (const Error& e) {
    reason = e.what();
  }
  hold.lock();
  for (Rank& r : ranks_) {
    r.step_since = Clock::now();
    for (End& e : r.ends) e.since = r.step_since;
  }
  return reason;
}

void NcclGroup::stop(const std::string& reason, bool tell) {
  {
    const std::scoped_lock hold(lock_);
    if (!stopped_.empty()) return;
    stopped_ = reason.empty() ? "the group was stopped" : reason;
    wake_.notify_all();
  }
  meetings_.abort(stopped_);
  if (tell && world_) world_->stop(stopped_);
}

// Ends the kernels that wait on the GPU. It returns when the last recorded exchange is gone (NCCL keeps a communicator until the graphs
// that name it are destroyed), so never in the thread that destroys those.
void NcclGroup::abort_all() {
  for_each_end([](const End& e) { ncclCommAbort(e.comm); });
}

}  // namespace tandem::cuda
