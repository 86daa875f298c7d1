// Devices that compute, and those that only keep activations.
#include <algorithm>
#include <limits>

#include "planner/options.h"

namespace tandem {

bool only_keeps(const CompileOptions& o, int device) {
  return !o.parallel.has_weights(device) && device != o.parallel.merge_on &&
         std::ranges::find(o.memory.activations_on, device) != o.memory.activations_on.end();
}

std::vector<int> computing_devices(const CompileOptions& o) {
  std::vector<int> devices;
  for (int d = 0; d < static_cast<int>(o.devices.size()); ++d)
    if (!only_keeps(o, d)) devices.push_back(d);
  return devices;
}

void insert_cpu_device(CompileOptions& o, int place) {
  int number = 0;
  for (const DeviceSpec& d : o.devices)
    if (d.id.backend == "cpu") number = std::max(number, d.id.index + 1);
  const auto moved = [&](int device) { return device >= place ? device + 1 : device; };
  const auto insert = [&](auto& list, auto value) {
    if (list.size() == 1) list.resize(o.devices.size(), list[0]);
    if (!list.empty()) list.insert(list.begin() + place, value);
  };
  insert(o.memory.most, std::int64_t{0});
  insert(o.memory.free, std::int64_t{-1});
  if (o.memory.budget) insert(o.memory.budget->bytes, std::numeric_limits<std::int64_t>::max());
  for (int& keeper : o.memory.activations_on) keeper = moved(keeper);
  if (!o.memory.activations_on.empty()) o.memory.activations_on.insert(o.memory.activations_on.begin() + place, -1);
  for (Parallelism::Place& rule : o.parallel.places)
    for (int& d : rule.devices) d = moved(d);
  o.parallel.weights_on = moved(o.parallel.weights_on);
  o.parallel.merge_on = moved(o.parallel.merge_on);
  for (int& home : o.parallel.weights_on_too) home = moved(home);
  o.devices.insert(o.devices.begin() + place, {.id = {"cpu", number}, .weight = 0});
}

}  // namespace tandem
