// The steps of a training, each begun while the one before computes where devices allow it.
#include "trainer/fit/fit_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/plan/timeline.h"

namespace tandem {

LoaderOptions Fit::batches_from_here() const {
  return {.order = order_,
          .augment = true,
          .most = s_.micro_batch(),
          .epoch = at_.epoch,
          .batch = at_.batch,
          .epochs = 0,
          .buckets = &buckets_};
}

void Fit::train() {
  const std::int64_t total = steps_.total();
  if (at_.step >= total) return;
  LoaderOptions wanted = batches_from_here();
  if (o_.run_ahead && s_.running().will_run_ahead()) wanted.held = 2;  // those of the steps under way
  wanted.rows = s_.rows_here();
  if (data_.iterable()) wanted.epochs = (total + order_.batches() - 1) / order_.batches();  // what follows may be another run's
  // odd ones are evaluations'
  wanted.memory = [&](std::size_t number, std::int64_t bytes) { return s_.running().host_memory(2 * number, bytes); };
  Loader loader(feed_, wanted);
  struct Settle {  // the loader's memory is read as long as a step is under way
    Fit& fit;
    ~Settle() { fit.settle(); }
  } settled{*this};
  auto before = Clock::now();
  for (bool first = true; at_.step < total && !stopped_ && !stopped_early_; first = false) {
    if (o_.callbacks.on_begin) o_.callbacks.on_begin();
    Stepped step = run_step(loader, first);
    const auto now = Clock::now();
    step.seconds = seconds(now - before);
    trained_ += now - before;
    before = now;
    waiting_.push_back(step);
    if (reports_now(step)) report_steps();
    if (end_step(step)) before = Clock::now();
  }
}

// One step; the next is begun before its results are there where that may be.
Fit::Stepped Fit::run_step(Loader& loader, bool first) {
  Stepped step;
  step.last = ahead_ ? *std::exchange(ahead_, {}) : begin(loader, at_.step, !first);
  step.checkpoint_due = checkpoint_due(step.last);
  if (goes_on(step.last, step.checkpoint_due))
    if (const LoadedBatch* const next = loader.peek(s_.options.world != nullptr); next && s_.session->runs_ahead(plan_of(*next)))
      ahead_ = begin(loader, at_.step + 1, false);
  s_.finish();
  in_step_ = ahead_.has_value();
  step.first = first;
  s_.step = ++at_.step;
  at_.epoch = step.last.epoch;
  at_.batch = step.last.index + 1;
  return step;
}

// All ranks answer alike, and without asking each other.
bool Fit::reports_now(const Stepped& step) const {
  return reports_every_step_ || o_.check_nan || step.checkpoint_due || epoch_ends() || run_ends() || waiting_.size() >= report_steps_;
}

// With the outputs cross: whether this rank was asked to stop, whether it is time for a checkpoint, whether the part of one is written, and
// after how many steps they are to cross next.
void Fit::exchange_reports() {
  enum : std::uint64_t { stop = 1, time = 2, part = 4, step_count = 8 };
  constexpr double most_steps = 1000;
  double all = 0;
  for (const Stepped& step : waiting_) all += step.seconds;
  const double steps = o_.report_seconds * static_cast<double>(waiting_.size()) / std::max(all, 1e-9);
  std::uint64_t word = step_count * static_cast<std::uint64_t>(std::clamp(steps, 1.0, most_steps));
  if (!reports_every_step_ && o_.callbacks.stop && o_.callbacks.stop()) word |= stop;
  if (time_is_over()) word |= time;
  if (checkpoints_.part_is_written()) word |= part;
  const std::span<const std::uint64_t> words = s_.session->exchange_outputs(word);
  for (const std::uint64_t said : words) stop_asked_ = stop_asked_ || (said & stop);
  time_told_ = words[0] & time;
  checkpoints_.set_all_parts_written(std::ranges::all_of(words, [](std::uint64_t said) { return said & part; }));
  report_steps_ = words[0] / step_count;
}

StepReport Fit::report_of(const Stepped& step, std::int64_t number) const {
  StepReport report = s_.report(step.last.plan, step.last.rate);
  report.step = number;
  report.epoch = step.last.epoch + 1;
  report.steps = steps_.total();
  report.weights = step.last.weights;
  report.seconds = step.seconds;
  return report;
}

// Of all steps that were not reported yet.
void Fit::report_steps() {
  if (s_.options.world) exchange_reports();
  const std::vector<Stepped> steps = std::exchange(waiting_, {});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Stepped& step = steps[i];
    if (s_.options.world) s_.session->get_outputs(steps.size() - 1 - i, s_.runners[step.last.plan].outputs);
    const StepReport report = report_of(step, at_.step - std::ssize(steps) + 1 + static_cast<std::int64_t>(i));
    if (!std::isfinite(report.loss)) diverged(report);
    if (const std::string why = told_of_capture_ ? "" : s_.session->not_captured(step.last.plan, 0); !why.empty()) {
      told_of_capture_ = true;
      warn(concat("the device starts each step kernel by kernel, as it cannot be captured: ", why));
    }
    count(report, step.first);
    records_.step(report);
    if (o_.check_nan) check_weights(step.last.rate);
    if (o_.callbacks.on_step) o_.callbacks.on_step(report);
  }
}

