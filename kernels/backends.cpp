// Looks backends up by name; an error names those that there are.
#include "kernels/backends.h"

namespace tandem {

const Backend& find_backend(Backends backends, std::string_view name) {
  std::string known;
  for (const Backend* b : backends) {
    if (b->name() == name) return *b;
    known += concat(known.empty() ? "" : ", ", b->name());
  }
  fail(ExitCode::device, "there is no backend '", name, "' in this program: it has ", known.empty() ? "none" : known);
}

const Backend& find_backend(Backends backends, const DeviceId& device) {
  const Backend& b = find_backend(backends, device.backend);
  if (const std::string why = b.unusable(); !why.empty()) fail(ExitCode::device, "device ", device, ": ", why);
  const int count = b.device_count();
  if (device.index < 0 || device.index >= count)
    fail(ExitCode::device, "device ", device, ": there ", count == 1 ? "is" : "are", ' ', count, ' ', device.backend,
         count == 1 ? " device" : " devices");
  return b;
}

}  // namespace tandem
