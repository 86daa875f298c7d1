// All-reduces by NCCL. While a rank waits it looks after the others: one that fails or is lost ends the wait of all.
#include "kernels/cuda/collectives/nccl_group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "kernels/cuda/check.h"
#include "kernels/meeting.h"
#include "ranks/world.h"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto watch_interval = std::chrono::milliseconds(200);
constexpr auto poll_interval = std::chrono::microseconds(50);
constexpr auto poll_awake = std::chrono::microseconds(20);  // what queueing a sum takes; joining takes longer
constexpr double most_seconds_to_leave = 10;

Clock::duration seconds(double count) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count)); }

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return ncclFloat32;
    case DType::float64: return ncclFloat64;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
    default: fail(ExitCode::communication, "all-reduce of ", dtype, ": expected a floating-point type");
  }
}

// One rank of this process, and how far its newest all-reduce has come.
struct Rank {
  ncclComm_t comm = nullptr;
  cudaEvent_t newest = nullptr;
  int device = 0;
  std::uint64_t queued = 0;
  bool pending = false;
  Clock::time_point since;
  int steps = 0;  // under way: the recorded sums of one are watched as a whole
  Clock::time_point step_since;
};

class NcclGroup final : public CollectiveGroup {
 public:
  explicit NcclGroup(const GroupSpec& spec);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override;
  void abort(const std::string& reason) override { stop(reason, true); }
  // Several recorded ranks of one process could wait for each other: NCCL wants a process for each.
  bool captures() const override { return ranks_.size() == 1; }
  bool registers() const override { return true; }
  void meet(int rank) override { meeting_.meet(rank - first_rank_); }
  void begin_step(int rank) override;
  void end_step(int rank) override;
  // Null where NCCL cannot: the sum then goes through buffers of its own.
  void* register_buffer(std::size_t local, void* buffer, std::size_t bytes);
  void unregister_buffer(std::size_t local, void* registration);
  void queue(std::size_t local, void* buffer, std::int64_t elements, ncclDataType_t type, ncclRedOp_t fold, cudaStream_t stream);

 private:
  // Calls NCCL, unless the group has stopped: an aborted communicator is no more.
  template <class Call>
  ncclResult_t call_nccl(const Call& call);
  ncclResult_t join(const GroupSpec& spec, const ncclUniqueId& id, int ranks);
  // Waits while NCCL works on a call of its own; fails with its reason.
  void settle(ncclComm_t comm, ncclResult_t status, std::string_view what);
  void leave();
  // From now on every call fails with the reason; the watcher ends what waits on the GPU.
  void stop(const std::string& reason, bool tell);
  void abort_all();
  void watch();
  std::string who_is_late() const;
  std::string reason_of_delay(std::unique_lock<std::mutex>& hold);

  double timeout_;
  int first_rank_, all_ranks_;
  std::vector<Rank> ranks_;
  World* const world_;  // the other processes, or null
  mutable std::mutex lock_;
  std::condition_variable wake_;
  Meeting meeting_;  // of this process's ranks
  std::string stopped_;
  bool ending_ = false;
  std::thread watcher_;
};

class NcclAllReduce final : public Kernel {
 public:
  NcclAllReduce(NcclGroup& group, std::size_t local, const ExchangeSpec& spec)
      : group_(group),
        local_(local),
        elements_(spec.elements),
        bytes_(static_cast<std::size_t>(spec.elements) * size_of(spec.dtype)),
        type_(nccl_type(spec.dtype)),
        fold_(spec.kind == ExchangeKind::all_max ? ncclMax : ncclSum) {}
  ~NcclAllReduce() override {
    if (registration_) group_.unregister_buffer(local_, registration_);
  }
  NcclAllReduce(const NcclAllReduce&) = delete;
  NcclAllReduce& operator=(const NcclAllReduce&) = delete;
  void bind(std::span<std::byte* const>, std::span<std::byte* const> outputs, std::byte*) override {
    buffer_ = outputs[0];
    registration_ = group_.register_buffer(local_, buffer_, bytes_);
  }
  void run(StreamHandle stream) override {
    group_.queue(local_, buffer_, elements_, type_, fold_, static_cast<cudaStream_t>(stream.native));
  }

