// Exchanges of devices of several processes go through memory that all processes share. Where they share none, sums over all devices go
// by the chain, where that takes no longer than from member to member: the devices of one process come together first, and one of their
// threads exchanges the sums. All other exchanges go from member to member.
#include "kernels/host_group.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/exchange_rounds.h"
#include "kernels/member_exchange.h"
#include "kernels/shared_exchange.h"
#include "kernels/sum_route.h"
#include "ranks/world.h"

namespace tandem {
namespace {

class HostGroup final : public CollectiveGroup {
 public:
  explicit HostGroup(const GroupSpec& spec)
      : world_(*spec.world),
        first_(spec.first_rank),
        ranks_(std::max(spec.ranks, static_cast<int>(spec.devices.size()))),
        shared_(world_, static_cast<int>(spec.devices.size())),
        channels_({.first = first_, .count = static_cast<int>(spec.devices.size()), .world = spec.world}),
        meeting_(static_cast<int>(spec.devices.size()), spec.first_rank, spec.timeout_seconds),
        buffers_(spec.devices.size()),
        route_(world_, static_cast<int>(spec.devices.size())) {
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
  bool goes_by_chain(const ExchangeSpec& spec) const { return is_sum_over_all(spec, ranks_) && !route_.is_by_pairs(spec); }
  bool is_of_one_process(const ExchangeSpec& spec) const;
  void wake(const std::string& reason) {
    shared_.abort(reason);
    meeting_.abort(reason);
    channels_.abort(reason);
  }

  World& world_;
  const int first_, ranks_;
  SharedExchanges shared_;
  Channels channels_;  // whose members wait for each other without end: who waits at a line judges who is at fault
  Meeting meeting_;    // of sums over all
  std::vector<std::byte*> buffers_;  // by local device
  SumRoute route_;
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

bool HostGroup::is_of_one_process(const ExchangeSpec& spec) const {
  const int each = static_cast<int>(buffers_.size());
  return std::ranges::all_of(spec.members, [&](int m) { return m / each == spec.members[0] / each; });
}

void HostGroup::connect(std::span<const ExchangeSpec> exchanges) {
  const int each = static_cast<int>(buffers_.size());
  std::vector<ExchangeSpec> across;
  std::ranges::copy_if(exchanges, std::back_inserter(across), [&](const ExchangeSpec& s) { return !is_of_one_process(s); });
  for (const ExchangeSpec& spec : exchanges) check(spec);
  const bool shared = shared_.connect(across);
  if (!shared && std::ranges::any_of(exchanges, [&](const ExchangeSpec& s) { return is_sum_over_all(s, ranks_); })) route_.choose();
  std::vector<DeviceLine> lines;
  for (const ExchangeSpec& spec : exchanges)
    if (shared || !goes_by_chain(spec)) add_lines(spec, each, lines);
  world_.open_lines(std::move(lines));
}

std::unique_ptr<Kernel> HostGroup::make(const ExchangeSpec& spec, int rank) {
  const int local = rank - first_, each = meeting_.members();
  check(spec);
  if (local < 0 || local >= each) fail(ExitCode::communication, name_of(spec.kind), ": device ", rank, " is not of rank ", world_.rank());
  const std::size_t members = spec.members.size();
  if (const auto self = static_cast<std::size_t>(std::ranges::find(spec.members, rank) - spec.members.begin()); self < members) {
    std::vector<LineEnd> others;
    for (std::size_t m = 0; m < members; ++m)
      if (spec.members[m] / each != world_.rank() && tandem::meet(spec, self, m)) others.push_back({spec.members[m], spec.stream(m)});
    if (std::unique_ptr<Kernel> kernel = shared_.make(spec, self, others)) return kernel;
  }
  if (!goes_by_chain(spec)) return channels_.make(spec, rank);
  return std::make_unique<HostAllReduce>(*this, local, spec);
}

}  // namespace

std::unique_ptr<CollectiveGroup> host_group(const GroupSpec& spec) { return std::make_unique<HostGroup>(spec); }

}  // namespace tandem
