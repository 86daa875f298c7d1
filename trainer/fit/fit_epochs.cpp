// What stands at an epoch's end: its report, a checkpoint, the measure on validation data, and what follows from that.
#include "base/option.h"
#include "trainer/fit/fit_run.h"

#include <cmath>
#include <utility>

namespace tandem {

void Fit::end_epoch(double rate, bool whole) {
  check_weights(rate);
  check_same();
  const auto samples = static_cast<double>(at_.samples);
  EpochReport report{.epoch = at_.epoch + 1,
                     .epochs = o_.epochs,
                     .step = at_.step,
                     .loss = at_.loss.mean(),
                     .accuracy = at_.accuracy.weight > 0 ? at_.accuracy.mean() : not_measured,
                     .learning_rate = rate,
                     .seconds = at_.seconds,
                     .samples_per_second = samples / at_.seconds};
  const auto metrics = std::exchange(at_.metrics, {});
  for (const auto& [name, sum] : metrics) report.metrics[name] = sum.mean();
  for (const Part& part : parts_)
    if (const auto it = metrics.find(part.metric); it != metrics.end()) report.loss += part.share * it->second.mean();
  at_.history.push_back(report);
  if (whole) {
    ++at_.epoch;
    at_.batch = 0;
  }
  at_.loss = at_.accuracy = {};
  at_.seconds = 0;
  at_.samples = 0;
  write_metrics();
  keep();  // before it is measured: that takes its time, and may be broken off
  finish_epoch();
}

std::vector<Fit::Part> Fit::parts_of_loss() const {
  std::vector<Part> parts;
  const double learnt = s_.options.plan.loss.distillation ? s_.options.plan.loss.distillation->weight : 0;
  for (std::size_t i = 0; i < s_.losses.size() && s_.losses.size() > 1; ++i)
    parts.push_back({s_.losses[i].output + "_loss", (1 - learnt) * s_.losses[i].share, i});
  if (s_.options.plan.loss.distillation) parts.push_back({"distillation_loss", learnt, s_.losses.size()});
  return parts;
}

void Fit::keep() {
  records_.flush();  // what a resumed run does not write again
  checkpoints_.on_ranks([&] { checkpoints_.keep(at_); });
  kept_at_ = Clock::now();
  time_told_ = false;
}

void Fit::write_metrics() {
  records_.flush();
  folder_.write_metrics(at_.history, {at_.trace, at_.rates, static_cast<double>(order_.batches())});
}

void Fit::finish_epoch() {
  EpochReport& report = at_.history.back();
  if (o_.validation && !stopped_) {
    if (o_.callbacks.on_begin) o_.callbacks.on_begin();
    const bool averages = o_.averaging.any() && model_.swap_averages();
    const Evaluation e = model_.evaluate(*o_.validation, {.batch = o_.eval_batch,
                                                          .preprocess = o_.preprocess,
                                                          .metrics = o_.metrics,
                                                          .on_batch = o_.callbacks.on_validation,
                                                          .stop = o_.callbacks.stop});
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
  if (!stopped_) s_.session->together([&] { records_.epoch(report, *s_.session); });
  if (o_.callbacks.on_epoch) o_.callbacks.on_epoch(report);
}

// `best` is what the best checkpoint has.
void Fit::judge() {
  const EpochReport& report = at_.history.back();
  const double score = best_.score(report);
  if (std::isnan(score) && !best_.name().empty() && best_.name_in(report).empty()) {
    std::string measured;
    for (const auto& [name, value] : report.metrics) measured += concat(", ", name);
    fail(ExitCode::usage, option("best"), " ", best_.name(), ": no epoch has it; measured are loss, accuracy", measured);
  }
  checkpoints_.on_ranks([&] {
    if (!(score <= at_.best) && checkpoints_.keep_best(at_)) at_.best = score;
  });
  if (std::exchange(at_.measured, at_.step) != at_.step) {
    const double loss = std::isfinite(report.val_loss) ? report.val_loss : report.loss;
    follow_measure(o_.schedule, steps_.base_rate(), best_.name().empty() ? loss : -score, at_.plateau);
    if (o_.early_stopping.patience > 0) at_.early.add(-score, o_.early_stopping.min_delta, false, 0);
  }
  stopped_early_ = o_.early_stopping.patience > 0 && at_.early.bad >= o_.early_stopping.patience;
}

}  // namespace tandem
