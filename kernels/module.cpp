#include "kernels/module.h"

#include "base/error.h"
#include "base/module.h"

namespace tandem {

const Backend* open_module(std::string_view name, std::string& reason) {
  const auto entry = reinterpret_cast<const Backend* (*)()>(find_in_module(name, "tandem_backend", reason));
  const Backend* const backend = entry ? entry() : nullptr;
  if (entry && !backend) reason = concat("libtandem_", name, ".so: has no backend");
  return backend;
}

}  // namespace tandem
