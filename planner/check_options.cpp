#include "planner/check_options.h"

#include <set>

#include "base/option.h"
#include "base/size.h"
#include "planner/loss/external_loss.h"
#include "planner/loss/labels.h"
#include "planner/passes/freeze.h"
#include "planner/passes/run_passes.h"
#include "planner/update/loss_scaling.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

void check_recompute(const CompileOptions& o) {
  if (!o.memory.budget) return;
  if (!o.memory.recompute.empty())
    fail(ExitCode::usage, option("memory_budget"), " chooses what is computed again, and so does ", option("recompute"),
         ": expected one of them");
  if (const std::size_t sizes = o.memory.budget->bytes.size(); sizes > 1 && sizes != o.devices.size())
    fail(ExitCode::usage, option("memory_budget"), " has ", sizes, " sizes for ", o.devices.size(),
         " devices, expected one for all or one for each");
  if (const auto share = o.memory.budget->share; share && !(*share > 0 && *share <= 1))
    fail(ExitCode::usage, option("memory_budget"), " is ", *share, " of the activations, expected a share above 0 and at most 1");
}

// Each device keeps the activations of one other at most.
void check_keepers(const CompileOptions& o) {
  const std::vector<int>& on = o.memory.activations_on;
  const auto count = static_cast<int>(o.devices.size());
  if (on.empty()) return;
  if (std::ssize(on) != count)
    fail(ExitCode::usage, option("offload"), " activations: ", on.size(), " keepers for ", count, " devices, expected one for each");
  std::set<int> taken;
  for (int d = 0; d < count; ++d) {
    const int keeper = on[at(d)];
    if (keeper < 0) continue;
    const auto wrong = [&](const auto&... why) {
      fail(ExitCode::usage, option("offload"), " activations: device ", d, " sends to device ", keeper, ", ", why...);
    };
    if (keeper >= count || keeper == d) wrong("expected another of ", count);
    if (!taken.insert(keeper).second) wrong("which keeps those of another already");
    if (only_keeps(o, d)) wrong("and keeps those of another itself");
    if (o.devices[at(keeper)].weight > 0) wrong("which has samples of its own: expected a device of weight 0");
  }
}

// What is done between the forward and the backward pass, or behind both, would have to be part of one of them.
void check_external_loss(const CompileOptions& o) {
  const auto terms = parse_loss(o.loss.name);
  if (!has_external_loss(o) && std::ranges::find(terms, external_loss, &LossTerm::loss) != terms.end())
    fail(ExitCode::usage, "loss '", o.loss.name, "': ", external_loss, " stands alone, for all outputs, and is for training");
  if (!has_external_loss(o)) return;
  const Parallelism& p = o.parallel;
  const std::pair<bool, std::string> refused[] = {
      {p.micro_batches > 1, option("micro_batches")},           {p.pipeline != 1 || !p.stages.empty(), "stages of a pipeline"},
      {p.zero > 0, concat(option("parallel"), " zero")},        {p.weights_on >= 0, option("weights_on")},
      {p.merge_on >= 0, option("merge_on")},                    {o.memory.budget.has_value(), option("memory_budget")},
      {!o.memory.recompute.empty(), option("recompute")},       {!o.memory.activations_on.empty(), option("offload")}};
  for (const auto& [is_so, what] : refused)
    if (is_so) fail(ExitCode::usage, "a loss that the caller computes (", option("loss"), ' ', external_loss, ") does not go with ", what);
}

}  // namespace

void check_options(const GraphSource& source, const CompileOptions& o, Backends backends) {
  if (o.devices.empty()) fail(ExitCode::usage, "a plan needs at least one device");
  if (o.batch < 1 || o.batch > longest_axis) fail(ExitCode::usage, "batch size must be 1 to ", longest_axis, ", got ", o.batch);
  check_keepers(o);
  for (const int d : computing_devices(o))
    if (const std::string reason = find_backend(backends, o.devices[at(d)].id.backend).declines(o.precision); !reason.empty())
      fail(ExitCode::device, "precision ", o.precision, " on device ", o.devices[at(d)].id, ": ", reason);
  std::vector<double> weights;
  for (const DeviceSpec& d : o.devices) weights.push_back(d.weight);
  slice_sizes(o.batch, weights);
  if (const std::size_t limits = o.memory.most.size(); limits > 1 && limits != o.devices.size())
    fail(ExitCode::usage, option("device_memory"), " has ", limits, " sizes for ", o.devices.size(),
         " devices, expected one for all or one for each");
  check_recompute(o);
  check_left_out(o.passes.without);
  check_external_loss(o);
  if (o.mode != PlanMode::training) return;
  if (o.weight_gradients_beside &&
      (o.devices.size() > 1 || has_phases(o) || !find_backend(backends, o.devices[0].id.backend).stages_inputs()))
    fail(ExitCode::usage, option("weight_gradients_beside"), " is for one GPU and whole batches; devices: ", o.devices.size(),
         ", the first ", o.devices[0].id, "; micro-batches: ", o.parallel.micro_batches);
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

void refuse_external_loss(const CompileOptions& o) {
  if (o.loss.name == external_loss)
    fail(ExitCode::usage, option("loss"), ' ', external_loss, " is for plans alone: who computes the loss runs their passes");
}

CompileOptions of_micro_batch(CompileOptions o) {
  if (o.mode == PlanMode::inference) o.parallel.micro_batches = 1;
  const std::int64_t parts = o.parallel.micro_batches;
  if (parts < 1 || o.batch % parts != 0) {
    std::int64_t nearest = std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(1, o.batch));
    while (o.batch % nearest != 0) --nearest;
    fail(ExitCode::usage, option("micro_batches"), ": a batch of ", o.batch, " has no ", parts, " equal parts, the nearest number is ",
         nearest);
  }
  o.batch /= o.parallel.micro_batches;
  return o;
}

}  // namespace tandem
