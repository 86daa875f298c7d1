// Ranks of one process that share a GPU (logical devices): each sums its share of the elements for all of them.
#include "kernels/cuda/collectives/local_group.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/bodies/all_reduce.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/meeting.h"

namespace tandem::cuda {
namespace {

// What the ranks of one all-reduce share. Events are made on the GPU that all of them use.
struct Channel {
  explicit Channel(int ranks) : buffers(static_cast<std::size_t>(ranks)), ready(buffers.size()), done(buffers.size()) {
    for (auto* events : {&ready, &done})
      for (cudaEvent_t& e : *events) check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "create an event");
  }
  ~Channel() {
    for (auto* events : {&ready, &done})
      for (const cudaEvent_t e : *events) cudaEventDestroy(e);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  std::vector<std::byte*> buffers;
  std::vector<cudaEvent_t> ready, done;
};

class LocalAllReduce final : public Kernel {
 public:
  LocalAllReduce(Meeting& meeting, Channel& channel, int rank, const ExchangeSpec& spec)
      : meeting_(meeting),
        channel_(channel),
        rank_(rank),
        elements_(spec.elements),
        dtype_(spec.dtype),
        largest_(spec.kind == ExchangeKind::all_max) {}

  void bind(std::span<std::byte* const>, std::span<std::byte* const> outputs, std::byte*) override {
    channel_.buffers[static_cast<std::size_t>(rank_)] = outputs[0];
  }

  void run(StreamHandle handle) override {
    auto* const stream = static_cast<cudaStream_t>(handle.native);
    const auto r = static_cast<std::size_t>(rank_);
    check(cudaEventRecord(channel_.ready[r], stream), "record an event");
    meeting_.meet(rank_);
    for (const cudaEvent_t e : channel_.ready) check(cudaStreamWaitEvent(stream, e, 0), "wait for an event");
    sum(handle.native);
    check(cudaEventRecord(channel_.done[r], stream), "record an event");
    meeting_.meet(rank_);
    for (const cudaEvent_t e : channel_.done) check(cudaStreamWaitEvent(stream, e, 0), "wait for an event");
  }

 private:
  void sum(void* stream) {
    visit_storage(dtype_, [&]<class T>() {
      const auto ranks = static_cast<std::int64_t>(channel_.buffers.size());
      AllReduceBody<T> body{};
      body.ranks = static_cast<int>(ranks);
      body.largest = largest_;
      for (std::size_t k = 0; k < channel_.buffers.size(); ++k) body.buffers[k] = reinterpret_cast<T*>(channel_.buffers[k]);
      body.begin = elements_ * rank_ / ranks;
      body.end = elements_ * (rank_ + 1) / ranks;
      launch(body, blocks_for(body.end - body.begin, AllReduceBody<T>::threads), stream);
    });
  }

  Meeting& meeting_;
  Channel& channel_;
  int rank_;
  std::int64_t elements_;
  DType dtype_;
  bool largest_;
};

class LocalGroup final : public CollectiveGroup {
 public:
  LocalGroup(int ranks, double timeout_seconds) : ranks_(ranks), meeting_(ranks, 0, timeout_seconds) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override {
    check_sums_over_all(spec, ranks_, "a group of logical devices on one GPU");
    const std::scoped_lock hold(lock_);
    const auto c = static_cast<std::size_t>(spec.channel);
    if (channels_.size() <= c) channels_.resize(c + 1);
    if (!channels_[c]) channels_[c] = std::make_unique<Channel>(ranks_);
    return std::make_unique<LocalAllReduce>(meeting_, *channels_[c], rank, spec);
  }
  void abort(const std::string& reason) override { meeting_.abort(reason); }

 private:
  int ranks_;
  Meeting meeting_;
  std::mutex lock_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> local_group(int ranks, double timeout_seconds) {
  if (ranks > max_local_ranks) fail(ExitCode::device, ranks, " logical devices on one GPU, expected ", max_local_ranks, " at most");
  return std::make_unique<LocalGroup>(ranks, timeout_seconds);
}

}  // namespace tandem::cuda
