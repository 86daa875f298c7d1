// Model::fit, from its checks to its history.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/atomic_file.h"
#include "base/option.h"
#include "base/printable.h"
#include "planner/plan/plan_file.h"
#include "trainer/fit/fit_run.h"
#include "trainer/loss_measures.h"

namespace tandem {

// Leaves word in the folder of how it ended.
History Fit::run() {
  try {
    History history = run_to_its_end();
    folder_.write_end(history.stopped ? "stopped" : "done");
    return history;
  } catch (const Stopped&) {
    throw;
  } catch (const Error& e) {
    if (begun_) folder_.write_end("failed", e.what());
    throw;
  }
}

// Leaves where the last fit ended in the folder.
void Fit::keep_position() {
  at_ = position_of(s_.last.position, order_.batches());
  checkpoints_.write(at_, folder_.last());
  if (!o_.config.is_null()) write_atomically(o_.run_dir / "config.json", o_.config.dump(2) + "\n");
}

History Fit::run_to_its_end() {
  check();
  checkpoints_.share_folder();
  if (o_.resume) {
    at_ = checkpoints_.resume();
    started_ = at_.step;
    if (const std::string moved = steps_.moved_end(at_.steps, at_.step, at_.plateau); !moved.empty()) warn(moved);
  }
  profiled_ = s_.any(static_cast<bool>(o_.callbacks.on_profile));
  at_.steps = std::min(steps_.total(), std::int64_t{1} << 53);
  if (at_.step == 0) s_.start_averages();
  s_.last.options = Json::Object{
      {"learning_rate", steps_.base_rate()}, {"schedule", o_.schedule.name}, {"epochs", o_.epochs}};
  // All plans, before anything is trained.
  for (const PlanKey& key : keys_of_training(order_.samples, order_.batch, bytes_, buckets_.count())) s_.plan_for(key);
  if (o_.validation && o_.validation->size() > 0) {
    const bool bytes = Feed(*o_.validation, s_.targets, o_.preprocess, s_.options.seed).give_bytes(s_.options.plan.given_bytes);
    const std::int64_t batch = o_.eval_batch > 0 ? o_.eval_batch : s_.micro_batch();
    for (const PlanKey& key : keys_of_measuring(o_.validation->size(), batch, bytes, s_.losses, evaluation_of(s_.losses, o_.metrics)))
      s_.plan_for(key);
  }
  if (asked_to_stop()) return history(true);
  if (!s_.kept_plans.failure().empty()) warn(concat(s_.kept_plans.failure(), ": a resumed run plans anew"));
  if (!o_.resume) folder_.start_anew();
  folder_.take_up();
  begun_ = true;
  if (!o_.config.is_null()) folder_.write("config.json", o_.config.dump(2) + "\n");
  folder_.write("plan.txt", concat(text_of_plan(model_.plan(), true), o_.choices.empty() ? "" : "\n", o_.choices));
  records_.begin(at_.step, [&] { return s_.source.file().graph(import_options(s_.options, s_.micro_batch(), false)); });
  try {
    if (epoch_is_open()) o_.validation && !std::isfinite(at_.history.back().val_loss) ? finish_epoch() : judge();
    if (!stopped_ && !stopped_early_) train();
  } catch (const Error& e) {
    // Another rank failed. In the midst of a step the parameters are neither those before it nor those after it; of steps that were not
    // reported the losses are not known.
    checkpoints_.finish_alone();
    const bool whole = !in_step_ && waiting_.empty() && !s_.session->lacks_parameters();
    if (e.code() == ExitCode::communication && whole && at_.step > checkpoints_.step()) keep();
    checkpoints_.finish_alone();
    throw;
  }
  return history(stopped_);
}

History Fit::history(bool stopped) {
  checkpoints_.finish();
  records_.flush();
  s_.last.position = json_of(at_);
  return {.epochs = std::move(at_.history),
          .steps = at_.step,
          .samples_per_second = timed_seconds_ > 0 ? timed_samples_ / timed_seconds_ : 0,
          .waiting_share = timed_seconds_ > 0 ? waited_seconds_ / timed_seconds_ : 0,
          .stopped = stopped,
          .stopped_early = stopped_early_,
          .kept = checkpoints_.step(),
          .checkpoints = checkpoints_.written(),
          .failed = checkpoints_.failed(),
          .failure = checkpoints_.failure()};
}

void Fit::check() {
  if (s_.running().plan(0).mode != PlanMode::training)
    fail(ExitCode::usage, "model '", s_.source.file().name(), "' is compiled for inference, not for training");
  Model::check(o_);
  if (data_.size() == 0) fail(ExitCode::data, data_.name(), " has no samples");
  feed_.check_values(s_.options.plan.loss.name);
  if (o_.averaging.any() && !s_.options.plan.optimizer.average)
    fail(ExitCode::usage, "averages of the weights: the model is compiled without them (OptimizerOptions::average)");
  const auto fields = data_.fields();
  const bool weights = std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; });
  if (weights && !s_.options.plan.loss.sample_weights)
    fail(ExitCode::usage, data_.name(), " has weights of samples, and the model is compiled without: set ", option("sample_weights"));
}

