#include "tests/cuda/nccl/stand_in.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

struct CUevent_st {
  int process = -1;
  std::uint64_t batch = 0;
  int device = 0;
};

namespace tandem::test::nccl {
namespace {

struct Call {
  enum Op { all_reduce, reduce_scatter, all_gather, reduce, broadcast, send, receive } op;
  ncclComm* comm;
  const std::byte* from;
  std::byte* to;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t fold;
  int peer;
  int number = 0;  // of the communicator's collectives
  bool done = false;
};
// Calls of a group, or one alone.
struct Batch {
  std::vector<Call> calls;
  CUstream_st* stream;
  std::uint64_t number = 0;  // of its process
};
struct Process {
  std::deque<Batch> queue;
  std::uint64_t queued = 0, done = 0;
};

std::mutex lock;
std::vector<std::unique_ptr<ncclComm>> comms;
std::map<int, Process> processes;
std::map<const CUstream_st*, std::vector<Batch>> graphs;
std::condition_variable graphs_changed;
int misused = 0, stuck_aborts = 0, ids = 0;
std::string first_misuse;
thread_local std::vector<Call> group;
thread_local CUstream_st* group_stream = nullptr;
thread_local int groups = 0;
constexpr int polls = 3;
constexpr std::chrono::seconds patience(5);

ncclResult_t misuse_of(const std::string& what) {
  if (misused++ == 0) first_misuse = what;
  return ncclInvalidUsage;
}

std::size_t size_of(ncclDataType_t type) { return type == ncclInt8 ? 1 : type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 2; }
bool is_between_two(const Call& c) { return c.op == Call::send || c.op == Call::receive; }
bool has_root(const Call& c) { return c.op == Call::reduce || c.op == Call::broadcast; }

// Whether all ranks have come: none joins alone.
bool joined(const ncclComm& comm) {
  return comm.ranks == std::count_if(comms.begin(), comms.end(), [&](const auto& c) { return c->id == comm.id; });
}

// The call of another rank that goes with one, if it is under way.
Call* partner(const Call& c, int rank) {
  for (auto& [name, process] : processes) {
    if (process.queue.empty()) continue;
    for (Call& other : process.queue.front().calls) {
      if (other.done || other.comm->id != c.comm->id || other.comm->rank != rank || other.comm->end == ncclComm::aborted) continue;
      if (is_between_two(c) ? is_between_two(other) && other.op != c.op && other.peer == c.comm->rank
                            : !is_between_two(other) && other.number == c.number)
        return &other;
    }
  }
  return nullptr;
}

template <class T>
void fold_into(std::byte* to, const std::vector<const std::byte*>& from, std::size_t count, ncclRedOp_t fold) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = reinterpret_cast<const T*>(from[0])[i];
    for (std::size_t m = 1; m < from.size(); ++m) {
      const T x = reinterpret_cast<const T*>(from[m])[i];
      sum = fold == ncclMax ? std::max(sum, x) : sum + x;
    }
    reinterpret_cast<T*>(to)[i] = sum;
  }
}
void fold(std::byte* to, const std::vector<const std::byte*>& from, const Call& c) {
  if (c.type == ncclFloat64) return fold_into<double>(to, from, c.count, c.fold);
  if (c.type == ncclFloat32) return fold_into<float>(to, from, c.count, c.fold);
  misuse_of("a sum of a type that the stand-in does not know");
}

void run_collective(std::vector<Call*>& members) {
  const Call& first = *members[0];
  const std::size_t bytes = first.count * size_of(first.type), ranks = members.size();
  for (const Call* m : members)
    if (m->op != first.op || m->count != first.count || m->type != first.type || m->fold != first.fold || m->peer != first.peer)
      misuse_of("members of a communicator call otherwise than each other");
  std::vector<std::vector<std::byte>> given;
  std::vector<const std::byte*> from;
  const std::size_t gives = bytes * (first.op == Call::reduce_scatter ? ranks : 1);
  for (const Call* m : members) {
    const bool reads = first.op != Call::broadcast || m->comm->rank == first.peer;
    given.emplace_back(reads ? std::vector<std::byte>(m->from, m->from + gives) : std::vector<std::byte>(gives));
  }
  for (std::size_t m = 0; m < ranks; ++m) {
    from.clear();
    for (const auto& g : given) from.push_back(g.data() + (first.op == Call::reduce_scatter ? m * bytes : 0));
    Call& own = *members[m];
    if (first.op == Call::broadcast) std::memcpy(own.to, given[static_cast<std::size_t>(first.peer)].data(), bytes);
    if (first.op == Call::all_gather)
      for (std::size_t g = 0; g < ranks; ++g) std::memcpy(own.to + g * bytes, from[g], bytes);
    if (first.op == Call::all_reduce || first.op == Call::reduce_scatter || (first.op == Call::reduce && own.comm->rank == first.peer))
      fold(own.to, from, own);
    own.done = true;
  }
}