// What is to be done between this step and the next. Whether an epoch, or the run, has ended.
bool Fit::end_step(const Stepped& step) {
  if (!ahead_ || !checkpoints_.all_parts_written()) checkpoints_.poll();
  if (reports_every_step_ && !run_ends() && asked_to_stop()) stop_asked_ = true;
  stopped_ = stop_asked_ && !run_ends() && !ahead_;
  const bool whole = epoch_ends(), ended = whole || run_ends();
  if (ended) {
    end_epoch(step.last.rate, whole);
    stopped_ = stopped_ || (!run_ends() && asked_to_stop());  // by who saw the epoch's report
  } else if (stopped_ || step.checkpoint_due || (time_told_ && !ahead_)) {
    check_weights(step.last.rate);
    check_same();
    keep();
  } else if (o_.check_replicas > 0 && at_.step % o_.check_replicas == 0) {
    check_same();
  }
  return ended;
}

double Fit::rate_of(std::int64_t step) const {
  const double scheduled = steps_.rate(step, at_.plateau);
  if (!o_.callbacks.learning_rate) return scheduled;
  const double rate = o_.callbacks.learning_rate(step + 1, scheduled);
  if (!(rate >= 0 && std::isfinite(rate)))
    fail(ExitCode::usage, "learning rate ", rate, " of step ", step + 1, ", expected a finite number of at least 0");
  return rate;
}

// Begins with the next batch, of step `step` (from 0). `counts`: the wait for it is one of the devices.
Fit::Begun Fit::begin(Loader& loader, std::int64_t step, bool counts) {
  const double rate = rate_of(step);
  s_.step = step + 1;
  in_step_ = true;
  const auto asked = Clock::now();
  const LoadedBatch* const batch = loader.next();
  if (counts) waited_seconds_ += seconds(Clock::now() - asked);
  const std::size_t plan = plan_of(*batch);
  const Begun begun{plan, rate, steps_.state(*batch, step, rate, at_.averaged), steps_.weights(plan, *batch), batch->epoch, batch->index};
  if (profiles(step)) {
    announced_ = false;
    profile(plan, *batch, begun.state);
    return begun;
  }
  const LoadedBatch* const next = step + 1 < steps_.total() ? loader.peek() : nullptr;
  BatchAhead ahead{.announced = std::exchange(announced_, next != nullptr)};
  if (next) {
    ahead.plan = plan_of(*next);
    ahead.inputs = next->inputs;
  }
  s_.begin(begun.plan, batch->inputs, begun.state, ahead);
  return begun;
}

void Fit::profile(std::size_t plan, const LoadedBatch& batch, const StepState& state) {
  const std::vector<Timeline> lines = s_.run_traced(plan, batch.inputs, state);
  if (s_.first() && o_.callbacks.on_profile) o_.callbacks.on_profile(s_.running().plan(plan), lines);
}

// Whether the batch that follows may be begun before this one's results are there: nobody looks at the model in between.
bool Fit::goes_on(const Begun& now, bool due) const {
  if (!o_.run_ahead || stop_asked_ || s_.under_way == 0) return false;
  const std::int64_t done = at_.step + 1;
  return done < steps_.total() && !profiles(done) && now.index + 1 < order_.batches() && !due && !o_.check_nan &&
         !checkpoints_.all_parts_written() &&
         (o_.check_replicas == 0 || done % o_.check_replicas != 0);
}

// Whether the step is followed by a checkpoint that is not that of an epoch's end.
bool Fit::checkpoint_due(const Begun& now) {
  const std::int64_t done = at_.step + 1;
  if (done == steps_.total() || now.index + 1 == order_.batches()) return false;
  return (o_.checkpoint_steps > 0 && done % o_.checkpoint_steps == 0) || time_for_checkpoint();
}

// Ends the step that was begun ahead of what went wrong.
void Fit::settle() noexcept {
  try {
    while (s_.under_way > 0) s_.finish();
  } catch (const std::exception&) {  // the first failure is told
  }
  ahead_.reset();
}

void Fit::count(const StepReport& report, bool first) {
  double rest = report.loss;  // of the only loss
  for (const Part& part : parts_) {
    const double value = report.metrics.at(part.metric);
    at_.metrics[part.metric].add(value, report.weights[part.weight]);
    rest -= part.share * value;
  }
  if (!report.weights.empty()) at_.loss.add(rest, report.weights[0]);
  if (report.counted > 0) at_.accuracy.add(report.accuracy, report.counted);
  at_.samples += report.samples;
  at_.seconds += report.seconds;
  at_.trace.add(report.loss);
  at_.rates.add(report.learning_rate);
  if (first) return;  // the first step waits for its data and for cold memory
  timed_samples_ += static_cast<double>(report.samples);
  timed_seconds_ += report.seconds;
}

}  // namespace tandem
