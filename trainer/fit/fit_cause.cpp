// Where a training is lost: which weight or loss is no longer a number, and what made it so.
#include "base/option.h"
#include "trainer/fit/fit_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/loss/losses.h"
#include "trainer/fit/diagnose.h"
#include "trainer/template/initialize.h"

namespace tandem {
namespace {

// Labels beside which first outputs are nothing, of a loss whose gradients begin with their size. Empty: there are none.
std::string large_labels(const StepMaterial& step) {
  constexpr float large = 100;
  for (const auto& [target, bytes] : step.inputs) {
    if (!target.label || target.weight || target.loss.empty() || target.sample.dtype != DType::float32) continue;
    const std::string_view robust = loss_row(target.loss).robust;
    if (robust.empty()) continue;
    const std::span values(reinterpret_cast<const float*>(bytes), static_cast<std::size_t>(step.batch * target.sample.shape.elements()));
    float most = 0;
    for (const float value : values) most = std::max(most, std::abs(value));
    if (most > large && std::isfinite(most))
      return concat(". Labels reach ", most, ": divide them by a number of their size, or use ", option("loss"),
                    ' ', robust, ", whose gradients are bounded");
  }
  return "";
}

}  // namespace

// What a lost weight makes may not reach the loss (dropped, masked, a row that no sample looks up): then that is finite.
void Fit::check_weights(double rate) {
  std::string lost;
  s_.session->together([&] { lost = lost_parameter(*s_.session); });
  if (s_.options.world && s_.session->lacks_parameters()) lost = s_.options.world->broadcast(lost);
  else if (!s_.first()) lost = lost_parameter(*s_.session);
  if (!lost.empty())
    fail(ExitCode::diverged, "parameter '", lost, "' is no longer finite after step ", at_.step, " (epoch ", at_.epoch + 1,
         ", learning rate ", rate, ")", advice(at_.step));
}

// Trains anew from the run's start or last checkpoint to the step that first lost a weight or gave no finite loss, and
// looks into that one. A run's steps give the same bits again.
std::string Fit::advice(std::int64_t failed) {
  checkpoints_.finish();
  const bool kept = folder_.kept() && checkpoints_.step() > 0;
  return concat(
      cause_of(failed, kept),
      kept ? concat("\n  the checkpoint of step ", checkpoints_.step(), " in ", folder_.path().string(), " is from before that") : "");
}

std::string Fit::cause_of(std::int64_t failed, bool kept) {
  constexpr std::string_view rate = ": try a smaller learning rate or a warm-up";
  constexpr double patience = 60;  // seconds of training that the way back may take
  if (s_.options.world || data_.iterable() || (!kept && !from_initial_)) return std::string(rate);
  const std::int64_t again = failed - (kept ? checkpoints_.step() : 0);
  if (!o_.check_nan && again * seconds(trained_) > patience * static_cast<double>(std::max<std::int64_t>(1, s_.step - started_)))
    return concat(rate, ". The cause is not sought, it lies ", again, " steps behind what was kept (", option("check_nan"), " seeks it, ",
                  option("checkpoint_steps"), " keeps more)");
  try {
    const Cause found = find_cause(kept, failed);
    return concat(found.values.empty() ? "" : concat(": at step ", found.step, " ", found.values), rate, found.labels);
  } catch (const std::exception& e) {
    return concat(rate, " (the cause could not be sought: ", e.what(), ")");
  }
  return std::string(rate);
}

Fit::Cause Fit::find_cause(bool kept, std::int64_t failed) {
  if (kept) {
    at_ = checkpoints_.go_back();
  } else {
    at_ = {};
    // a teacher's have not changed
    s_.session->set_parameters(
        first_values(s_.source.file(), s_.source.graphs(s_.options)(s_.micro_batch()), s_.options, s_.backends).values);
    std::vector<NamedTensor> zeros;
    s_.session->each_optimizer_state([&](const NamedTensor& t) { zeros.push_back({t.name, Tensor(t.tensor.type())}); });
    s_.session->set_parameters(zeros, ValueRole::optimizer_state);
    s_.start_states();
  }
  Feed feed(data_, s_.targets, o_.preprocess, s_.options.seed);  // the run's own is in use by its loader
  feed.give_bytes(s_.options.plan.given_bytes);
  CompileOptions options = s_.options.plan;
  if (!bytes_) options.given_bytes.clear();
  Loader loader(feed, batches_from_here());
  for (s_.step = at_.step + 1;;) {
    if (o_.callbacks.stop && o_.callbacks.stop()) return {s_.step};
    const LoadedBatch* const batch = loader.next();
    const std::size_t plan = s_.plan_for({.batch = batch->size, .bytes = bytes_, .bucket = batch->bucket});
    const double rate = steps_.rate(s_.step - 1, at_.plateau);
    StepMaterial step{.weights = s_.session->parameters(),
                      .teacher = s_.session->parameters_as(ValueRole::teacher),
                      .inputs = {},
                      .batch = batch->size,
                      .state = steps_.state(*batch, s_.step - 1, rate, at_.averaged)};
    s_.run(plan, batch->inputs, step.state);
    if (s_.step < failed && std::isfinite(s_.report(plan, rate).loss) && lost_parameter(*s_.session).empty()) {
      ++s_.step;
      continue;
    }
    for (std::size_t t = 0; t < s_.targets.size(); ++t) step.inputs.emplace_back(s_.targets[t], batch->inputs[t]);
    std::string cause = find_not_finite(s_.source.graphs(s_.options, batch->bucket), s_.source.losses_if_any(s_.options, batch->bucket),
                                        options, s_.backends, step);
    std::string labels = large_labels(step);
    if (const std::string lost = lost_parameter(*s_.session); cause.empty() && !lost.empty())
      cause = concat("the update of '", lost, "' by a learning rate of ", rate, " left what float32 can hold");
    return {s_.step, std::move(cause), std::move(labels)};
  }
}

void Fit::diverged(const StepReport& report) {
  settle();
  write_metrics();
  fail(ExitCode::diverged, "the loss is ", std::isnan(report.loss) ? "not a number" : "infinite", " at step ", report.step, " (epoch ",
       report.epoch, ", learning rate ", report.learning_rate, ")", advice(report.step));
}

}  // namespace tandem
