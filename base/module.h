// Parts of the program in shared libraries of their own, opened when they are asked for.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

// A function of a module (libtandem_NAME.so): looked for in the folders of $TANDEM_BACKEND_PATH, beside the program and in
// ../lib/tandem from there, beside this library and in tandem/ from there. It stays open as long as the process.
// Null where there is none, and why.
void* find_in_module(std::string_view name, const char* symbol, std::string& reason);

}  // namespace tandem
