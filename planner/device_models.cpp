#include "planner/device_models.h"

#include <set>

namespace tandem {
int devices_of_a_machine(const std::vector<DeviceSpec>& devices) {
  std::set<std::pair<int, int>> different;
  for (const DeviceSpec& d : devices) different.insert({d.id.index, d.logical});
  return static_cast<int>(different.size());
}

std::vector<DeviceModel> models_of(const CompileOptions& o, Backends backends) {
  const auto keeps = [&](std::size_t d) { return only_keeps(o, static_cast<int>(d)); };
  std::vector<DeviceSpec> computing, keeping;
  for (std::size_t d = 0; d < o.devices.size(); ++d) (keeps(d) ? keeping : computing).push_back(o.devices[d]);
  std::vector<DeviceModel> models;
  for (std::size_t d = 0; d < o.devices.size(); ++d) {
    const Backend& backend = find_backend(backends, o.devices[d].id.backend);
    models.push_back(backend.model(o.devices[d].id.index, devices_of_a_machine(keeps(d) ? keeping : computing)));
  }
  return models;
}

}  // namespace tandem
