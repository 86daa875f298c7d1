// Sums over several processes: the devices of one come together first, and one of their threads exchanges the sums.
#include "kernels/host_group.h"

#include <algorithm>
#include <cstring>

#include "kernels/meeting.h"
#include "ranks/world.h"

namespace tandem {
namespace {

class HostGroup final : public CollectiveGroup {
 public:
  explicit HostGroup(const GroupSpec& spec)
      : world_(*spec.world),
        first_(spec.first_rank),
        ranks_(std::max(spec.ranks, static_cast<int>(spec.devices.size()))),
        meeting_(static_cast<int>(spec.devices.size()), spec.first_rank, spec.timeout_seconds),
        buffers_(spec.devices.size()) {
    world_.on_stop([this](const std::string& reason) { meeting_.abort(reason); });
  }
  ~HostGroup() override { world_.on_stop({}); }

  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override;
  void abort(const std::string& reason) override {
    meeting_.abort(reason);
    world_.stop(reason);
  }

  // The local devices' buffers come together; the first device's thread sums them with those of other processes.
  void sum(int local, std::byte* buffer, const ExchangeSpec& spec) {
    const bool largest = spec.kind == ExchangeKind::all_max;
    buffers_[static_cast<std::size_t>(local)] = buffer;
    if (buffers_.size() == 1) return world_.all_reduce(buffers_, spec.elements, spec.dtype, spec.channel, largest);
    meeting_.meet(local);
    if (local == 0) world_.all_reduce(buffers_, spec.elements, spec.dtype, spec.channel, largest);
    meeting_.meet(local);
    if (local > 0) std::memcpy(buffer, buffers_[0], static_cast<std::size_t>(spec.elements) * size_of(spec.dtype));
    meeting_.meet(local);
  }

 private:
  World& world_;
  const int first_, ranks_;
  Meeting meeting_;
  std::vector<std::byte*> buffers_;  // by local device
};

class HostAllReduce final : public Kernel {
 public:
  HostAllReduce(HostGroup& group, int local, const ExchangeSpec& spec) : group_(group), local_(local), spec_(spec) {}
  void bind(std::span<std::byte* const>, std::span<std::byte* const> outputs, std::byte*) override { buffer_ = outputs[0]; }
  void run(StreamHandle) override { group_.sum(local_, buffer_, spec_); }

 private:
  HostGroup& group_;
  const int local_;
  const ExchangeSpec spec_;
  std::byte* buffer_ = nullptr;
};

std::unique_ptr<Kernel> HostGroup::make(const ExchangeSpec& spec, int rank) {
  check_sums_over_all(spec, ranks_, "a group of several processes");
  const int local = rank - first_;
  if (local < 0 || local >= meeting_.members()) fail(ExitCode::communication, "all-reduce: device ", rank, " is not of rank ", world_.rank());
  return std::make_unique<HostAllReduce>(*this, local, spec);
}

}  // namespace

std::unique_ptr<CollectiveGroup> host_group(const GroupSpec& spec) { return std::make_unique<HostGroup>(spec); }

}  // namespace tandem
