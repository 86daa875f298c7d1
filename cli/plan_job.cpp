#include "cli/plan_job.h"

#include "cli/planned_options.h"
#include "cli/run_options.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/model_options.h"
#include "options/optimizer_flags.h"
#include "options/tune_options.h"

namespace tandem {

PlanJob plan_job(const Invocation& call, Purpose purpose, const std::vector<DeviceKind>& kinds) {
  const Arguments& a = call.arguments;
  WeightOptions weights = weight_options(a);
  weights.own_loss = purpose != Purpose::predict && !a.given(loss_flags.loss);
  PlanJob job{
      .model = Model::load(a[model_file], weights), .backends = BackendSet::load(parse_devices(a[device_flags.devices]), kinds), .run = {}};
  RunOptions asked = run_options(call, purpose);
  asked.split.clear();  // here it is what parameters are split by
  read_train_only(a, job.model, asked.model.plan.trained.freeze, asked.model.plan.trained.unfreeze);
  job.run = prepare(job.model, std::move(asked), job.backends.all());
  return job;
}

Plan recorded_plan(const Arguments& a, Purpose purpose, PlanJob& job) {
  job.run.options.record = planned_options(a, purpose == Purpose::evaluate);
  Plan plan = job.model.source().make_plan(job.run.options, job.backends.all());
  if (job.run.own_step && !a.given(optimizer_flags.optimizer)) plan.record.learning_rate = job.run.own_step->learning_rate;
  if (const auto rate = a[optimizer_flags.lr]) plan.record.learning_rate = *rate;
  return plan;
}

}  // namespace tandem
