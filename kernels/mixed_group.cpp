#include "kernels/mixed_group.h"

#include <algorithm>

#include "kernels/exchange_rounds.h"
#include "kernels/host_group.h"

namespace tandem {
namespace {

class MixedGroup final : public CollectiveGroup {
 public:
  MixedGroup(const GroupSpec& spec, std::vector<const Backend*> backends)
      : first_(spec.first_rank),
        backends_(std::move(backends)),
        host_(spec.world ? host_group(spec) : in_process_group(static_cast<int>(spec.devices.size()), spec.timeout_seconds)) {}

  void connect(std::span<const ExchangeSpec> exchanges) override { host_->connect(exchanges); }
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override {
    std::unique_ptr<Kernel> kernel = host_->make(spec, rank);
    const auto member = static_cast<std::size_t>(std::ranges::find(spec.members, rank) - spec.members.begin());
    const auto size = static_cast<std::int64_t>(size_of(spec.dtype));
    const StagedBytes bytes{elements_given(spec, member) * size, elements_got(spec, member) * size, is_in_place(spec.kind)};
    return backends_[static_cast<std::size_t>(rank - first_)]->staged(std::move(kernel), bytes);
  }
  void abort(const std::string& reason) override { host_->abort(reason); }

 private:
  const int first_;
  const std::vector<const Backend*> backends_;
  const std::unique_ptr<CollectiveGroup> host_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> mixed_group(const GroupSpec& spec, std::vector<const Backend*> backends) {
  return std::make_unique<MixedGroup>(spec, std::move(backends));
}

}  // namespace tandem
