#include "planner/warnings.h"

#include <algorithm>

#include "planner/labels.h"

namespace tandem {
namespace {

// Devices that would take part in the work if the batch were larger.
void warn_of_idle_devices(std::vector<std::string>& list, const Plan& plan) {
  std::string idle;
  for (const DevicePlan& d : plan.devices)
    if (d.slice_size == 0 && d.weight > 0) idle += concat(idle.empty() ? "" : ", ", d.device);
  if (!idle.empty())
    list.push_back(concat("no samples for ", idle, ": the batch of ", plan.batch, " is too small for these devices and weights"));
}

void warn_of_statistics(std::vector<std::string>& list, const Plan& plan, const CompileOptions& o) {
  std::int64_t busy = 0, least = plan.batch;
  for (const DevicePlan& d : plan.devices)
    if (d.slice_size > 0) ++busy, least = std::min(least, d.slice_size);
  if (busy < 2 || o.synchronize_batch_norm) return;
  for (const DevicePlan& d : plan.devices)
    if (std::any_of(d.steps.begin(), d.steps.end(), [](const Step& s) { return s.op == "BatchNormalizationTraining"; })) {
      list.push_back(concat("BatchNormalization sees each device's own samples only (", least, " at the least, of a batch of ", plan.batch,
                            "): ", busy, " devices do not train exactly as one, unless --sync-batch-norm is given"));
      return;
    }
}

void warn_of_outputs(std::vector<std::string>& list, const CompileOptions& o, const Graph& model) {
  if (model.outputs.size() < 2 || !o.loss_on.empty()) return;
  std::string others;
  for (std::size_t i = 1; i < model.outputs.size(); ++i) others += concat(others.empty() ? "'" : ", '", model[model.outputs[i]].name, '\'');
  list.push_back(concat("the loss is that of the model's first output '", model[model.outputs[0]].name, "'; not of ", others, " (--loss-on names another)"));
}

// Whoever names an output that is no loss gets what he asked for, and not what he wants.
void warn_of_loss(std::vector<std::string>& list, const CompileOptions& o, const Graph& model) {
  if (o.loss != "output") return;
  const Value& loss = model[loss_value(model, o)];
  const Shape& shape = loss.type.shape;
  const std::int64_t samples = loss.depends_on_batch && shape.rank() > 0 ? std::max<std::int64_t>(1, shape[0]) : 1;
  if (shape.elements() > samples)
    list.push_back(concat(o.loss_on.empty() ? "the model's first output '" : "'", loss.name, "' is taken for its loss, but has ", shape.elements() / samples,
                          " numbers a sample: their mean is made small"));
}

}  // namespace

std::vector<std::string> warnings_of(const Plan& plan, const CompileOptions& o, const Graph& model) {
  std::vector<std::string> list;
  warn_of_idle_devices(list, plan);
  if (plan.mode != PlanMode::training) return list;
  warn_of_statistics(list, plan, o);
  warn_of_loss(list, o, model);
  warn_of_outputs(list, o, model);
  return list;
}

}  // namespace tandem
