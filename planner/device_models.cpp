#include "planner/device_models.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tandem {
namespace {

// The host of devices that are described, with what is known of it.
class Host {
 public:
  void add(const DeviceModel& described) {
    bandwidth_ = std::max(bandwidth_, described.links.host_bandwidth);
    if (products_.insert(described.name).second) name_ += concat(products_.size() > 1 ? ", " : "host of ", described.name);
  }
  bool present() const { return !products_.empty(); }

  // The slower link of the two ends counts, which is each device's own.
  void stand_for(DeviceModel& cpu) const {
    cpu.name = name_;
    cpu.memory = 0;
    cpu.link_bandwidth = std::max(cpu.link_bandwidth, bandwidth_);
    cpu.links.host_bandwidth = std::max(cpu.links.host_bandwidth, bandwidth_);
  }
  std::string warning(const DeviceId& device) const {
    return concat(device, " stands for the ", name_, ": its link moves ", std::round(bandwidth_ / 1e8) / 10,
                  " GB/s each way, it computes as this machine's processor does, and its memory is not known");
  }

 private:
  double bandwidth_ = 0;
  std::string name_;
  std::set<std::string> products_;
};

}  // namespace

int devices_of_a_machine(const std::vector<DeviceSpec>& devices) {
  std::set<std::pair<int, int>> different;
  for (const DeviceSpec& d : devices) different.insert({d.id.index, d.logical});
  return static_cast<int>(different.size());
}

std::vector<DeviceModel> models_of(const CompileOptions& o, Backends backends, std::vector<std::string>& warnings) {
  const auto keeps = [&](std::size_t d) { return only_keeps(o, static_cast<int>(d)); };
  std::vector<DeviceSpec> computing, keeping;
  for (std::size_t d = 0; d < o.devices.size(); ++d) (keeps(d) ? keeping : computing).push_back(o.devices[d]);
  std::vector<DeviceModel> models;
  Host host;
  for (std::size_t d = 0; d < o.devices.size(); ++d) {
    const Backend& backend = find_backend(backends, o.devices[d].id.backend);
    models.push_back(backend.model(o.devices[d].id.index, devices_of_a_machine(keeps(d) ? keeping : computing)));
    if (!backend.assumed().empty()) host.add(models.back());
  }
  bool told = false;
  for (std::size_t d = 0; host.present() && d < o.devices.size(); ++d) {
    if (o.devices[d].id.backend != "cpu") continue;
    host.stand_for(models[d]);
    if (!std::exchange(told, true)) warnings.push_back(host.warning(o.devices[d].id));
  }
  // Values that devices exchange as one, such as buckets of gradients, have the same bytes on each.
  std::int64_t alignment = 0;
  for (const DeviceModel& m : models) alignment = std::max(alignment, m.alignment);
  for (DeviceModel& m : models) m.alignment = alignment;
  return models;
}

}  // namespace tandem
