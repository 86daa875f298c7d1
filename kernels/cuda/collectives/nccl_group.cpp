// Exchanges by NCCL: communicators of all ranks and of those that exchange among themselves.
#include "kernels/cuda/collectives/nccl_group.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <numeric>

#include "kernels/cuda/check.h"
#include "kernels/cuda/collectives/nccl_state.h"
#include "ranks/world.h"

namespace tandem::cuda {
namespace {

class NcclExchange final : public Kernel {
 public:
  NcclExchange(NcclGroup& group, std::size_t local, std::size_t communicator, const ExchangeSpec& spec, std::vector<NcclCall> calls)
      : group_(group), local_(local), communicator_(communicator), spec_(spec), calls_(std::move(calls)) {}
  ~NcclExchange() override {
    if (registration_) group_.unregister_buffer(local_, communicator_, registration_);
  }
  NcclExchange(const NcclExchange&) = delete;
  NcclExchange& operator=(const NcclExchange&) = delete;
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    gives_ = inputs.empty() ? nullptr : inputs[0];
    gets_ = outputs.empty() ? nullptr : outputs[0];
    if (is_in_place(spec_.kind))
      registration_ =
          group_.register_buffer(local_, communicator_, gets_, static_cast<std::size_t>(spec_.elements) * size_of(spec_.dtype));
  }
  void run(StreamHandle handle) override {
    if (calls_.empty()) return;
    auto* const stream = static_cast<cudaStream_t>(handle.native);
    group_.queue(local_, communicator_, spec_.kind, stream,
                 [&](ncclComm_t comm) { return tandem::cuda::queue(calls_, spec_, gives_, gets_, comm, stream); });
  }

 private:
  NcclGroup& group_;
  const std::size_t local_, communicator_;
  const ExchangeSpec spec_;
  const std::vector<NcclCall> calls_;
  const std::byte* gives_ = nullptr;
  std::byte* gets_ = nullptr;
  void* registration_ = nullptr;
};

}  // namespace

NcclGroup::NcclGroup(const GroupSpec& spec)
    : timeout_(spec.timeout_seconds),
      first_rank_(spec.first_rank),
      all_ranks_(std::max(spec.ranks, static_cast<int>(spec.devices.size()))),
      ranks_(spec.devices.size()),
      world_(spec.world),
      meetings_(spec.first_rank, static_cast<int>(spec.devices.size()), spec.timeout_seconds) {
  // In-switch sums (NVLS) differ in rounding from call to call. NCCL reads this before its first group.
  if (spec.deterministic) setenv("NCCL_NVLS_ENABLE", "0", 1);
  // All devices queue what several communicators do in one order, and NCCL is to start it in that order (2.26 and later).
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].device = spec.devices[i];
  std::vector<int> all(static_cast<std::size_t>(all_ranks_));
  std::iota(all.begin(), all.end(), 0);
  try {
    join(std::move(all), make_ids(1)[0]);
  } catch (...) {  // nobody watches yet, and nothing was recorded
    abort_all();
    throw;
  }
  watcher_ = std::thread([this] { watch(); });
  if (world_) world_->on_stop([this](const std::string& reason) { stop(reason, false); });
}

// Rank 0 makes them for all.
std::vector<ncclUniqueId> NcclGroup::make_ids(std::size_t count) {
  std::vector<ncclUniqueId> ids(count);
  for (ncclUniqueId& id : ids)
    if (first_rank_ == 0)
      if (const ncclResult_t status = ncclGetUniqueId(&id); status != ncclSuccess)
        fail(ExitCode::communication, "NCCL: make an id: ", ncclGetErrorString(status));
  if (!world_) return ids;
  const std::size_t size = count * sizeof(ncclUniqueId);
  const std::string bytes = world_->broadcast({reinterpret_cast<const char*>(ids.data()), size});
  if (bytes.size() != size)
    fail(ExitCode::communication, "NCCL: rank 0 sent ids of ", bytes.size(), " bytes, expected ", size);
  std::memcpy(ids.data(), bytes.data(), size);
  return ids;
}

// One more communicator. Every process calls it alike, whether ranks of it are members or not.
void NcclGroup::join(std::vector<int> members, const ncclUniqueId& id) {
  std::size_t added = 0;
  {
    const std::scoped_lock hold(lock_);
    added = communicators_.size();
    communicators_.push_back(std::move(members));
    for (Rank& r : ranks_) r.ends.emplace_back();
  }
  // In a thread of its own: to set the caller's device back would put a context on device 0 for every process.
  const ncclResult_t status = std::async(std::launch::async, [&] { return init(added, id); }).get();
  for (const Rank& r : ranks_)
    if (r.ends[added].comm) settle(r.ends[added].comm, status, "join the group");
}

