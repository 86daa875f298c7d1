// A group whose ranks are all threads of this process.
#include "kernels/collective.h"
#include "kernels/member_exchange.h"

namespace tandem {
namespace {

class InProcessGroup final : public CollectiveGroup {
 public:
  InProcessGroup(int ranks, double timeout_seconds) : channels_({.first = 0, .count = ranks, .timeout_seconds = timeout_seconds}) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override { return channels_.make(spec, rank); }
  void abort(const std::string& reason) override { channels_.abort(reason); }

 private:
  Channels channels_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> in_process_group(int ranks, double timeout_seconds) {
  if (ranks < 1) fail(ExitCode::communication, "a collective group of ", ranks, " ranks");
  return std::make_unique<InProcessGroup>(ranks, timeout_seconds);
}

}  // namespace tandem