 private:
  NcclGroup& group_;
  std::size_t local_;
  std::int64_t elements_;
  std::size_t bytes_;
  ncclDataType_t type_;
  ncclRedOp_t fold_;
  std::byte* buffer_ = nullptr;
  void* registration_ = nullptr;
};

NcclGroup::NcclGroup(const GroupSpec& spec) : timeout_(spec.timeout_seconds), first_rank_(spec.first_rank), all_ranks_(std::max(spec.ranks, static_cast<int>(spec.devices.size()))), ranks_(spec.devices.size()), world_(spec.world),
      meeting_(static_cast<int>(spec.devices.size()), spec.first_rank, spec.timeout_seconds) {
  // In-switch sums (NVLS) differ in rounding from call to call. NCCL reads this before its first group.
  if (spec.deterministic) setenv("NCCL_NVLS_ENABLE", "0", 1);
  ncclUniqueId id{};
  if (spec.first_rank == 0) {
    if (const ncclResult_t status = ncclGetUniqueId(&id); status != ncclSuccess)
      fail(ExitCode::communication, "NCCL: make an id: ", ncclGetErrorString(status));
  }
  if (world_) {
    const std::string bytes = world_->broadcast({id.internal, sizeof id.internal});
    if (bytes.size() != sizeof id)
      fail(ExitCode::communication, "NCCL: rank 0 sent an id of ", bytes.size(), " bytes, expected ", sizeof id);
    std::memcpy(&id, bytes.data(), sizeof id);
  }
  // In a thread of its own: to set the caller's device back would put a context on device 0 for every process.
  const ncclResult_t status = std::async(std::launch::async, [&] { return join(spec, id, all_ranks_); }).get();
  try {
    for (const Rank& r : ranks_) settle(r.comm, status, "join the group");
  } catch (...) {  // nobody watches yet, and nothing was recorded
    abort_all();
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
  if (world_) world_->on_stop([this](const std::string& reason) { stop(reason, false); });
}

ncclResult_t NcclGroup::join(const GroupSpec& spec, const ncclUniqueId& id, int ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that a missing rank can be waited for no longer than the timeout
  ncclGroupStart();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].device = spec.devices[i];
    check(cudaSetDevice(spec.devices[i]), "select a device");
    check(cudaEventCreateWithFlags(&ranks_[i].newest, cudaEventDisableTiming), "create an event");
    ncclCommInitRankConfig(&ranks_[i].comm, ranks, id, spec.first_rank + static_cast<int>(i), &config);
  }
  return ncclGroupEnd();
}

NcclGroup::~NcclGroup() {
  if (world_) world_->on_stop({});  // no more calls of stop()
  {
    const std::scoped_lock hold(lock_);
    ending_ = true;
    wake_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (stopped_.empty()) leave();
  for (const Rank& r : ranks_)
    if (r.newest) cudaEventDestroy(r.newest);
}

// NCCL refuses to destroy a communicator that is still finalized; a rank that is gone must not keep this one.
void NcclGroup::leave() {
  for (const Rank& r : ranks_) ncclCommFinalize(r.comm);
  const Clock::time_point end = Clock::now() + seconds(std::min(timeout_, most_seconds_to_leave));
  for (const Rank& r : ranks_) {
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(r.comm, &state) == ncclSuccess && state == ncclInProgress && Clock::now() < end)
      std::this_thread::sleep_for(poll_interval);
    state == ncclSuccess ? ncclCommDestroy(r.comm) : ncclCommAbort(r.comm);
  }
}

