#include "cli/describe_device.h"

#include <algorithm>

#include "kernels/cpu/peak.h"
#include "planner/lower/calibration.h"

namespace tandem {
namespace {

// Of the fastest of the kind's kernels what it reaches of a peak; where none was timed a half.
double share(const std::vector<CalibrationTime>& times, KernelKind kind, double peak) {
  double rate = 0;
  for (const CalibrationTime& t : times)
    if (t.of->kind == kind) rate = std::max(rate, (t.of->flops > 0 ? t.of->flops : t.bytes) / t.timing.seconds);
  return rate > 0 ? std::clamp(rate / peak, 0.01, 1.0) : 0.5;
}

}  // namespace

Described describe_cpu(const Backend& cpu) {
  const DeviceModel model = cpu.model(0, 1);
  DeviceKind kind{.name = described_machine,
                  .product = model.name,
                  .memory = static_cast<double>(model.memory),
                  .bandwidth = measure_bandwidth(),
                  .multiprocessors = std::max(1, model.threads),
                  .source = "measured by tandem devices --describe"};
  for (const Peak& peak : measure_peaks())
    for (const Precision p : precisions)
      if (name_of(p) == peak.format) kind.flops[p] = std::max(kind.flops[p], peak.flops);
  const std::vector<CalibrationTime> times = time_for_calibration(cpu, model, "");
  const double peak = kind.flops.at(Precision::fp32);
  kind.plain = kind.products = share(times, KernelKind::product, peak);
  kind.convolutions = share(times, KernelKind::convolution, peak);
  kind.attention = kind.products * 0.75;
  kind.copies = share(times, KernelKind::elementwise, kind.bandwidth);
  kind.links = {.levels = {{.name = "memory", .devices = 0, .bandwidth = cpu.model(0, 2).link_bandwidth}},
                .host_bandwidth = kind.bandwidth};
  const auto disturbed = std::ranges::count_if(times, [](const CalibrationTime& t) { return t.timing.disturbed; });
  return {std::move(kind), static_cast<int>(disturbed)};
}

}  // namespace tandem
