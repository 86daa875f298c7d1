#include "planner/check_options.h"

#include "base/option.h"
#include "base/size.h"
#include "planner/loss/labels.h"
#include "planner/passes/freeze.h"
#include "planner/passes/run_passes.h"
#include "planner/update/loss_scaling.h"
#include "planner/update/optimizer.h"

namespace tandem {

void check_options(const GraphSource& source, const CompileOptions& o, Backends backends) {
  if (o.devices.empty()) fail(ExitCode::usage, "a plan needs at least one device");
  if (o.batch < 1 || o.batch > longest_axis) fail(ExitCode::usage, "batch size must be 1 to ", longest_axis, ", got ", o.batch);
  for (const DeviceSpec& d : o.devices)
    if (const std::string reason = find_backend(backends, d.id.backend).declines(o.precision); !reason.empty())
      fail(ExitCode::device, "precision ", o.precision, " on device ", d.id, ": ", reason);
  std::vector<double> weights;
  for (const DeviceSpec& d : o.devices) weights.push_back(d.weight);
  slice_sizes(o.batch, weights);
  if (const std::size_t limits = o.memory.most.size(); limits > 1 && limits != o.devices.size())
    fail(ExitCode::usage, option("device_memory"), " has ", limits, " sizes for ", o.devices.size(),
         " devices, expected one for all or one for each");
  check_left_out(o.passes.without);
  parse_loss(o.loss.name);
  if (o.mode != PlanMode::training) return;
  if (const auto& d = o.loss.distillation; d && !(d->temperature > 0 && d->weight >= 0 && d->weight <= 1))
    fail(ExitCode::usage, option("teacher"), ": a temperature of ", d->temperature, " and a weight of ", d->weight,
         ", expected a temperature above 0 and a weight of 0 to 1");
  update_rule(o.optimizer);
  if (!o.optimizer.groups.empty()) {
    std::vector<std::string> lines;
    check_groups(source(1), o.optimizer, lines);
  }
  loss_scaling_of(o);
  if (!o.trained.freeze.empty() || !o.trained.unfreeze.empty()) check_patterns(source(1), o);
}

}  // namespace tandem
