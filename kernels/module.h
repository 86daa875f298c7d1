// Backends in shared libraries of their own, opened when they are asked for.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

class Backend;

// The backend of a module (base/module.h), extern "C" const tandem::Backend* tandem_backend() there. Null where there is none, and why.
const Backend* open_module(std::string_view name, std::string& reason);

}  // namespace tandem
