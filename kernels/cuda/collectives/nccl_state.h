// The group of ranks with a GPU each: its communicators, its exchanges, and the thread that watches them.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/cuda/collectives/nccl_calls.h"
#include "kernels/device.h"
#include "kernels/meetings.h"

namespace tandem::cuda {

using Clock = std::chrono::steady_clock;
inline Clock::duration seconds(double count) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count)); }

// A rank's end of a communicator, and how far the newest exchange of it has come. Null where the rank is no member.
struct End {
  ncclComm_t comm = nullptr;
  cudaEvent_t newest = nullptr;
  std::uint64_t queued = 0;
  bool pending = false;
  Clock::time_point since;
};

// One rank of this process.
struct Rank {
  int device = 0;
  std::vector<End> ends;  // by communicator
  int steps = 0;          // under way: the recorded exchanges of one are watched as a whole
  Clock::time_point step_since;
};

class NcclGroup final : public CollectiveGroup {
 public:
  explicit NcclGroup(const GroupSpec& spec);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void connect(std::span<const ExchangeSpec> exchanges) override;
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override;
  void abort(const std::string& reason) override { stop(reason, true); }
  // Several recorded ranks of one process could wait for each other: NCCL wants a process for each.
  bool captures() const override { return ranks_.size() == 1; }
  bool registers() const override { return true; }
  void meet(int channel, int rank) override { meetings_.meet(channel, rank); }
  void begin_step(int rank) override;
  void end_step(int rank) override;
  // Null where NCCL cannot: the sum then goes through buffers of its own.
  void* register_buffer(std::size_t local, std::size_t communicator, void* buffer, std::size_t bytes);
  void unregister_buffer(std::size_t local, std::size_t communicator, void* registration);
  // `call` queues an exchange's calls with the rank's end of the communicator.
  void queue(std::size_t local, std::size_t communicator, ExchangeKind kind, cudaStream_t stream,
             const std::function<ncclResult_t(ncclComm_t)>& call);

 private:
  // Calls NCCL, unless the group has stopped: an aborted communicator is no more.
  template <class Call>
  ncclResult_t call_nccl(const Call& call);
  std::vector<ncclUniqueId> make_ids(std::size_t count);
  void join(std::vector<int> members, const ncclUniqueId& id);
  ncclResult_t init(std::size_t communicator, const ncclUniqueId& id);
  std::size_t communicator_of(const ExchangeSpec& spec) const;  // the number of communicators where there is none
  // Waits while NCCL works on a call of its own; fails with its reason.
  void settle(ncclComm_t comm, ncclResult_t status, std::string_view what);
  void leave();
  // From now on every call fails with the reason; the watcher ends what waits on the GPU.
  void stop(const std::string& reason, bool tell);
  void abort_all();
  void watch();
  template <class Call>
  void for_each_end(const Call& call) const {
    for (const Rank& r : ranks_)
      for (const End& e : r.ends)
        if (e.comm) call(e);
  }
  std::string who_is_late() const;
  std::string reason_of_delay(std::unique_lock<std::mutex>& hold);

  double timeout_;
  int first_rank_, all_ranks_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> communicators_;  // their ranks; the first has all
  World* const world_;  // the other processes, or null
  mutable std::mutex lock_;
  std::condition_variable wake_;
  Meetings meetings_;
  std::string stopped_;
  bool ending_ = false;
  std::thread watcher_;
};

template <class Call>
ncclResult_t NcclGroup::call_nccl(const Call& call) {
  const std::scoped_lock hold(lock_);
  if (!stopped_.empty()) fail(ExitCode::communication, stopped_);
  return call();
}

}  // namespace tandem::cuda