// Runs a call whose partners are all under way.
bool run(Call& c) {
  if (c.comm->end == ncclComm::aborted) return c.done = true;
  if (is_between_two(c)) {
    Call* const other = partner(c, c.peer);
    if (!other) return false;
    if (other->count != c.count || other->type != c.type) misuse_of("what is sent is not what is received");
    Call &sender = c.op == Call::send ? c : *other, &receiver = c.op == Call::send ? *other : c;
    std::memcpy(receiver.to, sender.from, std::min(sender.count, receiver.count) * size_of(c.type));
    return sender.done = receiver.done = true;
  }
  std::vector<Call*> members;
  for (int r = 0; r < c.comm->ranks; ++r)
    if (Call* const m = r == c.comm->rank ? &c : partner(c, r)) members.push_back(m);
  if (static_cast<int>(members.size()) < c.comm->ranks) return false;
  run_collective(members);
  return true;
}

void progress() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [name, process] : processes) {
      if (process.queue.empty()) continue;
      Batch& head = process.queue.front();
      for (Call& c : head.calls) moved = (!c.done && run(c)) || moved;
      if (std::ranges::all_of(head.calls, &Call::done)) {
        process.done = head.number;
        process.queue.pop_front();
        moved = true;
      }
    }
  }
}

void add(Batch batch) {
  Process& process = processes[batch.stream->process];
  batch.number = ++process.queued;
  for (Call& c : batch.calls) {
    ++c.comm->queued;
    if (!is_between_two(c)) c.number = c.comm->collectives++;
  }
  process.queue.push_back(std::move(batch));
  progress();
}

// What a member may share between what it gives and what it gets.
bool shares_as_it_may(const Call& c) {
  const std::size_t bytes = c.count * size_of(c.type), rank = static_cast<std::size_t>(c.comm->rank),
                    ranks = static_cast<std::size_t>(c.comm->ranks);
  const std::size_t gives = c.op == Call::reduce_scatter ? bytes * ranks : bytes, gets = c.op == Call::all_gather ? bytes * ranks : bytes;
  if (is_between_two(c) || (has_root(c) && c.comm->rank != c.peer)) return true;
  if (c.from + gives <= c.to || c.to + gets <= c.from) return true;
  if (c.op == Call::all_gather) return c.from == c.to + rank * bytes;
  if (c.op == Call::reduce_scatter) return c.to == c.from + rank * bytes;
  return c.from == c.to;
}

ncclResult_t finish(std::vector<Call> calls, CUstream_st* stream) {
  if (calls.empty()) return ncclSuccess;
  for (const Call& c : calls)
    if (c.comm->in_progress > 0) return misuse_of("a call with a communicator that is busy");
  const bool alone = calls.size() == 1;
  if (alone && is_between_two(calls[0]) && calls[0].peer == calls[0].comm->rank) return misuse_of("a rank sends to itself outside a group");
  for (Call& c : calls) c.comm->in_progress = polls;
  if (stream->captures) {
    for (const Call& c : calls) ++c.comm->recorded;
    graphs[stream].push_back({std::move(calls), stream});
  } else {
    add({std::move(calls), stream});
  }
  return ncclInProgress;
}

// A call with a communicator that there still is.
template <class Use>
ncclResult_t with(ncclComm* comm, const Use& use) {
  const std::scoped_lock hold(lock);
  if (!comm || comm->end == ncclComm::destroyed || comm->end == ncclComm::aborted)
    return misuse_of("a call with a communicator that is gone"), ncclInvalidArgument;
  return use(*comm);
}

ncclResult_t call(Call c, CUstream_st* stream) {
  return with(c.comm, [&](ncclComm& comm) {
    if (!joined(comm)) return misuse_of("a call with a communicator that has not joined");
    if (comm.state != ncclSuccess) return comm.state;
    if (!shares_as_it_may(c)) return misuse_of("what is given and what is got share memory");
    if (c.peer < 0 || c.peer >= comm.ranks) return misuse_of("the communicator has no such rank");
    if (comm.process != stream->process) return misuse_of("a stream of another rank");
    if (groups == 0) return finish({c}, stream);
    if (group_stream && group_stream != stream) return misuse_of("a group on two streams");
    group_stream = stream;
    group.push_back(c);
    return ncclSuccess;
  });
}

}  // namespace