void Model::check(const FitOptions& o) {
  if (o.check_replicas < 0) fail(ExitCode::usage, "comparing replicas every ", o.check_replicas, " steps, expected 0 or more");
  if (o.epochs == 0 && o.steps == 0) fail(ExitCode::usage, "training without end: give epochs or steps");
  if (o.learning_rate && !(*o.learning_rate >= 0 && std::isfinite(*o.learning_rate)))
    fail(ExitCode::usage, "learning rate ", *o.learning_rate, ", expected a finite number of at least 0");
  BestMeasure(o.best);
  if (!(o.averaging.ema >= 0 && o.averaging.ema < 1))
    fail(ExitCode::usage, option("ema"), ": a decay of ", o.averaging.ema, ", expected at least 0 and below 1, such as 0.999");
  if (o.averaging.ema > 0 && o.averaging.swa)
    fail(ExitCode::usage, option("ema"), " and ", option("swa"), ": one average is kept, give one of them");
  if (!(o.averaging.from >= 0)) fail(ExitCode::usage, option("average_from"), ": ", o.averaging.from, " epochs, expected 0 or more");
  if (o.early_stopping.patience < 0 || !(o.early_stopping.min_delta >= 0))
    fail(ExitCode::usage, option("early_stopping"), ": patience and min_delta may not be negative");
}

History Model::fit(const Dataset& data, const FitOptions& options) {
  Fit fit(*this, *compiled_, data, options);
  compiled_->last.preparation.erase("normalize");
  compiled_->last.preparation.erase("classes");
  compiled_->last.preparation.erase("resize");
  compiled_->last.preparation.erase("missing");
  if (std::ranges::any_of(data.fields(), &Field::encoded)) compiled_->last.preparation["resize"] = text_of(options.preprocess.resizing);
  if (const std::vector<std::string> names = class_names(data); !names.empty()) {
    Json::Array list;
    for (const std::string& name : names) list.emplace_back(as_text(name));
    compiled_->last.preparation["classes"] = Json(std::move(list)).dump();
  }
  if (const auto means = data.means(); !means.empty()) {
    Json::Object object;
    for (const auto& [column, mean] : means) object.emplace_back(column, mean);
    compiled_->last.preparation["missing"] = Json(std::move(object)).dump();
  }
  if (!options.preprocess.mean.empty()) compiled_->last.preparation["normalize"] = text_of_normalize(options.preprocess);
  return fit.run();
}

void Model::keep(const std::filesystem::path& folder, const Dataset& data, const FitOptions& options) {
  std::error_code error;
  if (!std::filesystem::create_directory(folder, error))
    fail(ExitCode::io, folder.string(), error ? concat(": cannot be created: ", error.message()) : std::string(": is there already"));
  FitOptions there = options;
  there.run_dir = folder;
  there.run_dir_held = false;
  there.callbacks = {};
  try {
    Fit(*this, *compiled_, data, there).keep_position();
  } catch (...) {
    std::filesystem::remove_all(folder, error);
    throw;
  }
}

}  // namespace tandem
