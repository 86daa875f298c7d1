#include "cli/train_job.h"

#include "base/printable.h"
#include "base/spec.h"
#include "cli/data_flags.h"
#include "cli/image_options.h"
#include "cli/loss_flags.h"
#include "cli/loss_options.h"
#include "cli/model_options.h"
#include "cli/optimizer_options.h"
#include "cli/ranks.h"
#include "cli/record_options.h"
#include "cli/train_flags.h"
#include "cli/tune_options.h"
#include "trainer/measure/scores.h"
#include "trainer/records/best_measure.h"

namespace tandem {
namespace {

RunData open_run_data(const Arguments& a, const DataRequest& request) {
  RunData data{.splits = open_data(a[data_flags.data], request)};
  data.train = data.splits.train.get();
  if (!data.train) fail(ExitCode::data, a[data_flags.data], " has no training part");
  data.validation = data.splits.validation.get();
  data.test = data.splits.test.get();
  if (const double share = a[train_flags.validation_split]; share != 0) {
    std::tie(data.kept, data.held_out) = hold_out(*data.train, share, request.seed);
    data.train = data.kept.get();
    data.validation = data.held_out.get();
  }
  if (!data.validation) data.validation = data.test;
  return data;
}

void drop_from_config(FitOptions& fit, const FlagRow& option) {
  Json::Object config = fit.config.object();
  std::erase_if(config, [&](const auto& entry) { return entry.first == option.name; });
  fit.config = std::move(config);
}

FitOptions fit_options(const Invocation& call, const Model& model, const ModelOptions& options) {
  const Arguments& a = call.arguments;
  FitOptions o;
  o.steps = a[train_flags.steps];
  o.epochs = a.given(train_flags.steps) && !a.given(train_flags.epochs) ? 0 : a[train_flags.epochs];
  rate_options(call, options.plan.optimizer, o);
  o.preprocess = preprocess(call, model);
  parse_augment(o.preprocess, a[train_flags.augment]);
  o.shuffle = a[train_flags.shuffle];
  o.eval_batch = a[train_flags.eval_batch_size];
  o.metrics = metrics_of(a);
  // What the best is told by is measured.
  if (std::string best = BestMeasure(o.best).name(); !best.empty()) {
    if (best.starts_with("val_")) best.erase(0, 4);
    if (lower_is_better(best)) o.metrics.push_back(best);
  }
  o.run_dir = a[record_flags.run_dir];
  o.run_dir_held = true;
  o.resume = a[record_flags.resume];
  read_record_options(o, a);
  o.check_replicas = a[train_flags.check_replicas];
  std::error_code error;
  Json::Object config{{"command", "train"}, {run_folder_key, as_text(std::filesystem::current_path(error).string())}};
  const Json resolved = a.resolved();
  for (const auto& entry : resolved.object()) config.push_back(entry);
  o.config = std::move(config);
  // What the file or the data decided stands there as it was decided.
  set_in_config(o, train_flags.epochs, o.epochs);
  set_in_config(o, data_flags.normalize, text_of_normalize(o.preprocess));
  set_in_config(o, data_flags.resize, text_of(o.preprocess.resizing));
  set_in_config(o, loss_flags.loss, options.plan.loss);
  set_in_config(o, loss_flags.loss_on, as_text(options.plan.loss_on));
  // What the file's own step decided is asked of it again where the run goes on.
  if (const std::optional<TrainingStep> step = own_step(a, model)) {
    if (!a.given(optimizer_flags.optimizer) && !a.given(optimizer_flags.lr)) o.learning_rate = step->learning_rate;
    for (const FlagRow* asked : std::initializer_list<const FlagRow*>{&loss_flags.loss, &loss_flags.loss_on, &optimizer_flags.optimizer})
      if (!a.given(*asked)) drop_from_config(o, *asked);
  }
  return o;
}

// What the file's own step says, unless an option says otherwise.
void take_own_step(const Invocation& call, const Model& model, Job& job) {
  const Arguments& a = call.arguments;
  const std::optional<TrainingStep> step = own_step(a, model);
  if (!step) return;
  const bool loss = !a.given(loss_flags.loss), optimizer = !a.given(optimizer_flags.optimizer);
  call.say(concat("note: ", step->line, loss && optimizer ? " (--loss and --optimizer overrule it)" : loss ? "; of this --optimizer overrules the optimizer" : "; of this --loss overrules the loss"));
  if (loss) {
    const std::string on = job.options.plan.loss_on;
    model.take_loss(*step, job.options);
    if (a.given(loss_flags.loss_on)) job.options.plan.loss_on = on;
  }
  if (!optimizer) return;
  model.take_optimizer(*step, job.options);
  job.options.plan.optimizer = optimizer_options(a, job.options.plan.optimizer);
}

}  // namespace

std::optional<TrainingStep> own_step(const Arguments& a, const Model& model) {
  const bool other_weights = !model.file().head().empty() || !model.file().adapters().empty();  // its optimizer knows none of them
  if ((a.given(loss_flags.loss) && a.given(optimizer_flags.optimizer)) || other_weights) return std::nullopt;
  return model.file().training_step();
}

Job prepare(const Invocation& call, const Model& model, const BackendSet& backends, World* world) {
  const Arguments& a = call.arguments;
  const World::Busy busy(world);
  Job job;
  job.options = model_options(call, PlanMode::training);
  job.options.init = a[train_flags.init];
  job.options.seed = static_cast<std::uint64_t>(a[train_flags.seed]);
  job.options.world = world;
  if (const std::filesystem::path run = a[record_flags.run_dir]; !run.empty()) job.options.plans = run / "plans";
  job.options.resume = a[record_flags.resume];
  const std::vector<DeviceSpec>& devices = job.options.plan.devices;
  backends.check(a[output_flags.dry_run] ? devices : own_devices(devices, world), !a[output_flags.dry_run]);
  settle_inputs(call, model, job.options);
  take_preparation(call, model, job.options);
  take_own_step(call, model, job);
  model.assume_loss(job.options);
  read_train_only(a, model, job.options.plan.freeze, job.options.plan.unfreeze);
  model.check(job.options, backends.all());
  job.fit = fit_options(call, model, job.options);
  Model::check(job.fit);
  if (world && job.fit.preprocess.bad_samples > 0)
    fail(ExitCode::usage, "--on-bad-sample skip: of several processes each reads its own rows alone and would leave others out");
  const DataRequest request = model.data_request(job.options);
  job.data = open_run_data(a, request);
  job.fit.validation = job.data.validation;
  for (const Dataset* data : {job.data.train, job.data.validation, job.data.test})
    if (data) model.fit_constants(job.options, *data);
  if (a.given(metric_flags.metrics) && !job.data.validation)
    call.note(concat("warning: --metrics ", a.text(metric_flags.metrics), ": they are measured on validation data, and there is none (--validation-split 0.1 holds a tenth out)"));
  for (const std::string& note : job.data.train->notes()) call.say("note: " + note);
  if (const auto named = std::ssize(class_names(*job.data.train)); named > 0 && named < request.classes && request.label_rows == 1)
    call.say(concat("note: the data has ", named, named == 1 ? " class" : " classes", ", the model's output has ", request.classes, ": the others are never right (--head ", named, " trains a classifier of these alone)"));
  settle_preparation(call, *job.data.train, request, job.fit.preprocess);
  set_in_config(job.fit, data_flags.normalize, text_of_normalize(job.fit.preprocess));
  if (job.fit.preprocess.mixes()) {
    job.options.plan.dense_labels = true;
    call.say("note: labels of mixed samples are shares of classes (--augment mixup, cutmix); the accuracy in training counts the class of the larger share");
  }
  if (const std::string assumed = model.fit_labels(job.options, *job.data.train); !assumed.empty()) call.say("note: " + assumed);
  set_in_config(job.fit, loss_flags.loss, job.options.plan.loss);
  take_class_weights(call, model, job.options, *job.data.train);
  for (const Dataset* data : {job.data.train, job.data.validation, job.data.test})
    if (data && data->size() > 0)
      if (const std::string found = model.check_data(*data, job.options, job.fit.preprocess); data == job.data.train && !found.empty()) call.say("note: " + found);
  model.fit_inputs(job.options, *job.data.train, job.fit.preprocess);
  return job;
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
