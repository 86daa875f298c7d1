#include "cli/chosen_devices.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/cores.h"
#include "cli/backends.h"
#include "kernels/cpu/numa.h"
#include "options/device_flags.h"
#include "trainer/devices.h"

namespace tandem {
namespace {

// Without NVIDIA's driver no module is opened: CUDA's libraries take a while to load.
bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) dlclose(driver);
  return driver != nullptr;
}

Gpus gpus_here() {
  if (!has_driver()) return {.reason = "no GPU is here"};
  const BackendSet backends = BackendSet::load();
  Gpus gpus = gpus_of(backends.all());
  if (gpus.count == 0 && !backends.missing().empty()) gpus.reason = concat("no GPU can be used: ", backends.missing()[0].reason);
  return gpus;
}

// One device of all cores stays what nobody chose: BatchNormalization has the whole batch then, and a run computes the same on a machine
// of one node.
std::string across_nodes() {
  const std::vector<int> cores = usable_cores();
  const std::size_t nodes = numa_nodes(cores).size();
  if (nodes == 0) return {};
  return concat("note: devices cpu:0: one device of ", cores.size(), " cores on ", nodes,
                " NUMA nodes, its memory spread over them; cpu:0-", nodes - 1, " has one for each node (", device_flags.devices.flag(),
                " overrules it)");
}

}  // namespace

Arguments with_devices(const Invocation& call, std::int64_t processes, bool tell) {
  Arguments a = call.arguments;
  const DeviceChoice choice = chosen_devices(a[device_flags.devices], static_cast<int>(std::min<std::int64_t>(processes, 1024)), gpus_here,
                                             devices_in(a[device_flags.place]));
  const bool left_open = !a.given(device_flags.devices) && choice.list == "cpu:0";
  if (const std::string text = tell && (left_open || choice.list == "cpu") ? across_nodes() : ""; !text.empty()) call.say(text);
  if (choice.why.empty()) return a;
  if (tell && !left_open)
    call.say(concat("note: devices ", choice.list, ": ", choice.why, " (", device_flags.devices.flag(), " overrules it)"));
  a.mean(device_flags.devices, choice.list, choice.why);
  return a;
}

}  // namespace tandem
