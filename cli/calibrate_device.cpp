#include "cli/calibrate_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/table.h"
#include "planner/lower/calibration.h"

namespace tandem {
namespace {

std::string rate_of(const CalibrationTime& t) {
  if (t.of->flops > 0) return fmt::format("{:.0f} GFLOP/s", t.of->flops / t.timing.seconds / 1e9);
  return fmt::format("{:.1f} GB/s", t.bytes / t.timing.seconds / 1e9);
}

// What was timed of devices of so many cores.
struct Calibrated {
  DeviceModel model;
  std::vector<CalibrationTime> times;
  double spread;
};

Json json_of(const Calibrated& c) {
  Json::Array kernels;
  for (const CalibrationTime& t : c.times)
    kernels.push_back(Json::Object{{"name", t.of->name},
                                   {"kind", name_of(t.of->kind)},
                                   {"kernel", t.kernel},
                                   {"seconds", t.timing.seconds},
                                   {"flops", t.of->flops},
                                   {"bytes", t.bytes},
                                   {"checks", t.of->checks},
                                   {"disturbed", t.timing.disturbed}});
  return Json::Object{{"cores", c.model.threads}, {"spread", c.spread}, {"kernels", std::move(kernels)}};
}

void print(const Invocation& call, const Calibrated& c) {
  std::vector<std::vector<std::string>> rows;
  for (const CalibrationTime& t : c.times)
    rows.push_back(
        {std::string(t.of->name), t.kernel, text_of_seconds(t.timing.seconds), rate_of(t), t.timing.disturbed ? "disturbed" : ""});
  call.write(table({{"timed"}, {"kernel", false, 1}, {"time", true}, {"rate", true}, {""}}, std::move(rows),
                   output_columns(call.streams, call.environment)));
  if (c.spread > 0)
    call.write(fmt::format("without timed kernels, plans for {} go by these rates; the checks are off by {:.0f}%\n", c.model.name,
                           100 * c.spread));
}

// All cores as one device, and one core, as the devices are of which each has one.
std::vector<DeviceModel> models_of(const Backend& cpu) {
  std::vector<DeviceModel> models = {cpu.model(0, 1)};
  if (const int cores = models[0].threads; cores > 1) models.push_back(cpu.model(0, cores));
  return models;
}

}  // namespace

int calibrate(const Invocation& call, const Backend& cpu) {
  const std::string file = kernel_times_file(true);
  if (file.empty()) fail(ExitCode::io, "there is no folder to keep a calibration in: set TANDEM_CACHE to one");
  check_writable_file(file);
  Json::Array all;
  for (const DeviceModel& model : models_of(cpu)) {
    std::vector<CalibrationTime> times = time_for_calibration(cpu, model, file);
    const Calibrated c{model, std::move(times), calibration_of(cpu, model, file).spread()};
    if (call.json())
      all.push_back(json_of(c));
    else
      print(call, c);
    const auto disturbed = std::ranges::count_if(c.times, [](const CalibrationTime& t) { return t.timing.disturbed; });
    if (disturbed > 0)
      call.warn(concat(disturbed, " of ", c.times.size(), " times were disturbed by other programs and are not used",
                       c.spread > 0 ? "" : ": nothing is calibrated", "; run it again on a quiet machine"));
  }
  if (call.json()) call.print(Json::Object{{"calibrations", std::move(all)}});
  return 0;
}

}  // namespace tandem
