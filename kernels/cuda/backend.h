// The CUDA backend. The module libtandem_cuda.so exports it as
//   extern "C" const tandem::Backend* tandem_backend();
#pragma once
#include <map>
#include <mutex>

#include "kernels/device.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/timing.h"

namespace tandem::cuda {

class CudaBackend final : public Backend {
 public:
  CudaBackend();  // plans for the machine's devices, or for an H200 where there is none
  std::string name() const override { return "cuda"; }
  std::string version() const override;
  std::string unusable() const override { return unusable_; }
  std::string declines(Precision precision) const override;
  bool stages_inputs() const override { return true; }
  int device_count() const override { return device_count_; }
  DeviceModel model(int index, int devices_in_use) const override;
  std::int64_t free_memory(int index, int devices_in_use) const override;
  std::vector<KernelRow> rows() const override;
  std::vector<KernelDescription> describe(const KernelRequest& request) const override;
  Gain fuses(const KernelRequest& request) const override;
  Timing measure(const KernelDescription& description, const KernelOptions& options) const override;
  void release_scratch() const override;
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override;
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override;
  std::unique_ptr<Kernel> staged(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes) const override;

 private:
  int device_count_ = 0;
  std::string unusable_;
  std::vector<std::string> reasons_;  // by device: why it cannot be used, or empty
  std::unique_ptr<Libraries> libraries_;
  mutable std::mutex timing_;
  mutable std::map<int, KernelTimer> timers_;  // by device
};

}  // namespace tandem::cuda
