// Rates of a device's kernels by kind, fitted to the times of a few of them, for plans that time none. Kernels are chosen by assumed rates
// nevertheless: a calibration changes no plan but its times.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backends.h"
#include "kernels/device.h"
#include "planner/plan/plan.h"

namespace tandem {

enum class KernelKind { product, product_backward, convolution, convolution_backward, elementwise, normalization, copy };
inline constexpr int kernel_kinds = 7;
std::string_view name_of(KernelKind kind);
KernelKind kind_of(std::string_view op);

// A kernel that is timed for a calibration.
struct CalibrationKernel {
  std::string_view name;
  KernelKind kind;
  std::string_view op;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
  double flops;
  bool checks;  // it is compared with what the others say, and tells how far estimates are off
  KernelRequest request(const KernelOptions& options) const { return {op, &attributes, inputs, outputs, options, {}}; }
};
// Those that rates are fitted to, at sizes that caches hold and at larger ones, and four that check them.
const std::vector<CalibrationKernel>& calibration_kernels();

// One that was timed, and nothing disturbed it.
struct KernelTime {
  KernelKind kind;
  bool checks;
  double flops, bytes, efficiency, seconds;
};

class Calibration {
 public:
  Calibration() = default;
  // Kinds without a time, or all where no time checks them, stay as `assumed` has them.
  Calibration(std::span<const KernelTime> times, const DeviceModel& assumed);
  // The device as kernels of the operator find it; null: its kind was not calibrated.
  const DeviceModel* model(std::string_view op) const;
  const DeviceModel& device() const { return device_; }  // whose rates are those of products and sums
  // How far estimates are off: the root mean square of the checks' deviations, 0.2 is 20% more or less. 0: nothing is calibrated.
  double spread() const { return spread_; }

 private:
  std::array<std::optional<DeviceModel>, kernel_kinds> models_;
  DeviceModel device_;
  double spread_ = 0;
};

struct CalibrationTime {
  const CalibrationKernel* of = nullptr;
  std::string kernel;
  double bytes = 0, efficiency = 0;
  Timing timing;
};
// Times the kernels, each as plans without timed kernels choose it, and keeps their times in the file of kernel times (empty: nowhere).
// What other programs disturb is timed again, for some seconds. In the order of calibration_kernels(), without those that the backend has
// no kernel for.
std::vector<CalibrationTime> time_for_calibration(const Backend& backend, const DeviceModel& device, const std::string& cache_file);
// Of the times in the file that nothing disturbed; times nothing.
Calibration calibration_of(const Backend& backend, const DeviceModel& device, const std::string& cache_file);

// Gives the launches of programs without timed kernels the times of calibrations in the file, and their devices the rates. A device's name
// then ends in "calibrated +-20%". Nothing else changes: kernels, memory and order are those that were chosen by assumed rates.
void use_calibrations(Plan& plan, Backends backends, const std::string& cache_file);

}  // namespace tandem
