// How the loss goes while the learning rate grows. Source: Smith, "Cyclical learning rates for training neural networks", 2017.
#include <algorithm>
#include <cmath>

#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// Where the smoothed loss falls fastest by the rate's logarithm, before it is least.
double steepest(const RateTest& t) {
  const auto least = std::min_element(t.smoothed.begin(), t.smoothed.end()) - t.smoothed.begin();
  double found = not_measured, slope = 0;
  for (std::ptrdiff_t i = 1; i < least; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double here = (t.smoothed[at + 1] - t.smoothed[at - 1]) / std::log(t.rates[at + 1] / t.rates[at - 1]);
    if (here >= slope) continue;
    slope = here;
    found = t.rates[at];
  }
  return found;
}

}  // namespace

RateTest Model::test_rates(const Dataset& data, const FitOptions& options, const RateTestOptions& test) {
  CompiledModel& s = *compiled_;
  if (s.running().plan(0).mode != PlanMode::training)
    fail(ExitCode::usage, "model '", s.source.file().name(), "' is compiled for inference, not for training");
  if (!(test.least > 0 && test.least < test.most && std::isfinite(test.most)) || test.steps < 3)
    fail(ExitCode::usage, "a test of learning rates from ", test.least, " to ", test.most, " in ", test.steps,
         " steps: expected 0 < least < most, and 3 steps or more");
  if (data.size() == 0) fail(ExitCode::data, data.name(), " has no samples");
  const std::vector<NamedTensor> weights = s.session->parameters(), states = s.session->optimizer_state();
  const std::int64_t step = s.step;
  const auto restore = [&] {
    s.session->set_parameters(weights);
    s.session->set_parameters(states, ValueRole::optimizer_state);
    s.step = step;
  };
  RateTest result;
  Feed feed(data, s.targets, options.preprocess, s.options.seed);
  const bool bytes = feed.give_bytes(s.options.plan.given_bytes);
  const Buckets buckets = s.buckets_for(feed);
  const BatchOrder order{.samples = data.size(),
                         .batch = s.running().plan(0).batch,
                         .shuffle = options.shuffle && !data.iterable(),
                         .seed = s.options.seed,
                         .buckets = buckets.by_sample()};
  Loader loader(feed, {.order = order,
                       .augment = true,
                       .most = s.micro_batch(),
                       .epoch = 0,
                       .batch = 0,
                       .epochs = 0,
                       .buckets = &buckets,
                       .rows = s.rows_here()});
  double carried = 0, least = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < test.steps; ++i) {
    const double rate = test.least * std::pow(test.most / test.least, static_cast<double>(i) / static_cast<double>(test.steps - 1));
    const LoadedBatch* const batch = loader.next();
    const std::size_t plan = s.plan_for({.batch = batch->size, .bytes = bytes, .bucket = batch->bucket});
    s.step = step + i + 1;
    s.run(plan, batch->inputs, rate);
    const double loss = s.report(plan, rate).loss;
    carried = test.smoothing * carried + (1 - test.smoothing) * loss;
    const double smoothed = carried / (1 - std::pow(test.smoothing, static_cast<double>(i + 1)));
    if (!std::isfinite(smoothed)) break;
    result.rates.push_back(rate);
    result.losses.push_back(loss);
    result.smoothed.push_back(smoothed);
    least = std::min(least, smoothed);
    if (smoothed > test.ends_at * least + 1e-12 || s.any(options.callbacks.stop && options.callbacks.stop())) break;
  }
  restore();
  if (result.smoothed.size() > 2) result.suggestion = steepest(result);
  return result;
}

}  // namespace tandem
