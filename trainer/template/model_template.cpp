#include "trainer/template/model_template.h"

#include "base/option.h"
#include "importer/runnable_graph.h"
#include "planner/check_options.h"
#include "planner/lower/calibration.h"
#include "trainer/template/forms.h"
#include "trainer/template/given_plan.h"
#include "trainer/template/graph_file.h"
#include "trainer/template/initialize.h"

namespace tandem {

ModelTemplate::~ModelTemplate() = default;

Summary ModelTemplate::summary(const SummaryOptions& options) const {
  const ImportOptions import{.batch = 1,
                             .dims = options.dims,
                             .constants = options.constants,
                             .max_loop_iterations = options.max_loop_iterations,
                             .batch_axes = options.batch_axes};
  CompileOptions names{.trained = {.freeze = options.freeze, .unfreeze = options.unfreeze}};
  for (const TemplateTensor& t : file_.tensors()) names.trained.tensors.push_back(t.name);
  freeze_base(file_, names.trained.freeze, names.trained.unfreeze);
  std::vector<Problem> problems = file_.problems(import);
  if (!problems.empty()) return outline(file_.name(), file_.outline(import), file_.tensors(), std::move(problems), names);
  Summary summary = summarize(file_.graph(import), file_.tensors(), names);
  summary.adapters = static_cast<std::int64_t>(file_.adapters().size());
  for (const TemplateTensor& t : file_.tensors())
    for (const LoraAdapter& adapter : file_.adapters())
      if (t.name == adapter.a || t.name == adapter.b) summary.in_adapters += t.type.shape.elements();
  return summary;
}

Plan ModelTemplate::make_plan(const ModelOptions& asked, Backends backends) const {
  check_buckets(asked);
  std::optional<Plan> given = given_plan(asked);
  const ModelOptions o = given ? followed(asked, *given) : asked;
  const Losses losses = losses_if_any(o);
  const PlanKey key = first_key(o, losses);
  std::string why;
  if ((given = fitting(std::move(given), *this, o, key, losses, backends, why))) return std::move(*given);
  Plan plan = tandem::compile(graphs(o, key, losses), plan_options(o), backends);
  if (!chooses_by_time(o.plan)) use_calibrations(plan, backends, o.plan.tuning.cache);
  if (!why.empty()) plan.warnings.push_back(why);
  if (!o.record.empty()) plan.record = record_of(*this, o, key, losses, backends);
  return plan;
}

std::string ModelTemplate::training_graph(const ModelOptions& o) const {
  if (o.plan.mode == PlanMode::inference) return runnable_onnx_of(graphs(o)(o.micro_batch()));
  return onnx_of(tandem::training_graph(graphs(o), plan_options(o)));
}

void ModelTemplate::check(const ModelOptions& o, Backends backends) const {
  check_initialization(o.init);
  check_buckets(o);
  if (!file().adapters().empty() && o.init != "auto" && o.init != "keep")
    fail(ExitCode::usage, option("init"), " ", o.init, " draws weights anew that ", option("lora"),
         " would build upon: leave one of them out");
  tandem::check_options(graphs(o), plan_options(o), backends);
  losses_if_any(o);
}

CompileOptions ModelTemplate::plan_options(const ModelOptions& o) const {
  CompileOptions plan = o.plan;
  for (const TemplateTensor& t : file_.tensors()) plan.trained.tensors.push_back(t.name);
  freeze_base(file_, plan.trained.freeze, plan.trained.unfreeze);
  if (!plan.parallel.places.empty() || !plan.parallel.stages.empty())
    for (auto& [node, notes] : file_.node_notes()) plan.modules[node] = notes.modules;
  return plan;
}

CompileOptions ModelTemplate::plan_options(const ModelOptions& o, const PlanKey& key) const {
  CompileOptions plan = plan_options(o);
  plan.mode = key.mode;
  plan.batch = key.batch;
  if (key.mode == PlanMode::training && o.plan.parallel.micro_batches > 1) {  // none is larger than those of the first plan
    const MicroBatches parts = micro_batches_of(key.batch, o.micro_batch());
    plan.batch = parts.batch();
    plan.parallel.micro_batches = parts.count;
  }
  if (!key.bytes) plan.given_bytes.clear();
  return plan;
}

}  // namespace tandem
