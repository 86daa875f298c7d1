#include "cli/backends.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "kernels/cpu/backend.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

struct Module {
  const char* backend;
  const char* file;
};
constexpr Module modules[] = {{"cuda", "libtandem_cuda.so"}};
constexpr const char* entry = "tandem_backend";  // extern "C" const tandem::Backend* tandem_backend()

std::vector<std::filesystem::path> folders() {
  std::vector<std::filesystem::path> list;
  if (const char* path = std::getenv("TANDEM_BACKEND_PATH"))
    for (const std::string& folder : split(path, ':')) list.emplace_back(folder);
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) list.insert(list.end(), {program, program.parent_path() / "lib/tandem"});
  return list;
}

// A module stays open as long as the process: its kernels' code is in it.
const Backend* open_module(const Module& module, std::string& reason) {
  std::string searched;
  for (const auto& folder : folders()) {
    const auto path = folder / module.file;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      searched += concat(searched.empty() ? "" : ", ", folder.string());
      continue;
    }
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      reason = dlerror();
      return nullptr;
    }
    const auto function = reinterpret_cast<const Backend* (*)()>(dlsym(handle, entry));
    const Backend* backend = function ? function() : nullptr;
    if (!backend) reason = concat(path.string(), ": has no backend (", entry, ")");
    return backend;
  }
  reason = concat(module.file, " was not found in ", searched);
  return nullptr;
}

}  // namespace

template <class Wanted>
BackendSet BackendSet::load_if(const Wanted& wanted) {
  BackendSet set;
  set.usable_.push_back(&cpu_backend());
  for (const Module& module : modules) {
    if (!wanted(module.backend)) continue;
    std::string reason;
    if (const Backend* backend = open_module(module, reason))
      set.usable_.push_back(backend);
    else
      set.missing_.push_back({module.backend, reason});
  }
  return set;
}

BackendSet BackendSet::load() {
  return load_if([](std::string_view) { return true; });
}

BackendSet BackendSet::load(const std::vector<DeviceSpec>& devices) {
  return load_if([&](std::string_view backend) {
    return std::any_of(devices.begin(), devices.end(), [&](const DeviceSpec& d) { return d.id.backend == backend; });
  });
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
    if (const std::string reason = backend->unusable(); !reason.empty())
      list.push_back(concat("device ", wanted->id, " cannot be used here: ", reason, "; the plan is for ", backend->model(wanted->id.index, 1).name));
  }
  return list;
}

}  // namespace tandem
