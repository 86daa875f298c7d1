// CUDA plans on the host: what the CUDA backend describes (from its module where that was built, else our own kernels
// alone), run by the emulation of our own kernels and, for the libraries' kernels, by the CPU backend's native ones.
// Devices are those of the runtime's tests: guarded memory, streams as queues, capture.
#pragma once
#include <functional>
#include <utility>

#include "kernels/cuda/kernels.h"
#include "tests/runtime/fake_backend.h"

namespace tandem::cuda {

// The module, opened, or null and why not.
const Backend* cuda_module(std::string& reason);

class HostCudaBackend : public Backend {
 public:
  explicit HostCudaBackend(bool with_module);
  test::FakeBackend devices;
  // Of the forms that the CUDA backend gains by on an H200, those that plans are not to have.
  std::function<bool(const KernelRequest&)> refused = [](const KernelRequest&) { return false; };

  std::string name() const override { return "cuda"; }
  std::string version() const override { return "host"; }
  std::string unusable() const override { return {}; }
  int device_count() const override { return 8; }
  std::string declines(Precision) const override { return {}; }
  bool stages_inputs() const override { return true; }
  DeviceModel model(int index, int devices_in_use) const override;
  std::vector<KernelRow> rows() const override { return {}; }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override;
  Gain fuses(const KernelRequest& request) const override { return refused(request) ? Gain::no : cuda::fuses(request, 90); }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override { return devices.create_group(spec); }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override { return devices.open(index, options); }

 private:
  const Backend* module_ = nullptr;
};

}  // namespace tandem::cuda
