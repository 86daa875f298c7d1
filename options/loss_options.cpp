#include "options/loss_options.h"

#include "options/loss_flags.h"
#include "planner/loss/losses.h"
#include "trainer/measure/scores.h"

namespace tandem {

std::string names_of_losses(const FlagRow&) {
  return loss_names();
}
std::string names_of_metrics(const FlagRow&) {
  return metric_names();
}

void read_loss(const OptionValues& a, ModelOptions& o) {
  o.plan.loss.name = a[loss_flags.loss];
  parse_loss(o.plan.loss.name);
  o.plan.loss.on = a[loss_flags.loss_on];
  if (const auto axis = a[loss_flags.class_axis]) o.plan.loss.class_axis = static_cast<int>(*axis);
  if (const auto index = a[loss_flags.ignore_index]) o.plan.loss.ignore_index = *index;
  o.plan.loss.shift_labels = a[loss_flags.shift_labels];
}

void read_distillation(const OptionValues& a, ModelOptions& o) {
  const auto temperature = a[target_flags.temperature], share = a[target_flags.teacher_weight];
  o.teacher = a[target_flags.teacher];
  if (!o.teacher.empty()) {
    Distillation& d = o.plan.loss.distillation.emplace();
    d.temperature = temperature.value_or(d.temperature);
    d.weight = share.value_or(d.weight);
  } else if (temperature || share) {
    fail(ExitCode::usage, (temperature ? target_flags.temperature : target_flags.teacher_weight).told(), " needs ",
         target_flags.teacher.told());
  }
  o.plan.loss.smoothing = a[target_flags.label_smoothing];
  if (!a[target_flags.sample_weights]) o.plan.loss.sample_weights = false;
}

std::vector<std::string> metrics_of(const OptionValues& a) {
  std::vector<std::string> names = a[metric_flags.metrics];
  for (const std::string& file : a[metric_flags.metric]) {
    if (!file.ends_with(".onnx"))
      fail(ExitCode::usage, metric_flags.metric.told(), ' ', file, ": expected a file that ends in .onnx; ", metric_flags.metrics.told(),
           " takes the names of others");
    names.push_back(file);
  }
  check_metrics(names);
  return names;
}

}  // namespace tandem
