// The training loop: one call of Model::fit.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "graph/atomic_file.h"
#include "planner/plan/plan_file.h"
#include "trainer/best_measure.h"
#include "trainer/diagnose.h"
#include "trainer/initialize.h"
#include "trainer/model_state.h"
#include "trainer/position.h"
#include "trainer/replicas.h"
#include "trainer/run_checkpoints.h"
#include "trainer/run_folder.h"
#include "trainer/run_records.h"
#include "trainer/step_plan.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// One call of Model::fit.
class Fit {
 public:
  Fit(Model& model, Model::State& state, const Dataset& data, const FitOptions& options)
      : model_(model),
        s_(state),
        data_(data),
        o_(options),
        folder_(state.first() ? options.run_dir : std::filesystem::path(), options.run_dir_held, [this](const std::string& text) { warn(text); }),
        records_(folder_, options, [this](const std::string& text) { warn(text); }),
        feed_(data, state.targets, options.preprocess, state.options.seed),
        buckets_(state.buckets_for(feed_)),
        from_initial_(std::exchange(state.initial, false)),
        order_{.samples = data.size(), .batch = state.running().plan(0).batch, .shuffle = options.shuffle, .seed = state.options.seed, .buckets = buckets_.by_sample()},
        steps_(state, options, order_),
        checkpoints_(folder_, state, data, order_, options) {}

  // Leaves word in the folder of how it ended.
  History run() {
    try {
      History history = run_to_its_end();
      folder_.write_end(history.stopped ? "stopped" : "done");
      return history;
    } catch (const Error& e) {
      if (begun_) folder_.write_end("failed", e.what());
      throw;
    }
  }

  // Leaves where the last fit ended in the folder.
  void keep_position() {
    at_ = position_of(s_.position, order_.batches());
    checkpoints_.write(at_, folder_.last());
    if (!o_.config.is_null()) write_atomically(o_.run_dir / "config.json", o_.config.dump(2) + "\n");
  }

