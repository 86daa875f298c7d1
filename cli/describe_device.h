// A description of a device of this machine, as plan's --cluster takes it.
#pragma once
#include "kernels/backends.h"
#include "kernels/described/device_kind.h"

namespace tandem {

// The name that the description has.
inline constexpr const char* described_machine = "this-machine";

struct Described {
  DeviceKind kind;
  int disturbed = 0;  // times of kernels that other programs lengthened: its shares are lower than they would be
};
// The CPU with all its cores: peaks and bandwidth as measured now, and which shares of them kernels reach in float32. Some seconds.
Described describe_cpu(const Backend& cpu);

}  // namespace tandem
