#include "cli/train_job.h"

#include "base/printable.h"
#include "cli/ranks.h"
#include "cli/run_options.h"
#include "options/data_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"

namespace tandem {
namespace {

void drop_from_config(FitOptions& fit, const FlagRow& option) {
  Json::Object config = fit.config.object();
  std::erase_if(config, [&](const auto& entry) { return entry.first == option.name; });
  fit.config = std::move(config);
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
  RunOptions asked = training_options(call, model, world);
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
