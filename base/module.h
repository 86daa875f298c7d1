// Parts of the program in shared libraries of their own, opened when they are asked for.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

// A function of a module (libtandem_NAME.so). Looked for in the folders of $TANDEM_BACKEND_PATH, beside the program, where modules are
// installed as seen from there (../lib/tandem; with Debian's packages ../lib/x86_64-linux-gnu/tandem), beside this library and in
// tandem/ from there. It stays open as long as the process.
// Null where there is none, and why.
void* find_in_module(std::string_view name, const char* symbol, std::string& reason);

}  // namespace tandem
