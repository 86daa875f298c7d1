#include "cli/backends.h"

#include <algorithm>

#include "base/spec.h"
#include "base/suggest.h"
#include "kernels/cpu/backend.h"
#include "kernels/module.h"

namespace tandem {
namespace {

constexpr const char* modules[] = {"cuda"};

}  // namespace

template <class Wanted>
BackendSet BackendSet::load_if(const Wanted& wanted) {
  BackendSet set;
  set.usable_.push_back(&cpu_backend());
  for (const char* const module : modules) {
    if (!wanted(module)) continue;
    std::string reason;
    if (const Backend* backend = open_module(module, reason))
      set.usable_.push_back(backend);
    else
      set.missing_.push_back({module, reason});
  }
  return set;
}

BackendSet BackendSet::load() {
  return load_if([](std::string_view) { return true; });
}

BackendSet BackendSet::load(const std::vector<DeviceSpec>& devices, const std::vector<DeviceKind>& kinds) {
  BackendSet set = load_if([&](std::string_view backend) {
    return std::any_of(devices.begin(), devices.end(), [&](const DeviceSpec& d) { return d.id.backend == backend; });
  });
  for (const DeviceSpec& device : devices) {
    const std::string& name = device.id.backend;
    const bool usable = std::ranges::any_of(set.usable_, [&](const Backend* b) { return b->name() == name; });
    if (usable || std::ranges::find(set.missing_, name, &MissingBackend::name) != set.missing_.end()) continue;
    const DeviceKind* const kind = find_device_kind(kinds, name);
    if (!kind) {
      std::vector<std::string> names = {"cpu", "cuda"};
      for (const DeviceKind& k : kinds) names.push_back(k.name);
      fail(ExitCode::device, "device ", device.id, ": there is no such backend, nor a description of such a device",
           suggestion(name, names));
    }
    std::string reason;
    if (const DescribedKernels* const kernels = open_described_kernels(reason))
      set.usable_.push_back(set.described_.emplace_back(std::make_shared<DescribedBackend>(*kind, *kernels)).get());
    else
      set.missing_.push_back({name, concat("its description has no kernels: ", reason)});
  }
  return set;
}

void BackendSet::check(const std::vector<DeviceSpec>& devices, bool to_open) const {
  for (const DeviceSpec& device : devices) {
    for (const MissingBackend& missing : missing_)
      if (missing.name == device.id.backend) fail(ExitCode::device, "device ", device.id, " cannot be used: ", missing.reason);
    const Backend& backend = find_backend(usable_, device.id.backend);
    if (const std::string reason = to_open ? backend.unusable() : std::string(); !reason.empty())
      fail(ExitCode::device, "device ", device.id, " cannot be used: ", reason);
    if (to_open && device.id.index >= backend.device_count())
      fail(ExitCode::device, "device ", device.id, " cannot be used: there are ", backend.device_count(), " ", backend.name(), " devices");
  }
}

std::vector<std::string> BackendSet::notes(const std::vector<DeviceSpec>& devices) const {
  std::vector<std::string> list;
  for (const Backend* backend : usable_) {
    const auto wanted = std::find_if(devices.begin(), devices.end(), [&](const DeviceSpec& d) { return d.id.backend == backend->name(); });
    if (wanted == devices.end()) continue;
    if (!backend->assumed().empty())
      list.push_back(backend->assumed());
    else if (const std::string reason = backend->unusable(); !reason.empty())
      list.push_back(
          concat("device ", wanted->id, " cannot be used here: ", reason, "; the plan is for ", backend->model(wanted->id.index, 1).name));
  }
  return list;
}

}  // namespace tandem
