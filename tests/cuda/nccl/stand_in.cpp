#include "tests/cuda/nccl/stand_in.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

struct CUevent_st {
  const ncclComm* comm = nullptr;
  int sum = 0;
};

namespace tandem::test::nccl {
namespace {

std::mutex lock;
std::vector<std::unique_ptr<ncclComm>> communicators;
std::condition_variable graphs_changed;
int misused = 0, stuck_aborts = 0, ids = 0;
constexpr int polls = 3;
constexpr std::chrono::seconds patience(5);

// Whether all ranks have come: none joins alone.
bool joined(const ncclComm& comm) {
  return comm.ranks == std::count_if(communicators.begin(), communicators.end(), [&](const auto& c) { return c->id == comm.id; });
}

bool done(const ncclComm* comm, int sum) {
  return comm->ranks ==
         std::count_if(communicators.begin(), communicators.end(), [&](const auto& c) { return c->id == comm->id && c->queued >= sum; });
}

// A call with a communicator that there still is.
template <class Call>
ncclResult_t with(ncclComm* comm, const Call& call) {
  const std::scoped_lock hold(lock);
  if (!comm || comm->end == ncclComm::destroyed || comm->end == ncclComm::aborted) return ++misused, ncclInvalidArgument;
  return call(*comm);
}

}  // namespace

void reset() {
  const std::scoped_lock hold(lock);
  communicators.clear();
  misused = stuck_aborts = 0;
}
ncclComm& communicator(int rank) {
  const std::scoped_lock hold(lock);
  return **std::find_if(communicators.rbegin(), communicators.rend(), [&](const auto& c) { return c->rank == rank; });
}
bool ended(int rank) {
  const ncclComm& c = communicator(rank);
  const std::scoped_lock hold(lock);
  return c.end == ncclComm::destroyed || c.end == ncclComm::aborted;
}
bool summed(const CUstream_st& stream) {
  const std::scoped_lock hold(lock);
  return done(stream.last, stream.last->queued);
}
void replay(int rank) {
  ncclComm& c = communicator(rank);
  const std::scoped_lock hold(lock);
  ++c.queued;
}
void destroy_graph(int rank) {
  ncclComm& c = communicator(rank);
  const std::scoped_lock hold(lock);
  c.recorded = 0;
  graphs_changed.notify_all();
}
int stuck() {
  const std::scoped_lock hold(lock);
  return stuck_aborts;
}
void break_rank(int rank, ncclResult_t state) {
  ncclComm& c = communicator(rank);
  const std::scoped_lock hold(lock);
  c.state = state;
}
int misuses() {
  const std::scoped_lock hold(lock);
  return misused;
}

}  // namespace tandem::test::nccl

using namespace tandem::test::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::scoped_lock hold(lock);
  std::snprintf(id->internal, sizeof id->internal, "group %d", ++ids);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclInProgress; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const std::scoped_lock hold(lock);
  if (config->blocking != 0) return ncclInvalidArgument;
  communicators.push_back(std::make_unique<ncclComm>(ncclComm{.rank = rank, .ranks = ranks, .id = id.internal, .in_progress = polls}));
  *comm = communicators.back().get();
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return with(comm, [&](ncclComm& c) {
    if (!joined(c)) return *state = ncclInProgress, ncclSuccess;
    return *state = c.in_progress > 0 ? --c.in_progress, ncclInProgress : c.state, ncclSuccess;
  });
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return with(comm, [&](ncclComm& c) {
    if (!joined(c) || c.in_progress > 0) return ++misused, ncclInvalidUsage;
    if (c.state != ncclSuccess) return c.state;
    ++(stream->captures ? c.recorded : c.queued);
    stream->last = comm;
    c.in_progress = polls;
    return ncclInProgress;
  });
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return with(comm, [](ncclComm& c) { return c.end = ncclComm::finalized, c.in_progress = polls, ncclInProgress; });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return with(
      comm, [](ncclComm& c) { return c.in_progress > 0 ? (++misused, ncclInvalidArgument) : (c.end = ncclComm::destroyed, ncclSuccess); });
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t status = with(comm, [](ncclComm& c) { return c.end = ncclComm::aborted, ncclSuccess; });
  std::unique_lock hold(lock);
  if (status == ncclSuccess && !graphs_changed.wait_for(hold, patience, [&] { return comm->recorded == 0; })) ++stuck_aborts;
  return status;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t, void** handle) {
  return with(comm, [&](ncclComm&) { return *handle = buffer, ncclSuccess; });
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void*) {
  return with(comm, [](ncclComm&) { return ncclSuccess; });
}
const char* ncclGetErrorString(ncclResult_t) { return "stand-in error"; }
const char* ncclGetLastError(ncclComm_t) { return "nothing more"; }

cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "stand-in error"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in error"; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::scoped_lock hold(lock);
  return *event = {stream->last, stream->last->queued}, cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::scoped_lock hold(lock);
  return done(event->comm, event->sum) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return *status = stream->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}

}  // extern "C"