void reset() {
  const std::scoped_lock hold(lock);
  comms.clear();
  processes.clear();
  graphs.clear();
  misused = stuck_aborts = 0;
  first_misuse.clear();
}
ncclComm& communicator(int rank) {
  const std::scoped_lock hold(lock);
  const auto newest = std::max_element(comms.begin(), comms.end(), [&](const auto& a, const auto& b) {
    return std::pair(a->rank == rank && a->process == rank, a->ranks) < std::pair(b->rank == rank && b->process == rank, b->ranks);
  });
  return **newest;
}
int communicators() {
  const std::scoped_lock hold(lock);
  return static_cast<int>(comms.size());
}
bool ended(int rank) {
  const ncclComm& c = communicator(rank);
  const std::scoped_lock hold(lock);
  return c.end == ncclComm::destroyed || c.end == ncclComm::aborted;
}
bool is_done(const CUstream_st& stream) {
  const std::scoped_lock hold(lock);
  return std::ranges::none_of(processes[stream.process].queue, [&](const Batch& b) { return b.stream == &stream; });
}
void replay(CUstream_st& stream) {
  const std::scoped_lock hold(lock);
  for (const Batch& b : graphs[&stream]) add(b);
}
void destroy_graph(CUstream_st& stream) {
  const std::scoped_lock hold(lock);
  for (const Batch& b : graphs[&stream])
    for (const Call& c : b.calls) --c.comm->recorded;
  graphs.erase(&stream);
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
std::string misuse() {
  const std::scoped_lock hold(lock);
  return first_misuse;
}

}  // namespace tandem::test::nccl

using namespace tandem::test::nccl;

namespace {
const std::byte* at(const void* p) { return static_cast<const std::byte*>(p); }
std::byte* at(void* p) { return static_cast<std::byte*>(p); }
}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::scoped_lock hold(lock);
  std::snprintf(id->internal, sizeof id->internal, "group %d", ++ids);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--groups > 0) return ncclSuccess;
  const std::scoped_lock hold(lock);
  const std::vector<Call> calls = std::exchange(group, {});
  CUstream_st* const stream = std::exchange(group_stream, nullptr);
  return calls.empty() ? ncclInProgress : finish(calls, stream);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const std::scoped_lock hold(lock);
  if (config->blocking != 0) return ncclInvalidArgument;
  int device = 0;
  cudaGetDevice(&device);
  comms.push_back(std::make_unique<ncclComm>(
      ncclComm{.rank = rank, .ranks = ranks, .id = id.internal, .process = device, .in_progress = polls}));
  *comm = comms.back().get();
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return with(comm, [&](ncclComm& c) {
    if (!joined(c)) return *state = ncclInProgress, ncclSuccess;
    return *state = c.in_progress > 0 ? --c.in_progress, ncclInProgress : c.state, ncclSuccess;
  });
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t n, ncclDataType_t type, ncclRedOp_t fold, ncclComm_t comm, cudaStream_t s) {
  return call({Call::all_reduce, comm, at(from), at(to), n, type, fold, 0}, s);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t n, ncclDataType_t type, ncclRedOp_t fold, ncclComm_t comm,
                               cudaStream_t s) {
  return call({Call::reduce_scatter, comm, at(from), at(to), n, type, fold, 0}, s);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t n, ncclDataType_t type, ncclRedOp_t fold, int root, ncclComm_t comm,
                        cudaStream_t s) {
  return call({Call::reduce, comm, at(from), at(to), n, type, fold, root}, s);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t n, ncclDataType_t type, ncclComm_t comm, cudaStream_t s) {
  return call({Call::all_gather, comm, at(from), at(to), n, type, ncclSum, 0}, s);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t n, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t s) {
  return call({Call::broadcast, comm, at(from), at(to), n, type, ncclSum, root}, s);
}
ncclResult_t ncclSend(const void* from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s) {
  return call({Call::send, comm, at(from), nullptr, n, type, ncclSum, peer}, s);
}
ncclResult_t ncclRecv(void* to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s) {
  return call({Call::receive, comm, nullptr, at(to), n, type, ncclSum, peer}, s);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return with(comm, [](ncclComm& c) { return c.end = ncclComm::finalized, c.in_progress = polls, ncclInProgress; });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return with(comm, [](ncclComm& c) {
    return c.in_progress > 0 ? misuse_of("a communicator is destroyed while it is busy") : (c.end = ncclComm::destroyed, ncclSuccess);
  });
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t status = with(comm, [](ncclComm& c) { return c.end = ncclComm::aborted, progress(), ncclSuccess; });
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

// Devices are numbered as the tests' ranks are.
thread_local int device_of_thread = 0;
cudaError_t cudaGetDevice(int* device) { return *device = device_of_thread, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device_of_thread = device, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "stand-in error"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in error"; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new CUevent_st{.device = device_of_thread}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event->device != device_of_thread) misuse_of("an event is destroyed on another device than its own, which opens that one");
  return delete event, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::scoped_lock hold(lock);
  event->process = stream->process;
  event->batch = processes[stream->process].queued;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::scoped_lock hold(lock);
  return event->process < 0 || processes[event->process].done >= event->batch ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }  // all that is queued is done at once
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return *memory = std::malloc(bytes), cudaSuccess; }
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return *status = stream->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}

}  // extern "C"
