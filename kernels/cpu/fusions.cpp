// The forms of nodes by which a step on a CPU gains: what passes may make of several nodes. A row says of which forms that is
// true; all of them have kernels.
#include "kernels/cpu/fusions.h"

#include <algorithm>

namespace tandem {
namespace {

bool always(const KernelRequest&) { return true; }

struct Form {
  std::string_view op;
  bool (*gains)(const KernelRequest& request);
};
constexpr Form forms[] = {
    {"AttentionTraining", always},
};

}  // namespace

bool cpu_fuses(const KernelRequest& request) {
  return std::any_of(std::begin(forms), std::end(forms), [&](const Form& form) { return form.op == request.op && form.gains(request); });
}

}  // namespace tandem
