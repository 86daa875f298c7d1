// Backends in shared libraries of their own, opened when they are asked for.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

class Backend;

// The backend of a module (libtandem_NAME.so): looked for in the folders of $TANDEM_BACKEND_PATH, beside the program and in
// ../lib/tandem from there, beside this library and in tandem/ from there. It stays open as long as the process: its kernels' code is in
// it.
// Null where there is none, and why.
const Backend* open_module(std::string_view name, std::string& reason);

// The function of a module that is looked for in the same folders. Null where there is none, and why.
using ModuleEntry = const void* (*)();
ModuleEntry open_module_entry(std::string_view name, const char* entry, std::string& reason);

}  // namespace tandem