ncclResult_t NcclGroup::init(std::size_t communicator, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that a missing rank can be waited for no longer than the timeout
  const std::vector<int>& members = communicators_[communicator];
  std::vector<End> ends(ranks_.size());
  ncclGroupStart();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const auto member = std::ranges::find(members, first_rank_ + static_cast<int>(i));
    if (member == members.end()) continue;
    check(cudaSetDevice(ranks_[i].device), "select a device");
    check(cudaEventCreateWithFlags(&ends[i].newest, cudaEventDisableTiming), "create an event");
    ncclCommInitRankConfig(&ends[i].comm, static_cast<int>(members.size()), id, static_cast<int>(member - members.begin()), &config);
  }
  const ncclResult_t status = ncclGroupEnd();
  const std::scoped_lock hold(lock_);
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].ends[communicator] = ends[i];
  return status;
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
  for (const Rank& r : ranks_) {
    cudaSetDevice(r.device);  // else the runtime would open device 0 for a thread that has used none
    for (const End& e : r.ends)
      if (e.comm) cudaEventDestroy(e.newest);
  }
}

std::size_t NcclGroup::communicator_of(const ExchangeSpec& spec) const {
  if (uses_all(spec, all_ranks_)) return 0;
  return static_cast<std::size_t>(std::find(std::next(communicators_.begin()), communicators_.end(), spec.members) -
                                  communicators_.begin());
}

// Exchanges among some ranks need a communicator of their own.
void NcclGroup::connect(std::span<const ExchangeSpec> exchanges) {
  std::vector<std::vector<int>> added;
  for (const ExchangeSpec& spec : exchanges)
    if (communicator_of(spec) == communicators_.size() && std::ranges::find(added, spec.members) == added.end())
      added.push_back(spec.members);
  if (added.empty()) return;
  const std::vector<ncclUniqueId> ids = make_ids(added.size());
  for (std::size_t i = 0; i < added.size(); ++i) join(std::move(added[i]), ids[i]);
}

std::unique_ptr<Kernel> NcclGroup::make(const ExchangeSpec& spec, int rank) {
  const int local = rank - first_rank_;
  const auto self = std::ranges::find(spec.members, rank);
  if (local < 0 || local >= static_cast<int>(ranks_.size()) || self == spec.members.end())
    fail(ExitCode::communication, name_of(spec.kind), ": rank ", rank, " is no member of this process");
  meetings_.of(spec);
  const std::size_t communicator = communicator_of(spec);
  if (communicator == communicators_.size())
    fail(ExitCode::communication, name_of(spec.kind), " among ", spec.members.size(), " GPUs that are not connected");
  return std::make_unique<NcclExchange>(*this, static_cast<std::size_t>(local), communicator, spec,
                                        nccl_calls(spec, static_cast<std::size_t>(self - spec.members.begin()), all_ranks_));
}

void NcclGroup::queue(std::size_t local, std::size_t communicator, ExchangeKind kind, cudaStream_t stream,
                      const std::function<ncclResult_t(ncclComm_t)>& call) {
  End& e = ranks_[local].ends[communicator];
  settle(e.comm, call_nccl([&] { return call(e.comm); }), name_of(kind));
  // A captured exchange runs later, and is watched by who replays it.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capturing), "ask whether a stream is captured");
  if (capturing != cudaStreamCaptureStatusNone) return;
  if (world_) world_->count_call();
  const std::scoped_lock hold(lock_);
  check(cudaEventRecord(e.newest, stream), "record an event");
  ++e.queued;
  e.pending = true;
  e.since = Clock::now();
}

void* NcclGroup::register_buffer(std::size_t local, std::size_t communicator, void* buffer, std::size_t bytes) {
  const std::scoped_lock hold(lock_);
  void* registration = nullptr;
  const ncclComm_t comm = ranks_[local].ends[communicator].comm;
  return stopped_.empty() && ncclCommRegister(comm, buffer, bytes, &registration) == ncclSuccess ? registration : nullptr;
}

void NcclGroup::unregister_buffer(std::size_t local, std::size_t communicator, void* registration) {
  const std::scoped_lock hold(lock_);  // an aborted group has let go of it
  if (stopped_.empty()) ncclCommDeregister(ranks_[local].ends[communicator].comm, registration);
}

std::unique_ptr<CollectiveGroup> nccl_group(const GroupSpec& spec) { return std::make_unique<NcclGroup>(spec); }

}  // namespace tandem::cuda
