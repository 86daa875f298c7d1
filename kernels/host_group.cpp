// Sums over all devices of several processes: the devices of one come together first, and one of their threads exchanges the sums by
// the chain. All other exchanges go from member to member.
#include "kernels/host_group.h"

#include <algorithm>
#include <cstring>

#include "kernels/exchange_rounds.h"
#include "kernels/member_exchange.h"
#include "ranks/world.h"

namespace tandem {
namespace {

class HostGroup final : public CollectiveGroup {
 public:
  explicit HostGroup(const GroupSpec& spec)
      : world_(*spec.world),
        first_(spec.first_rank),
        ranks_(std::max(spec.ranks, static_cast<int>(spec.devices.size()))),
        channels_({.first = first_, .count = static_cast<int>(spec.devices.size()), .world = spec.world}),
        meeting_(static_cast<int>(spec.devices.size()), spec.first_rank, spec.timeout_seconds),
        buffers_(spec.devices.size()) {
    world_.on_stop([this](const std::string& reason) { wake(reason); });
  }
  ~HostGroup() override { world_.on_stop({}); }

  void connect(std::span<const ExchangeSpec> exchanges) override;
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override;
  void abort(const std::string& reason) override {
    wake(reason);
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
  void wake(const std::string& reason) {
    meeting_.abort(reason);
    channels_.abort(reason);
  }

  World& world_;
  const int first_, ranks_;
  Channels channels_;  // whose members wait for each other without end: who waits at a line judges who is at fault
  Meeting meeting_;    // of sums over all
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

// The lines that members of different processes need between them.
void HostGroup::connect(std::span<const ExchangeSpec> exchanges) {
  const int each = static_cast<int>(buffers_.size());
  std::vector<DeviceLine> lines;
  for (const ExchangeSpec& spec : exchanges) {
    if (is_sum_over_all(spec, ranks_)) continue;
    check(spec);
    for (std::size_t a = 0; a < spec.members.size(); ++a)
      for (std::size_t b = 0; b < spec.members.size(); ++b) {
        const int low = spec.members[a], high = spec.members[b];
        if (low / each < high / each && tandem::meet(spec, a, b))
          lines.push_back({{low, spec.stream(a)}, {high, spec.stream(b)}, low / each, high / each});
      }
  }
  world_.open_lines(std::move(lines));
}

std::unique_ptr<Kernel> HostGroup::make(const ExchangeSpec& spec, int rank) {
  const int local = rank - first_;
  if (!is_sum_over_all(spec, ranks_)) return channels_.make(spec, rank);
  check(spec);
  if (local < 0 || local >= meeting_.members())
    fail(ExitCode::communication, "all-reduce: device ", rank, " is not of rank ", world_.rank());
  return std::make_unique<HostAllReduce>(*this, local, spec);
}

}  // namespace

std::unique_ptr<CollectiveGroup> host_group(const GroupSpec& spec) { return std::make_unique<HostGroup>(spec); }

}  // namespace tandem
