// A backend of devices that are only described: plans are made for them, and nothing runs.
#pragma once
#include <memory>

#include "kernels/described/device_kind.h"
#include "kernels/device.h"

namespace tandem {

// The kernels that plans for such devices have: those of a GPU, as far as they can be told without its libraries. In a module of their
// own, libtandem_described.so (base/module.h).
class DescribedKernels {
 public:
  virtual ~DescribedKernels() = default;
  virtual std::vector<KernelRow> rows() const = 0;
  // Names begin with "assumed."; workspaces of libraries are not counted.
  virtual std::vector<KernelDescription> describe(const KernelRequest& request) const = 0;
  virtual Gain fuses(const KernelRequest& request, int capability) const = 0;
};

class DescribedBackend final : public Backend {
 public:
  DescribedBackend(DeviceKind kind, const DescribedKernels& kernels) : kind_(std::move(kind)), kernels_(kernels) {}

  std::string name() const override { return kind_.name; }
  std::string version() const override { return concat("description of ", kind_.product); }
  std::string unusable() const override;
  int device_count() const override { return 1 << 16; }
  std::string declines(Precision precision) const override;
  bool stages_inputs() const override { return true; }
  std::string assumed() const override;
  DeviceModel model(int index, int devices_in_use) const override;
  std::vector<KernelRow> rows() const override { return kernels_.rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override;
  Gain fuses(const KernelRequest& request) const override { return kernels_.fuses(request, kind_.capability); }
  Timing measure(const KernelDescription&, const KernelOptions&) const override;
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override;

 private:
  double efficiency(const KernelRequest& request, const KernelDescription& described) const;
  DeviceKind kind_;
  const DescribedKernels& kernels_;
};

// Of the module; null where it is not there, and why.
const DescribedKernels* open_described_kernels(std::string& reason);

}  // namespace tandem
