#include "cli/train_job.h"

#include <map>

#include "base/printable.h"
#include "base/spec.h"
#include "cli/image_options.h"
#include "cli/loss_options.h"
#include "cli/model_options.h"
#include "cli/optimizer_options.h"
#include "cli/ranks.h"
#include "cli/record_options.h"
#include "cli/tune_options.h"
#include "trainer/measure/scores.h"
#include "trainer/records/best_measure.h"

namespace tandem {
namespace {

RunData open_run_data(const Arguments& a, const DataRequest& request) {
  RunData data{.splits = open_data(a.text("data"), request)};
  data.train = data.splits.train.get();
  if (!data.train) fail(ExitCode::data, a.text("data"), " has no training part");
  data.validation = data.splits.validation.get();
  data.test = data.splits.test.get();
  if (const double share = a.number("validation-split"); share != 0) {
    std::tie(data.kept, data.held_out) = hold_out(*data.train, share, request.seed);
    data.train = data.kept.get();
    data.validation = data.held_out.get();
  }
  if (!data.validation) data.validation = data.test;
  return data;
}

FitOptions fit_options(const Invocation& call, const Model& model, const ModelOptions& options) {
  const Arguments& a = call.arguments;
  FitOptions o;
  o.steps = a.integer("steps");
  o.epochs = a.given("steps") && !a.given("epochs") ? 0 : a.integer("epochs");
  rate_options(call, options.plan.optimizer, o);
  o.preprocess = preprocess(call, model);
  parse_augment(o.preprocess, a.text("augment"));
  o.shuffle = a.on("shuffle");
  o.eval_batch = a.integer("eval-batch-size");
  o.metrics = metrics_of(a);
  // What the best is told by is measured.
  if (std::string best = BestMeasure(o.best).name(); !best.empty()) {
    if (best.starts_with("val_")) best.erase(0, 4);
    if (lower_is_better(best)) o.metrics.push_back(best);
  }
  o.run_dir = a.text("run-dir");
  o.run_dir_held = true;
  o.resume = a.on("resume");
  read_record_options(o, a);
  o.check_replicas = a.integer("check-replicas");
  std::error_code error;
  Json::Object config{{"command", "train"}, {run_folder_key, as_text(std::filesystem::current_path(error).string())}};
  const Json resolved = a.resolved();
  // What the file or the data decided stands there as it was decided.
  const std::map<std::string, Json, std::less<>> decided{
      {"epochs", o.epochs},
      {"normalize", text_of_normalize(o.preprocess)},
      {"resize", text_of(o.preprocess.resizing)},
      {"loss", options.plan.loss},
      {"loss-on", as_text(options.plan.loss_on)}};
  for (const auto& [key, value] : resolved.object()) {
    const auto it = decided.find(key);
    config.emplace_back(key, it == decided.end() ? value : it->second);
  }
  // What the file's own step decided is asked of it again where the run goes on.
  if (const std::optional<TrainingStep> step = own_step(a, model)) {
    if (!a.given("optimizer") && !a.given("lr")) o.learning_rate = step->learning_rate;
    std::erase_if(config, [&](const auto& entry) { return (entry.first == "loss" || entry.first == "loss-on" || entry.first == "optimizer") && !a.given(entry.first); });
  }
  o.config = std::move(config);
  return o;
}

// What the file's own step says, unless an option says otherwise.
void take_own_step(const Invocation& call, const Model& model, Job& job) {
  const Arguments& a = call.arguments;
  const std::optional<TrainingStep> step = own_step(a, model);
  if (!step) return;
  const bool loss = !a.given("loss"), optimizer = !a.given("optimizer");
  call.say(concat("note: ", step->line, loss && optimizer ? " (--loss and --optimizer overrule it)" : loss ? "; of this --optimizer overrules the optimizer" : "; of this --loss overrules the loss"));
  if (loss) {
    const std::string on = job.options.plan.loss_on;
    model.take_loss(*step, job.options);
    if (a.given("loss-on")) job.options.plan.loss_on = on;
  }
  if (!optimizer) return;
  model.take_optimizer(*step, job.options);
  job.options.plan.optimizer = optimizer_options(a, job.options.plan.optimizer);
}

}  // namespace

std::optional<TrainingStep> own_step(const Arguments& a, const Model& model) {
  const bool other_weights = !model.file().head().empty() || !model.file().adapters().empty();  // its optimizer knows none of them
  if ((a.given("loss") && a.given("optimizer")) || other_weights) return std::nullopt;
  return model.file().training_step();
}

Job prepare(const Invocation& call, const Model& model, const BackendSet& backends, World* world) {
  const Arguments& a = call.arguments;
  const World::Busy busy(world);
  Job job;
  job.options = model_options(call, PlanMode::training);
  job.options.init = a.text("init");
  job.options.seed = static_cast<std::uint64_t>(a.integer("seed"));
  job.options.world = world;
  if (!a.text("run-dir").empty()) job.options.plans = std::filesystem::path(a.text("run-dir")) / "plans";
  job.options.resume = a.on("resume");
  const std::vector<DeviceSpec>& devices = job.options.plan.devices;
  backends.check(a.on("dry-run") ? devices : own_devices(devices, world), !a.on("dry-run"));
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
  if (a.given("metrics") && !job.data.validation)
    call.note(concat("warning: --metrics ", a.text("metrics"), ": they are measured on validation data, and there is none (--validation-split 0.1 holds a tenth out)"));
  for (const std::string& note : job.data.train->notes()) call.say("note: " + note);
  if (const auto named = std::ssize(class_names(*job.data.train)); named > 0 && named < request.classes && request.label_rows == 1)
    call.say(concat("note: the data has ", named, named == 1 ? " class" : " classes", ", the model's output has ", request.classes, ": the others are never right (--head ", named, " trains a classifier of these alone)"));
  settle_preparation(call, *job.data.train, request, job.fit.preprocess);
  set_in_config(job.fit, "normalize", text_of_normalize(job.fit.preprocess));
  if (job.fit.preprocess.mixes()) {
    job.options.plan.dense_labels = true;
    call.say("note: labels of mixed samples are shares of classes (--augment mixup, cutmix); the accuracy in training counts the class of the larger share");
  }
  if (const std::string assumed = model.fit_labels(job.options, *job.data.train); !assumed.empty()) call.say("note: " + assumed);
  set_in_config(job.fit, "loss", job.options.plan.loss);
  take_class_weights(call, model, job.options, *job.data.train);
  for (const Dataset* data : {job.data.train, job.data.validation, job.data.test})
    if (data && data->size() > 0)
      if (const std::string found = model.check_data(*data, job.options, job.fit.preprocess); data == job.data.train && !found.empty()) call.say("note: " + found);
  model.fit_inputs(job.options, *job.data.train, job.fit.preprocess);
  return job;
}

void set_in_config(FitOptions& fit, std::string_view option, Json value) {
  Json::Object config = fit.config.object();
  for (auto& [key, held] : config)
    if (key == option) held = value;
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
