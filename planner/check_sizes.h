// The one place where sizes are held against what will count and hold them, before a kernel or a library is asked.
#pragma once
#include "graph/graph.h"
#include "kernels/device.h"

namespace tandem {

// A value that a device has no memory for, whatever else it holds.
class ValueTooLarge final : public Error {
 public:
  explicit ValueTooLarge(const std::string& message) : Error(ExitCode::device, message) {}
};

// Of a device's program: fails (ValueTooLarge) where a value takes more than the device has, and (model) where an axis is longer than
// libraries count (longest_axis).
void check_sizes(const Graph& program, const DeviceId& device, const DeviceModel& model);

}  // namespace tandem