template <class Call>
ncclResult_t NcclGroup::call_nccl(const Call& call) {
  const std::scoped_lock hold(lock_);
  if (!stopped_.empty()) fail(ExitCode::communication, stopped_);
  return call();
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

std::unique_ptr<Kernel> NcclGroup::make(const ExchangeSpec& spec, int rank) {
  check_sums_over_all(spec, all_ranks_, "a group of GPUs");
  const int local = rank - first_rank_;
  if (local < 0 || local >= static_cast<int>(ranks_.size())) fail(ExitCode::communication, "rank ", rank, " is not of this process");
  return std::make_unique<NcclAllReduce>(*this, static_cast<std::size_t>(local), spec);
}

void NcclGroup::queue(std::size_t local, void* buffer, std::int64_t elements, ncclDataType_t type, ncclRedOp_t fold, cudaStream_t stream) {
  Rank& r = ranks_[local];
  settle(r.comm, call_nccl([&] { return ncclAllReduce(buffer, buffer, static_cast<std::size_t>(elements), type, fold, r.comm, stream); }),
         "all-reduce");
  // A captured all-reduce runs later, and is watched by who replays it.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capturing), "ask whether a stream is captured");
  if (capturing != cudaStreamCaptureStatusNone) return;
  if (world_) world_->count_call();
  const std::scoped_lock hold(lock_);
  check(cudaEventRecord(r.newest, stream), "record an event");
  ++r.queued;
  r.pending = true;
  r.since = Clock::now();
}

void* NcclGroup::register_buffer(std::size_t local, void* buffer, std::size_t bytes) {
  const std::scoped_lock hold(lock_);
  void* registration = nullptr;
  return stopped_.empty() && ncclCommRegister(ranks_[local].comm, buffer, bytes, &registration) == ncclSuccess ? registration : nullptr;
}

void NcclGroup::unregister_buffer(std::size_t local, void* registration) {
  const std::scoped_lock hold(lock_);
  if (stopped_.empty()) ncclCommDeregister(ranks_[local].comm, registration);  // an aborted group has let go of it
}

// Recorded sums must not be started with communicators that are no more.
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

// The ranks of this process that queued fewer all-reduces than others; else, it is one of another process.
std::string NcclGroup::who_is_late() const {
  std::uint64_t most = 0;
  for (const Rank& r : ranks_) most = std::max(most, r.queued);
  std::string late;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].queued < most) late += concat(late.empty() ? "" : ", ", first_rank_ + static_cast<int>(i));
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
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(r.comm, &state) == ncclSuccess && state != ncclSuccess && state != ncclInProgress)
        reason =
            concat("NCCL: rank ", first_rank_ + static_cast<int>(i), ": ", ncclGetErrorString(state), " (", ncclGetLastError(r.comm), ")");
      if (r.pending && cudaEventQuery(r.newest) != cudaErrorNotReady) r.pending = false;
      if (r.pending || r.steps > 0) late = late || Clock::now() > (r.pending ? r.since : r.step_since) + seconds(timeout_);
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

// Who keeps a sum, or the recorded sums of a step, waiting; empty where it may be waited for.
std::string NcclGroup::reason_of_delay(std::unique_lock<std::mutex>& hold) {
  const std::string late = concat("NCCL: sums did not end within ", timeout_, " s; missing is ", who_is_late());
  if (!world_) return late;
  hold.unlock();  // the world may stop this group meanwhile
  std::string reason;
  try {
    world_->stalled();
  } catch (const Error& e) {
    reason = e.what();
  }
  hold.lock();
  for (Rank& r : ranks_) r.since = r.step_since = Clock::now();
  return reason;
}

void NcclGroup::stop(const std::string& reason, bool tell) {
  {
    const std::scoped_lock hold(lock_);
    if (!stopped_.empty()) return;
    stopped_ = reason.empty() ? "the group was stopped" : reason;
    wake_.notify_all();
  }
  meeting_.abort(stopped_);
  if (tell && world_) world_->stop(stopped_);
}

// Ends the kernels that wait on the GPU. It returns when the last recorded sum is gone (NCCL keeps a communicator until the graphs
// that name it are destroyed), so never in the thread that destroys those.
void NcclGroup::abort_all() {
  for (const Rank& r : ranks_)
    if (r.comm) ncclCommAbort(r.comm);
}

}  // namespace

std::unique_ptr<CollectiveGroup> nccl_group(const GroupSpec& spec) { return std::make_unique<NcclGroup>(spec); }

}  // namespace tandem::cuda