 private:
  History run_to_its_end() {
    check();
    if (o_.resume) {
      at_ = checkpoints_.resume();
      started_ = at_.step;
    }
    if (at_.step == 0) s_.start_averages();
    s_.fitted = Json::Object{{"learning_rate", steps_.base_rate()}, {"schedule", o_.schedule.name}, {"epochs", o_.epochs}, {"accumulate", o_.accumulate}};
    for (std::size_t i = 0; i < 2; ++i)  // the plans of whole and of short batches, before anything is trained
      if (const std::int64_t size = i == 0 ? std::min(order_.batch, order_.samples) : order_.samples % order_.batch; size > 0)
        for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) s_.plan_for(PlanMode::training, size, bucket);
    if (o_.validation && o_.validation->size() > 0) {
      const std::int64_t samples = o_.validation->size(), batch = std::min(o_.eval_batch > 0 ? o_.eval_batch : order_.batch, samples);
      s_.plan_for(PlanMode::inference, batch);
      if (s_.own_loss() && samples % batch > 0) s_.plan_for(PlanMode::inference, samples % batch);
    }
    if (asked_to_stop()) return history(true);
    if (!s_.kept_plans.failure().empty()) warn(concat(s_.kept_plans.failure(), ": a resumed run plans anew"));
    if (!o_.resume) folder_.start_anew();
    folder_.take_up();
    begun_ = true;
    if (!o_.config.is_null()) folder_.write("config.json", o_.config.dump(2) + "\n");
    folder_.write("plan.txt", text_of_plan(model_.plan(), true));
    records_.begin(at_.step, [&] { return s_.file.graph({.batch = order_.batch, .dims = dims_of(s_.options), .training = false, .max_turns = s_.options.max_turns}); });
    try {
      if (epoch_is_open()) o_.validation && !std::isfinite(at_.history.back().val_loss) ? finish_epoch() : judge();
      if (!stopped_ && !stopped_early_) train();
    } catch (const Error& e) {
      // Another rank failed. In the midst of a step the parameters are neither those before it nor those after it.
      checkpoints_.finish();
      if (e.code() == ExitCode::communication && !in_step_ && at_.step > checkpoints_.step()) keep();
      checkpoints_.finish();
      throw;
    }
    return history(stopped_);
  }

  void warn(const std::string& text) const {
    if (o_.callbacks.on_warning) o_.callbacks.on_warning(text);
  }

  History history(bool stopped) {
    checkpoints_.finish();
    records_.flush();
    s_.position = json_of(at_);
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

  void check() {
    if (s_.running().plan(0).mode != PlanMode::training)
      fail(ExitCode::usage, "model '", s_.file.name(), "' is compiled for inference, not for training");
    Model::check(o_);
    if (data_.size() == 0) fail(ExitCode::data, data_.name(), " has no samples");
    feed_.check_values(s_.options.plan.loss);
    if (o_.accumulate > 1 && !s_.options.plan.optimizer.accumulate)
      fail(ExitCode::usage, "option accumulate: the model is compiled for steps of one batch (OptimizerOptions::accumulate)");
    if (o_.averaging.any() && !s_.options.plan.optimizer.average)
      fail(ExitCode::usage, "averages of the weights: the model is compiled without them (OptimizerOptions::average)");
    const auto fields = data_.fields();
    const bool weights = std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; });
    if (weights && !s_.options.plan.sample_weights)
      fail(ExitCode::usage, data_.name(), " has weights of samples, and the model is compiled without: set option sample_weights");
  }

  // What one more batch adds to a step's report.
  static void add(StepReport& sum, const StepReport& part, double share) {
    sum.samples += part.samples;
    sum.loss += share * part.loss;
    sum.accuracy = share * part.accuracy + (std::isnan(sum.accuracy) ? 0 : sum.accuracy);
  }

  void train() {
    const std::int64_t total = steps_.total(), per_epoch = order_.batches();
    if (at_.step >= total) return;
    Loader loader(feed_, {.order = order_,
                          .augment = true,
                          .epoch = at_.epoch,
                          .batch = at_.batch,
                          .epochs = 0,
                          .held = o_.run_ahead && s_.running().will_run_ahead() ? 2U : 1U,  // those of the steps under way
                          .buckets = &buckets_,
                          .rows = s_.rows_here(),
                          .memory = [&](std::size_t number, std::int64_t bytes) { return s_.running().host_memory(number, bytes); }});
    struct Settle {  // the loader's memory is read as long as a step is under way
      Fit& fit;
      ~Settle() { fit.settle(); }
    } settled{*this};
    auto before = Clock::now();
    for (bool first = true; at_.step < total && !stopped_ && !stopped_early_; first = false) {
      StepReport report;
      double rate = 0;
      std::int64_t epoch = 0, index = 0;  // of the last batch
      bool due = false;                   // a checkpoint
      for (bool more = true; more;) {
        const Begun now = ahead_ ? *std::exchange(ahead_, {}) : begin(loader, at_.step, !first);
        more = now.state.hold;
        if (!more) due = checkpoint_due(now);
        if (goes_on(now, due))
          if (const LoadedBatch* const next = loader.peek(s_.options.world != nullptr); next && s_.session->runs_ahead(plan_of(*next)))
            ahead_ = begin(loader, at_.step + (more ? 0 : 1), false);
        s_.finish();
        s_.step = at_.step + 1;
        rate = now.rate;
        epoch = now.epoch;
        index = now.index;
        const StepReport part = s_.report(now.plan, rate);
        if (now.state.fresh && !more)
          report = part;
        else
          add(report, part, now.state.share);
        report.learning_rate = rate;
        report.loss_scale = part.loss_scale;
      }
      report.step = s_.step;
      in_step_ = ahead_.has_value();
      const auto now = Clock::now();
      report.epoch = epoch + 1;
      report.steps = total;
      report.seconds = seconds(now - before);
      trained_ += now - before;
      before = now;
      if (!std::isfinite(report.loss)) diverged(report);
      count(report, first);
      at_.epoch = epoch;
      at_.batch = index + 1;
      records_.step(report);
      if (o_.check_nan) check_weights(rate);
      if (o_.callbacks.on_step) o_.callbacks.on_step(report);
      checkpoints_.poll();
      stop_asked_ = stop_asked_ || (at_.step < total && asked_to_stop());
      stopped_ = stop_asked_ && at_.step < total && !ahead_;
      const bool epoch_ends = at_.batch == per_epoch;
      if (epoch_ends || at_.step == total) {
        end_epoch(rate, epoch_ends);
      } else if (stopped_ || due) {
        check_weights(rate);
        check_same();
        keep();
      } else if (o_.check_replicas > 0 && at_.step % o_.check_replicas == 0) {
        check_same();
      }
      if (epoch_ends || at_.step == total) before = Clock::now();
    }
  }

  // A batch whose step was begun.
  struct Begun {
    std::size_t plan = 0;
    double rate = 0;
    StepState state;
    std::int64_t epoch = 0, index = 0;
  };

  std::size_t plan_of(const LoadedBatch& batch) { return s_.plan_for(PlanMode::training, batch.size, batch.bucket); }

  // Begins with the next batch, of step `step` (from 0). `counts`: the wait for it is one of the devices.
  Begun begin(Loader& loader, std::int64_t step, bool counts) {
    const double rate = steps_.rate(step, at_.plateau);
    s_.step = step + 1;
    in_step_ = true;
    const auto asked = Clock::now();
    const LoadedBatch* const batch = loader.next();
    if (counts) waited_seconds_ += seconds(Clock::now() - asked);
    const Begun begun{plan_of(*batch), rate, steps_.state(*batch, step, rate, at_.averaged), batch->epoch, batch->index};
    const LoadedBatch* const next = begun.state.hold || step + 1 < steps_.total() ? loader.peek() : nullptr;
    BatchAhead ahead{.announced = std::exchange(announced_, next != nullptr)};
    if (next) {
      ahead.plan = plan_of(*next);
      ahead.inputs = next->inputs;
    }
    s_.begin(begun.plan, batch->inputs, begun.state, ahead);
    return begun;
  }

  // Whether the batch that follows may be begun before this one's results are there: nobody looks at the model in between.
  bool goes_on(const Begun& now, bool due) const {
    if (!o_.run_ahead || stop_asked_ || s_.under_way == 0) return false;
    if (now.state.hold) return true;
    const std::int64_t done = at_.step + 1;
    return done < steps_.total() && now.index + 1 < order_.batches() && !due && !o_.check_nan && (o_.check_replicas == 0 || done % o_.check_replicas != 0);
  }

  // Whether the step is followed by a checkpoint that is not that of an epoch's end.
  bool checkpoint_due(const Begun& now) {
    const std::int64_t done = at_.step + 1;
    if (done == steps_.total() || now.index + 1 == order_.batches()) return false;
    return (o_.checkpoint_steps > 0 && done % o_.checkpoint_steps == 0) || time_for_checkpoint();
  }

  // Ends the step that was begun ahead of what went wrong.
  void settle() noexcept {
    try {
      while (s_.under_way > 0) s_.finish();
    } catch (const std::exception&) {  // the first failure is told
    }
    ahead_.reset();
  }

  bool asked_to_stop() const { return s_.any(o_.callbacks.stop && o_.callbacks.stop()); }

  void count(const StepReport& report, bool first) {
    ++at_.step;
    at_.loss += report.loss * static_cast<double>(report.samples);
    at_.correct += report.accuracy * static_cast<double>(report.samples);
    at_.samples += report.samples;
    for (const auto& [name, value] : report.metrics) at_.metrics[name] += value * static_cast<double>(report.samples);
    at_.seconds += report.seconds;
    at_.trace.add(report.loss);
    at_.rates.add(report.learning_rate);
    if (first) return;  // the first step waits for its data and for cold memory
    timed_samples_ += static_cast<double>(report.samples);
    timed_seconds_ += report.seconds;
  }

  void end_epoch(double rate, bool whole) {
    check_weights(rate);
    check_same();
    const auto samples = static_cast<double>(at_.samples);
    EpochReport report{.epoch = at_.epoch + 1,
                       .epochs = o_.epochs,
                       .step = at_.step,
                       .loss = at_.loss / samples,
                       .accuracy = at_.correct / samples,
                       .learning_rate = rate,
                       .seconds = at_.seconds,
                       .samples_per_second = samples / at_.seconds};
    for (const auto& [name, sum] : std::exchange(at_.metrics, {})) report.metrics[name] = sum / samples;
    at_.history.push_back(report);
    if (whole) {
      ++at_.epoch;
      at_.batch = 0;
    }
    at_.loss = at_.correct = at_.seconds = 0;
    at_.samples = 0;
    write_metrics();
    keep();  // before it is measured: that takes its time, and may be broken off
    finish_epoch();
  }

  void keep() {
    records_.flush();  // what a resumed run does not write again
    checkpoints_.keep(at_);
    kept_at_ = Clock::now();
  }

  // All ranks go by the first one's clock.
  bool time_for_checkpoint() {
    return o_.checkpoint_seconds > 0 && s_.any(s_.first() && seconds(Clock::now() - kept_at_) >= o_.checkpoint_seconds);
  }

  void write_metrics() {
    records_.flush();
    folder_.write_metrics(at_.history, {at_.trace, at_.rates, static_cast<double>(order_.batches())});
  }

  void check_same() const {
    if (o_.check_replicas > 0) check_replicas(*s_.session, s_.options.world, at_.step);
  }

  // A checkpoint at an epoch's end is written before the epoch is measured and compared with the best: whoever goes on from
  // it does both.
  bool epoch_is_open() const { return !at_.history.empty() && at_.history.back().step == at_.step; }

  void finish_epoch() {
    EpochReport& report = at_.history.back();
    if (o_.validation && !stopped_) {
      const bool averages = o_.averaging.any() && model_.swap_averages();
      const Evaluation e = model_.evaluate(
          *o_.validation, {.batch = o_.eval_batch, .preprocess = o_.preprocess, .metrics = o_.metrics, .on_batch = o_.callbacks.on_validation, .stop = o_.callbacks.stop});
      if (averages) model_.swap_averages();
      report.val_loss = e.loss;
      report.val_accuracy = e.accuracy;
      for (const auto& [name, value] : e.metrics) report.metrics["val_" + name] = value;
      stopped_ = e.stopped;
    }
    if (!stopped_ || !o_.validation) {
      if (o_.validation) write_metrics();
      judge();
    }
    if (!stopped_) records_.epoch(report, *s_.session);
    if (o_.callbacks.on_epoch) o_.callbacks.on_epoch(report);
  }

  // `best` is what the best checkpoint has.
  void judge() {
    const EpochReport& report = at_.history.back();
    const double score = best_.score(report);
    if (std::isnan(score) && !best_.name().empty() && best_.name_in(report).empty()) {
      std::string measured;
      for (const auto& [name, value] : report.metrics) measured += concat(", ", name);
      fail(ExitCode::usage, "option best ", best_.name(), ": no epoch has it; measured are loss, accuracy", measured);
    }
    if (!(score <= at_.best) && checkpoints_.keep_best(at_)) at_.best = score;
    if (std::exchange(at_.judged, at_.step) != at_.step) {
      const double loss = std::isfinite(report.val_loss) ? report.val_loss : report.loss;
      follow_measure(o_.schedule, steps_.base_rate(), best_.name().empty() ? loss : -score, at_.plateau);
      if (o_.early_stopping.patience > 0) at_.early.add(-score, o_.early_stopping.min_delta, false, 0);
    }
    stopped_early_ = o_.early_stopping.patience > 0 && at_.early.bad >= o_.early_stopping.patience;
  }

  // A Relu turns what is not a number into zero: then weights may be lost although the loss is finite.
  void check_weights(double rate) {
    const std::string lost = lost_parameter(*s_.session);
    if (!lost.empty())
      fail(ExitCode::diverged, "parameter '", lost, "' is no longer finite after step ", at_.step, " (epoch ", at_.epoch + 1, ", learning rate ",
           rate, ")", advice(at_.step));
  }

  // Trains anew from the run's start or last checkpoint to the step that first lost a weight or gave no finite loss, and
  // looks into that one. A run's steps give the same bits again.
  std::string advice(std::int64_t failed) {
    checkpoints_.finish();
    const bool kept = folder_.kept() && checkpoints_.step() > 0;
    return concat(cause_of(failed, kept), kept ? concat("\n  the checkpoint of step ", checkpoints_.step(), " in ", folder_.path().string(), " is from before that") : "");
  }
  std::string cause_of(std::int64_t failed, bool kept) {
    constexpr std::string_view rate = ": try a smaller learning rate or a warm-up";
    constexpr double patience = 60;  // seconds of training that the way back may take
    if (s_.options.world || (!kept && !from_initial_)) return std::string(rate);
    const std::int64_t again = failed - (kept ? checkpoints_.step() : 0);
    if (!o_.check_nan && again * seconds(trained_) > patience * static_cast<double>(std::max<std::int64_t>(1, s_.step - started_)))
      return concat(rate, ". The cause is not sought, it lies ", again, " steps behind what was kept (option check_nan seeks it, option checkpoint_steps keeps more)");
    try {
      const auto [step, cause] = find_cause(kept, failed);
      if (!cause.empty()) return concat(": at step ", step, " ", cause, rate);
    } catch (const std::exception& e) {
      return concat(rate, " (the cause could not be sought: ", e.what(), ")");
    }
    return std::string(rate);
  }

  std::pair<std::int64_t, std::string> find_cause(bool kept, std::int64_t failed) {
    if (kept) {
      at_ = checkpoints_.go_back();
    } else {
      at_ = {};
      s_.session->set_parameters(s_.first_values(s_.source(s_.options)(s_.options.plan.batch), s_.options, s_.backends).values);
      std::vector<NamedTensor> zeros;
      s_.session->each_optimizer_state([&](const NamedTensor& t) { zeros.push_back({t.name, Tensor(t.tensor.type())}); });
      s_.session->set_parameters(zeros);
      s_.start_states();
    }
    Feed feed(data_, s_.targets, o_.preprocess, s_.options.seed);  // the run's own is in use by its loader
    Loader loader(feed, {.order = order_, .augment = true, .epoch = at_.epoch, .batch = at_.batch, .epochs = 0, .buckets = &buckets_});
    for (s_.step = at_.step + 1;;) {
      if (o_.callbacks.stop && o_.callbacks.stop()) return {s_.step, ""};
      const LoadedBatch* const batch = loader.next();
      const std::size_t plan = s_.plan_for(PlanMode::training, batch->size, batch->bucket);
      const double rate = steps_.rate(s_.step - 1, at_.plateau);
      StepMaterial step{.weights = s_.session->parameters(), .inputs = {}, .batch = batch->size, .state = steps_.state(*batch, s_.step - 1, rate, at_.averaged)};
      s_.run(plan, batch->inputs, step.state);
      const bool hold = step.state.hold;
      if ((s_.step < failed || hold) && std::isfinite(s_.report(plan, rate).loss) && (hold || lost_parameter(*s_.session).empty())) {
        s_.step += !hold;
        continue;
      }
      for (std::size_t t = 0; t < s_.targets.size(); ++t) step.inputs.emplace_back(s_.targets[t].name, batch->inputs[t]);
      std::string cause = find_not_finite(s_.source(s_.options, batch->bucket), s_.losses_if_any(s_.options, batch->bucket), s_.options.plan, s_.backends, step);
      if (const std::string lost = lost_parameter(*s_.session); cause.empty() && !lost.empty())
        cause = concat("the update of '", lost, "' by a learning rate of ", rate, " left what float32 can hold");
      return {s_.step, cause};
    }
  }

  [[noreturn]] void diverged(const StepReport& report) {
    settle();
    write_metrics();
    fail(ExitCode::diverged, "the loss is ", std::isnan(report.loss) ? "not a number" : "infinite", " at step ", s_.step, " (epoch ",
         report.epoch, ", learning rate ", report.learning_rate, ")", advice(s_.step));
  }

  Model& model_;
  Model::State& s_;
  const Dataset& data_;
  const FitOptions& o_;
  RunFolder folder_;
  RunRecords records_;
  Feed feed_;
  const Buckets buckets_;
  const bool from_initial_;  // the run starts with the model's first values
  BatchOrder order_;
  StepPlan steps_;
  RunCheckpoints checkpoints_;
  const BestMeasure best_{o_.best};
  Position at_;
  double timed_samples_ = 0, timed_seconds_ = 0, waited_seconds_ = 0;
  Clock::duration trained_{};  // time of all steps so far
  Clock::time_point kept_at_ = Clock::now();  // the last checkpoint
  bool begun_ = false, stopped_ = false, stopped_early_ = false, in_step_ = false;
  std::optional<Begun> ahead_;  // begun while the one before computes
  bool announced_ = false;      // the next batch, to the step begun last
  bool stop_asked_ = false;
  std::int64_t started_ = 0;  // step that the run went on from
};

}  // namespace

