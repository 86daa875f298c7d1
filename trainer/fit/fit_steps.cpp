// The steps of a training, each begun while the one before computes where devices allow it.
#include "trainer/fit/fit_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem {
namespace {

// What one more batch adds to a step's report: losses of the batches are parts of the step's.
void add(StepReport& sum, const StepReport& part) {
  sum.samples += part.samples;
  sum.loss += part.loss;
  for (const auto& [name, value] : part.metrics) sum.metrics[name] += value;
  sum.weights.resize(part.weights.size());
  for (std::size_t i = 0; i < part.weights.size(); ++i) sum.weights[i] += part.weights[i];
  if (std::isnan(part.accuracy)) return;
  const double counted = sum.counted + part.counted;
  sum.accuracy = sum.counted > 0 ? (sum.accuracy * sum.counted + part.accuracy * part.counted) / counted : part.accuracy;
  sum.counted = counted;
}

}  // namespace

void Fit::train() {
  const std::int64_t total = steps_.total(), per_epoch = order_.batches();
  if (at_.step >= total) return;
  LoaderOptions wanted{.order = order_,
                       .augment = true,
                       .epoch = at_.epoch,
                       .batch = at_.batch,
                       .epochs = 0,
                       .held = o_.run_ahead && s_.running().will_run_ahead() ? 2U : 1U,  // those of the steps under way
                       .buckets = &buckets_,
                       .rows = s_.rows_here(),
                       // odd ones are evaluations'
                       .memory = [&](std::size_t number, std::int64_t bytes) { return s_.running().host_memory(2 * number, bytes); }};
  steps_.weigh_batches(wanted);
  Loader loader(feed_, wanted);
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
    if (o_.callbacks.on_begin) o_.callbacks.on_begin();
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
      StepReport part = s_.report(now.plan, rate);
      part.weights = now.weights;
      add(report, part);
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

// Begins with the next batch, of step `step` (from 0). `counts`: the wait for it is one of the devices.
Fit::Begun Fit::begin(Loader& loader, std::int64_t step, bool counts) {
  const double rate = steps_.rate(step, at_.plateau);
  s_.step = step + 1;
  in_step_ = true;
  const auto asked = Clock::now();
  const LoadedBatch* const batch = loader.next();
  if (counts) waited_seconds_ += seconds(Clock::now() - asked);
  const Begun begun{plan_of(*batch),        rate,         steps_.state(*batch, step, rate, at_.averaged),
                    steps_.weights(*batch), batch->epoch, batch->index};
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
bool Fit::goes_on(const Begun& now, bool due) const {
  if (!o_.run_ahead || stop_asked_ || s_.under_way == 0) return false;
  if (now.state.hold) return true;
  const std::int64_t done = at_.step + 1;
  return done < steps_.total() && now.index + 1 < order_.batches() && !due && !o_.check_nan &&
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
  ++at_.step;
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
