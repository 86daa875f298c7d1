#include "trainer/template/given_plan.h"

#include <algorithm>

#include "base/option.h"
#include "base/units.h"
#include "planner/hash_of_request.h"
#include "planner/plan/plan_file.h"
#include "planner/update/optimizer.h"
#include "runtime/step_kernel.h"
#include "trainer/devices.h"

namespace tandem {
namespace {

using Difference = std::optional<Misfit>;

// "what is A in the plan, B here".
template <class A, class B>
Difference differ(ExitCode code, std::string_view what, const A& in_plan, const B& here) {
  return Misfit{code, concat(what, " is ", in_plan, " in the plan, ", here, " here")};
}

// What a plan is for, in the program's words.
std::string purpose_of(const Plan& plan) {
  if (plan.mode == PlanMode::training) return "training";
  return std::ranges::any_of(plan.outputs, [](const HostOutput& o) { return o.role == ValueRole::measure; }) ? "evaluation" : "prediction";
}
std::string purpose_of(const PlanKey& key) {
  return key.mode == PlanMode::training ? "training" : key.evaluation.losses.empty() ? "prediction" : "evaluation";
}

std::string names_of(const Plan& plan) {
  std::vector<DeviceSpec> devices;
  for (const PlanDevice& d : plan.devices) devices.push_back({.id = d.device});
  return to_string(devices);
}

Difference of_model(const Plan& plan, const ModelTemplate& model, const PlanKey& key) {
  if (plan.record == PlanRecord())
    return Misfit{ExitCode::model, "does not say what it was made of, as plans of earlier versions: make it again from its model"};
  if (purpose_of(plan) != purpose_of(key)) return differ(ExitCode::usage, "what it is for", purpose_of(plan), purpose_of(key));
  const std::string own = model.file().fingerprint();
  if (plan.record.model == own) return std::nullopt;
  return differ(ExitCode::model, "the model", concat("'", plan.model, "' of hash ", plan.record.model),
                concat("'", model.file().name(), "' of hash ", own));
}

Difference of_options(const Plan& plan, const ModelOptions& o) {
  if (plan.devices.size() != o.plan.devices.size())
    return differ(ExitCode::usage, "the number of devices", plan.devices.size(), o.plan.devices.size());
  const bool same = std::ranges::equal(plan.devices, o.plan.devices, {}, &PlanDevice::device, &DeviceSpec::id);
  if (!same) return differ(ExitCode::usage, option("devices"), names_of(plan), to_string(o.plan.devices));
  if (plan.batch != o.plan.batch) return differ(ExitCode::usage, option("batch"), plan.batch, o.plan.batch);
  const std::int64_t parts = plan.mode == PlanMode::training ? o.plan.parallel.micro_batches : 1;
  if (plan.micro_batches != parts) return differ(ExitCode::usage, option("micro_batches"), plan.micro_batches, parts);
  if (plan.precision != o.plan.precision) return differ(ExitCode::usage, option("precision"), plan.precision, o.plan.precision);
  return std::nullopt;
}

// Of the devices that this process has.
Difference of_devices(const Plan& plan, const ModelOptions& o, Backends backends) {
  const DeviceRange own = devices_of(o.world, static_cast<int>(plan.devices.size()));
  const std::vector<std::int64_t> free = free_memory(o.plan.devices, own, backends);
  for (int d = own.first; d < own.first + own.count; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const Backend& backend = find_backend(backends, plan.devices[at].device.backend);
    for (const auto& [name, by] : plan.record.backends)
      if (name == backend.name() && by != backend.computes_by())
        return differ(ExitCode::device, concat("what ", plan.devices[at].device, " computes by"), by, backend.computes_by());
    const std::int64_t needs = plan.program_of(at).peak_bytes();
    if (free[at] >= 0 && needs > free[at])
      return Misfit{ExitCode::device, concat("needs ", text_of_bytes(needs), " of memory on ", plan.devices[at].device, ", ",
                                             text_of_bytes(free[at]), " are free")};
  }
  return std::nullopt;
}

Difference of_request(const Plan& plan, const ModelTemplate& model, const ModelOptions& o, const PlanKey& key, const Losses& losses) {
  const std::string here = hash_of_request(model.graphs(o, key, losses), model.plan_options(o, key));
  if (plan.record.request == here) return std::nullopt;
  Misfit misfit = *differ(ExitCode::usage, "the step's graph", plan.record.request, here);
  misfit.text += concat(": options or labels of the data are others than those that it was planned for (with ", option("data"),
                        " a plan is made as a run on it is planned), or another version of the program made it");
  return misfit;
}

Difference of_kernels(const Plan& plan, Backends backends) try {
  check_kernels(plan, backends);
  return std::nullopt;
} catch (const Error& e) {
  return Misfit{e.code(), e.what()};
}

}  // namespace

std::optional<Plan> given_plan(const ModelOptions& o) {
  if (o.plan_file.empty()) return std::nullopt;
  return read_plan(o.plan_file.string());
}

ModelOptions followed(ModelOptions o, const Plan& plan) {
  const bool numbers = std::ranges::any_of(plan.inputs, [&](const HostInput& input) {
    const auto bytes = input.role == ValueRole::plain ? o.plan.given_bytes.find(input.name) : o.plan.given_bytes.end();
    return bytes != o.plan.given_bytes.end() && input.type.dtype != DType::uint8;
  });
  if (numbers) o.plan.given_bytes.clear();
  return o;
}

PlanRecord record_of(const ModelTemplate& model, const ModelOptions& o, const PlanKey& key, const Losses& losses, Backends backends) {
  const OptimizerOptions& optimizer = o.plan.optimizer;
  PlanRecord record{.options = o.record,
                    .model = model.file().fingerprint(),
                    .request = hash_of_request(model.graphs(o, key, losses), model.plan_options(o, key)),
                    .update = scalars_kind(optimizer),
                    .beta1 = optimizer.beta1,
                    .beta2 = optimizer.beta2,
                    .steps_before = optimizer.steps_before,
                    .learning_rate = default_learning_rate(optimizer),
                    .seed = o.seed};
  for (const DeviceSpec& d : o.plan.devices)
    if (std::ranges::none_of(record.backends, [&](const auto& known) { return known.first == d.id.backend; }))
      record.backends.emplace_back(d.id.backend, find_backend(backends, d.id.backend).computes_by());
  return record;
}

std::optional<Misfit> misfit_of(const Plan& plan, const ModelTemplate& model, const ModelOptions& o, const PlanKey& key,
                                const Losses& losses, Backends backends) {
  if (Difference d = of_model(plan, model, key)) return d;
  if (Difference d = of_options(plan, o)) return d;
  if (Difference d = of_devices(plan, o, backends)) return d;
  if (Difference d = of_request(plan, model, o, key, losses)) return d;
  return of_kernels(plan, backends);
}

std::optional<Plan> fitting(std::optional<Plan> plan, const ModelTemplate& model, const ModelOptions& o, const PlanKey& key,
                            const Losses& losses, Backends backends, std::string& why) {
  if (!plan) return plan;
  const std::optional<Misfit> misfit = misfit_of(*plan, model, o, key, losses, backends);
  if (!misfit) return plan;
  const std::string text = concat(o.plan_file.string(), ": ", misfit->text);
  if (!o.replan) fail(misfit->code, text, " (", option("replan"), " makes the plan anew)");
  why = concat("planned anew: ", text);
  return std::nullopt;
}

}  // namespace tandem
