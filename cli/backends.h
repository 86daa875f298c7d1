// The backends this program was built with, and those it finds as modules: the one place that knows them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/described/described_backend.h"
#include "planner/compile.h"

namespace tandem {

struct MissingBackend {
  std::string name;
  std::string reason;
};

class BackendSet {
 public:
  // The CPU's, and CUDA's where its module is found (kernels/module.h).
  static BackendSet load();
  // Only those that these devices need: CUDA's libraries take a while to load, and 200 MB. Devices of other names are of these kinds.
  static BackendSet load(const std::vector<DeviceSpec>& devices, const std::vector<DeviceKind>& kinds = known_device_kinds());
  Backends all() const { return usable_; }
  const std::vector<MissingBackend>& missing() const { return missing_; }
  // Fails (device) with the reason where a device's backend is not there or, with `to_open`, cannot be used now.
  void check(const std::vector<DeviceSpec>& devices, bool to_open) const;
  // What a plan for devices that are not here was made for.
  std::vector<std::string> notes(const std::vector<DeviceSpec>& devices) const;

 private:
  template <class Wanted>
  static BackendSet load_if(const Wanted& wanted);

  std::vector<const Backend*> usable_;
  std::vector<std::shared_ptr<const Backend>> described_;
  std::vector<MissingBackend> missing_;
};

}  // namespace tandem
