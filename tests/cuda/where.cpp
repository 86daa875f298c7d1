#include "tests/cuda/where.h"

#include "tests/cuda/host_backend.h"

namespace tandem::cuda {

void PrintTo(Where where, std::ostream* out) { *out << (where == Where::host ? "host" : "gpu"); }

Place::Place(Where where) : describe_(describe_emulated) {
  if (where == Where::host) return;
  const Backend* const backend = cuda_module(missing_);
  if (backend) missing_ = backend->unusable();
  if (!missing_.empty()) return;
  describe_ = [backend](const KernelRequest& r) { return backend->describe(r); };
  device_ = backend->open(0, {});
  device_->activate();
}

std::vector<Ran> Place::run_all(const Job& job, const std::vector<Held>& inputs) {
  std::vector<std::string> kernels;
  std::vector<std::vector<Held>> outputs =
      device_ ? run_all_on(*device_, describe_, job, inputs, kernels) : run_all_on_host(describe_, job, inputs, kernels);
  EXPECT_FALSE(outputs.empty()) << job.op << " has no kernel for its first input " << (inputs.empty() ? "" : to_string(inputs[0].operand));
  std::vector<Ran> all;
  for (std::size_t i = 0; i < outputs.size(); ++i) all.push_back({kernels[i], std::move(outputs[i])});
  return all;
}

}  // namespace tandem::cuda
