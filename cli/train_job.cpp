#include "cli/train_job.h"

#include "base/printable.h"
#include "cli/data_flags.h"
#include "cli/loss_flags.h"
#include "cli/model_options.h"
#include "cli/optimizer_options.h"
#include "cli/ranks.h"
#include "cli/record_options.h"
#include "cli/train_flags.h"
#include "cli/tune_options.h"

namespace tandem {
namespace {

void drop_from_config(FitOptions& fit, const FlagRow& option) {
  Json::Object config = fit.config.object();
  std::erase_if(config, [&](const auto& entry) { return entry.first == option.name; });
  fit.config = std::move(config);
}

void read_fit_options(const Arguments& a, FitOptions& o) {
  o.steps = a[train_flags.steps];
  o.epochs = a.given(train_flags.steps) && !a.given(train_flags.epochs) ? 0 : a[train_flags.epochs];
  read_rate_options(a, o);
  parse_augment(o.preprocess, a[train_flags.augment]);
  o.shuffle = a[train_flags.shuffle];
  o.eval_batch = a[train_flags.eval_batch_size];
  o.run_dir = a[record_flags.run_dir];
  o.run_dir_held = true;
  o.resume = a[record_flags.resume];
  read_record_options(o, a);
  o.check_replicas = a[train_flags.check_replicas];
}

RunOptions train_options(const Invocation& call, const Model& model, World* world) {
  const Arguments& a = call.arguments;
  RunOptions run = run_options(call, Purpose::train, world);
  ModelOptions& o = run.model;
  o.init = a[train_flags.init];
  o.seed = static_cast<std::uint64_t>(a[train_flags.seed]);
  if (const std::filesystem::path folder = a[record_flags.run_dir]; !folder.empty()) o.plans = folder / "plans";
  o.resume = a[record_flags.resume];
  read_train_only(a, model, o.plan.trained.freeze, o.plan.trained.unfreeze);
  read_fit_options(a, run.fit);
  run.validation_split = a[train_flags.validation_split];
  return run;
}

// What the file or the data decided stands there as it was decided; what the file's own step decided is asked of it again where the
// run goes on.
void write_config(const Arguments& a, Prepared& run) {
  std::error_code error;
  Json::Object config{{"command", "train"}, {run_folder_key, as_text(std::filesystem::current_path(error).string())}};
  const Json resolved = a.resolved();
  for (const auto& entry : resolved.object()) config.push_back(entry);
  run.fit.config = std::move(config);
  set_in_config(run.fit, train_flags.epochs, run.fit.epochs);
  set_in_config(run.fit, data_flags.normalize, text_of_normalize(run.fit.preprocess));
  set_in_config(run.fit, data_flags.resize, text_of(run.fit.preprocess.resizing));
  set_in_config(run.fit, loss_flags.loss, run.options.plan.loss.name);
  set_in_config(run.fit, loss_flags.loss_on, as_text(run.options.plan.loss.on));
  if (!run.own_step) return;
  for (const FlagRow* asked : std::initializer_list<const FlagRow*>{&loss_flags.loss, &loss_flags.loss_on, &optimizer_flags.optimizer})
    if (!a.given(*asked)) drop_from_config(run.fit, *asked);
}

}  // namespace

Prepared prepare_training(const Invocation& call, const Model& model, const BackendSet& backends, World* world) {
  RunOptions asked = train_options(call, model, world);
  const bool dry = call.arguments[output_flags.dry_run];
  backends.check(dry ? asked.model.plan.devices : own_devices(asked.model.plan.devices, world), !dry);
  Prepared run = prepare(model, std::move(asked), backends.all());
  write_config(call.arguments, run);
  return run;
}

void set_in_config(FitOptions& fit, const FlagRow& option, Json value) {
  Json::Object config = fit.config.object();
  for (auto& [key, held] : config)
    if (key == option.name) held = value;
  fit.config = std::move(config);
}

std::vector<World::Fact> facts_of(const Invocation& call, const Model& model, const RunData& data, World* world) {
  if (!world) return {};
  const World::Busy busy(world);
  std::vector<World::Fact> facts{template_fact(model, call)};
  for (const auto& [name, part] : {std::pair{"training data", data.train}, {"validation data", data.validation}, {"test data", data.test}})
    facts.push_back(data_fact(name, part));
  return facts;
}

}  // namespace tandem
