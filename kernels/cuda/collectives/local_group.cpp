// Ranks of one process that share a GPU (logical devices): each sums its share of the elements for all of them, and copies what it gets.
#include "kernels/cuda/collectives/local_group.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/cuda/bodies/fold.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/exchange_rounds.h"
#include "kernels/meetings.h"

namespace tandem::cuda {
namespace {

// What the members of an exchange share. Events are made on the GPU that all of them use.
struct Channel {
  Channel(const ExchangeSpec& s, Meeting& all)
      : spec(s),
        gives(s.members.size()),
        gets(s.members.size()),
        ready(s.members.size()),
        done(s.members.size()),
        meeting(all) {
    check(cudaGetDevice(&device), "read the current device");
    for (auto* events : {&ready, &done})
      for (cudaEvent_t& e : *events) check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "create an event");
  }
  ~Channel() {
    cudaSetDevice(device);  // else the runtime would open device 0 for a thread that has used none
    for (auto* events : {&ready, &done})
      for (const cudaEvent_t e : *events) cudaEventDestroy(e);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  const ExchangeSpec spec;
  std::vector<std::byte*> gives, gets;  // by member
  std::vector<cudaEvent_t> ready, done;
  int device = 0;
  Meeting& meeting;
};

// Every member's stream waits until all have come, moves what is its own to move, and waits until all have.
class LocalExchange final : public Kernel {
 public:
  LocalExchange(Channel& channel, std::size_t self) : channel_(channel), spec_(channel.spec), self_(self) {
    const Round& round = rounds_of(spec_.kind)[0];
    for (std::size_t m = 0; m < spec_.members.size(); ++m) in_.push_back(round.leg(spec_, m, self));
    folds_ = round.folds;
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    std::byte* const gets = outputs.empty() ? nullptr : outputs[0];
    channel_.gives[self_] = is_in_place(spec_.kind) ? gets : inputs.empty() ? nullptr : inputs[0];
    channel_.gets[self_] = gets;
  }

  void run(StreamHandle handle) override {
    auto* const stream = static_cast<cudaStream_t>(handle.native);
    meet(channel_.ready, stream);
    folds_ ? fold(handle.native) : copy(stream);
    meet(channel_.done, stream);
  }

 private:
  void meet(const std::vector<cudaEvent_t>& events, cudaStream_t stream) {
    check(cudaEventRecord(events[self_], stream), "record an event");
    channel_.meeting.meet(static_cast<int>(self_));
    for (const cudaEvent_t e : events) check(cudaStreamWaitEvent(stream, e, 0), "wait for an event");
  }

  // The sums of an exchange in place go to all members.
  void fold(void* stream) {
    const Leg& leg = in_[self_];
    if (leg.elements == 0) return;
    visit_storage(spec_.dtype, [&]<class T>() {
      FoldBody<T> body{};
      for (const std::byte* given : channel_.gives) body.from[body.given++] = reinterpret_cast<const T*>(given) + leg.from;
      for (std::size_t m = 0; m < channel_.gets.size(); ++m)
        if (is_in_place(spec_.kind) || m == self_) body.to[body.written++] = reinterpret_cast<T*>(channel_.gets[m]) + leg.to;
      body.largest = spec_.kind == ExchangeKind::all_max;
      body.elements = leg.elements;
      launch(body, blocks_for(leg.elements, FoldBody<T>::threads), stream);
    });
  }

  void copy(cudaStream_t stream) {
    const auto size = static_cast<std::int64_t>(size_of(spec_.dtype));
    std::byte* const gets = channel_.gets[self_];
    if (!gets) return;
    for (std::size_t m = 0; m < in_.size(); ++m) {
      const std::byte* const from = channel_.gives[m] + in_[m].from * size;
      std::byte* const to = gets + in_[m].to * size;
      if (in_[m].elements == 0 || from == to) continue;  // its own part may lie in its place
      const auto bytes = static_cast<std::size_t>(in_[m].elements * size);
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy on the device");
    }
  }

  Channel& channel_;
  const ExchangeSpec& spec_;
  const std::size_t self_;
  std::vector<Leg> in_;  // by member that gives
  bool folds_ = false;
};

class LocalGroup final : public CollectiveGroup {
 public:
  LocalGroup(int ranks, double timeout_seconds) : meetings_(0, ranks, timeout_seconds) {}

  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override {
    const auto self = std::find(spec.members.begin(), spec.members.end(), rank);
    std::string fault = self == spec.members.end() ? concat("rank ", rank, " is no member") : fault_of(spec);
    const std::scoped_lock hold(lock_);
    auto& channel = channels_[spec.channel];
    if (fault.empty() && channel && channel->spec != spec) fault = "ranks make different exchanges of one channel";
    if (!fault.empty())
      fail(ExitCode::communication, name_of(spec.kind), " among ", spec.members.size(), " logical devices: ", fault);
    if (!channel) channel = std::make_unique<Channel>(spec, meetings_.of(spec));
    return std::make_unique<LocalExchange>(*channel, static_cast<std::size_t>(self - spec.members.begin()));
  }

  void abort(const std::string& reason) override { meetings_.abort(reason); }

 private:
  Meetings meetings_;
  std::mutex lock_;  // not taken while steps run
  std::map<int, std::unique_ptr<Channel>> channels_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> local_group(int ranks, double timeout_seconds) {
  if (ranks > max_local_ranks) fail(ExitCode::device, ranks, " logical devices on one GPU, expected ", max_local_ranks, " at most");
  return std::make_unique<LocalGroup>(ranks, timeout_seconds);
}

}  // namespace tandem::cuda