void Model::check(const FitOptions& o) {
  if (o.check_replicas < 0) fail(ExitCode::usage, "comparing replicas every ", o.check_replicas, " steps, expected 0 or more");
  if (o.epochs == 0 && o.steps == 0) fail(ExitCode::usage, "training without end: give epochs or steps");
  if (o.learning_rate && !(*o.learning_rate >= 0 && std::isfinite(*o.learning_rate)))
    fail(ExitCode::usage, "learning rate ", *o.learning_rate, ", expected a finite number of at least 0");
  BestMeasure(o.best);
  if (o.accumulate < 1) fail(ExitCode::usage, "option accumulate: ", o.accumulate, " batches a step, expected 1 or more");
  if (!(o.averaging.ema >= 0 && o.averaging.ema < 1)) fail(ExitCode::usage, "option ema: a decay of ", o.averaging.ema, ", expected at least 0 and below 1, such as 0.999");
  if (o.averaging.ema > 0 && o.averaging.swa) fail(ExitCode::usage, "option ema and option swa: one average is kept, give one of them");
  if (!(o.averaging.from >= 0)) fail(ExitCode::usage, "option average_from: ", o.averaging.from, " epochs, expected 0 or more");
  if (o.early_stopping.patience < 0 || !(o.early_stopping.min_delta >= 0)) fail(ExitCode::usage, "option early_stopping: patience and min_delta may not be negative");
}

History Model::fit(const Dataset& data, const FitOptions& options) {
  Fit fit(*this, *state_, data, options);
  state_->preparation.erase("normalize");
  state_->preparation.erase("classes");
  state_->preparation.erase("resize");
  state_->preparation.erase("missing");
  if (std::ranges::any_of(data.fields(), &Field::encoded)) state_->preparation["resize"] = text_of(options.preprocess.resizing);
  if (const std::vector<std::string> names = class_names(data); !names.empty()) state_->preparation["classes"] = Json(names).dump();
  if (const auto means = data.means(); !means.empty()) {
    Json::Object object;
    for (const auto& [column, mean] : means) object.emplace_back(column, mean);
    state_->preparation["missing"] = Json(std::move(object)).dump();
  }
  if (!options.preprocess.mean.empty()) state_->preparation["normalize"] = text_of_normalize(options.preprocess);
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
    Fit(*this, *state_, data, there).keep_position();
  } catch (...) {
    std::filesystem::remove_all(folder, error);
    throw;
  }
}

}  // namespace tandem
