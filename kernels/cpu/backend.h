// The CPU backend: oneDNN and native vector kernels. Devices cpu:0, cpu:1, … are shares of one machine's cores.
#pragma once
#include <memory>
#include <mutex>

#include "kernels/device.h"

namespace tandem {

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::string version() const override;
  std::string computes_by() const override;
  std::string unusable() const override { return {}; }
  int device_count() const override { return 64; }
  std::string declines(Precision precision) const override;
  DeviceModel model(int index, int devices_in_use) const override;
  std::int64_t free_memory(int index, int devices_in_use) const override;
  std::vector<KernelRow> rows() const override;
  std::vector<KernelDescription> describe(const KernelRequest& request) const override;
  Gain fuses(const KernelRequest& request) const override;
  Timing measure(const KernelDescription& description, const KernelOptions& options) const override;
  void release_scratch() const override;
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override;

 private:
  std::byte* scratch(std::int64_t bytes) const;  // under the lock
  Timing time_kernel(const KernelDescription& description, const KernelOptions& options) const;

  mutable std::mutex scratch_lock_;
  mutable std::unique_ptr<Device> scratch_memory_;
  mutable std::byte* scratch_ = nullptr;
  mutable std::int64_t scratch_bytes_ = 0;
};

const Backend& cpu_backend();

}  // namespace tandem
