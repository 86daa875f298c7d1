// The backends that a program was built with, by name.
#pragma once
#include <span>
#include <string_view>

#include "kernels/device.h"

namespace tandem {

using Backends = std::span<const Backend* const>;

const Backend& find_backend(Backends backends, std::string_view name);  // fails (device) naming those there are
// The backend of a device that can be used. Fails (device).
const Backend& find_backend(Backends backends, const DeviceId& device);

}  // namespace tandem
