// Looks for a module in the folders where modules lie.
#include "base/module.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

std::vector<std::filesystem::path> folders() {
  std::vector<std::filesystem::path> list;
  const auto add = [&](const std::filesystem::path& folder) {
    if (!folder.empty() && std::find(list.begin(), list.end(), folder) == list.end()) list.push_back(folder);
  };
  if (const char* path = std::getenv("TANDEM_BACKEND_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      add(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    add(program);
    add((program / TANDEM_MODULES).lexically_normal());
  }
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&find_in_module), &own) != 0 && own.dli_fname) {
    const auto library = std::filesystem::weakly_canonical(own.dli_fname, error).parent_path();
    if (!error) {
      add(library);
      add(library / "tandem");
    }
  }
  return list;
}

}  // namespace

void* find_in_module(std::string_view name, const char* symbol, std::string& reason) {
  const std::string file = concat("libtandem_", name, ".so");
  std::string searched;
  for (const auto& folder : folders()) {
    const auto path = folder / file;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      searched += concat(searched.empty() ? "" : ", ", folder.string());
      continue;
    }
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = handle ? dlsym(handle, symbol) : nullptr;
    if (!handle)
      reason = dlerror();
    else if (!found)
      reason = concat(path.string(), ": has no ", symbol);
    return found;
  }
  reason = concat(file, " was not found in ", searched);
  return nullptr;
}

}  // namespace tandem
