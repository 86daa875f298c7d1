#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/option.h"
#include "trainer/compiled_model.h"
#include "trainer/feed/decodable.h"
#include "trainer/loss_measures.h"
#include "trainer/model.h"

namespace tandem {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t batch_size(const EvaluateOptions& o, const Plan& plan, const Dataset& data) {
  if (data.size() == 0) fail(ExitCode::data, data.name(), " has no samples");
  return std::min(o.batch > 0 ? o.batch : plan.batch / plan.micro_batches, data.size());
}

// Runs `each(batch, plan)` for all of the data. Samples do not see each other in an inference plan, so the last batch is
// filled up; a model that computes its own loss averages over the batch, and one may normalize by it, so its last batch gets a plan of its
// size.
// Returns whether all of it was run. `evaluation`: what is measured; of no losses: the model predicts. `looks`: at inputs, too, as the
// model's numbers, also of other ranks' samples.
template <class Each>
bool for_each_batch(CompiledModel& s, Feed& feed, const EvaluateOptions& o, const EvaluationOutputs& evaluation, std::int64_t batch,
                    bool looks, Each&& each) {
  std::vector<std::string> outputs = o.outputs;
  if (outputs == s.options.outputs) outputs.clear();  // those of all its plans
  const bool pad = !own_loss(s.losses) && !s.by_batch, bytes = !looks && feed.give_bytes(s.options.plan.given_bytes);
  std::function<std::byte*(std::size_t, std::int64_t)> memory;  // the loader's own, where devices copy from any as fast
  // even ones are a training's, which goes on
  if (s.session->will_run_ahead())
    memory = [&](std::size_t number, std::int64_t bytes_of) { return s.session->host_memory(2 * number + 1, bytes_of); };
  Loader loader(feed, {.order = {.samples = feed.data().size(), .batch = batch},
                       .pad = pad,
                       .rows = looks ? LoaderOptions::RowsOf() : s.rows_here(),
                       .memory = memory});
  std::int64_t done = 0;
  bool announced = false;
  struct Stop {  // within a batch too, where one takes long
    Session& session;
    Stop(Session& s, const std::function<bool()>& stop) : session(s) { session.set_stop(stop); }
    ~Stop() { session.set_stop({}); }
  } const stop(*s.session, o.stop);
  while (const LoadedBatch* loaded = loader.next()) {
    const std::size_t plan = s.plan_for(
        {.mode = PlanMode::inference, .batch = pad ? batch : loaded->size, .bytes = bytes, .outputs = outputs, .evaluation = evaluation});
    const LoadedBatch* const next = loader.peek();
    const bool same_plan = next && (pad || next->size == loaded->size);
    s.run(plan, loaded->inputs, 0, {announced, plan, same_plan ? std::span<std::byte* const>(next->inputs) : std::span<std::byte* const>()},
          done);
    announced = same_plan;
    if (o.stop && s.any(o.stop())) return false;
    each(*loaded, plan);
    done += loaded->size;
    if (o.on_batch) o.on_batch(done, feed.data().size());
  }
  return true;
}

// Rows as those of these samples, of so many in all; the others hold NaN, or -1 where they are whole numbers.
Tensor spread_rows(const Tensor& rows, std::span<const std::int64_t> samples, std::int64_t all) {
  TensorType type = rows.type();
  const std::int64_t each = samples.empty() ? 0 : rows.shape().elements() / std::ssize(samples);
  type.shape[0] = rows.shape()[0] / std::ssize(samples) * all;
  Tensor spread(type);
  visit_number(type.dtype, [&]<class T>() {
    const auto to = spread.write<T>();
    std::fill(to.begin(), to.end(), std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(-1));
    const auto from = rows.values<T>();
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i) * each, each, to.begin() + samples[i] * each);
  });
  return spread;
}

}  // namespace

Evaluation Model::evaluate(const Dataset& data, const EvaluateOptions& o) {
  CompiledModel& s = *compiled_;
  if (o.preprocess.bad_samples > 0) {  // in place of a broken one another would count twice
    EvaluateOptions strict = o;
    strict.preprocess.bad_samples = 0;
    return evaluate(Subset(data, decodable_samples(data, o.preprocess), data.name()), strict);
  }
  const std::int64_t batch = batch_size(o, s.running().plan(0), data);
  if (s.losses.empty()) s.source.losses_for(s.options);  // says why there is no loss
  if (!o.outputs.empty()) fail(ExitCode::usage, option("outputs"), " is for predictions: what is measured is the loss's value");
  // The weights are those of this data, whatever that was trained on had.
  std::vector<FeedTarget> targets = s.targets;
  std::erase_if(targets, [](const FeedTarget& t) { return t.weight; });
  const auto fields = data.fields();
  if (s.options.plan.loss.sample_weights.value_or(true) &&
      std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; }))
    targets.push_back(weights_target());
  Feed feed(data, targets, o.preprocess, s.options.seed);
  feed.check_values(s.options.plan.loss.name);
  LossMeasures measures(s, o.metrics);
  const EvaluationOutputs evaluation = evaluation_of(s.losses, o.metrics);
  const auto start = std::chrono::steady_clock::now();
  const bool whole =
      for_each_batch(s, feed, o, evaluation, batch, measures.reads_inputs(), [&](const LoadedBatch& loaded, std::size_t plan) {
        measures.add(s.session->plan(plan), s.runners[plan], labels_in(s.losses, targets, loaded.inputs, loaded.size));
      });
  if (!whole) return {.stopped = true};
  Evaluation e = measures.result();
  e.samples_per_second = static_cast<double>(e.samples) / seconds_since(start);
  return e;
}

std::vector<NamedTensor> Model::predict(const Dataset& data, const EvaluateOptions& o) {
  CompiledModel& s = *compiled_;
  if (o.preprocess.bad_samples > 0) {
    EvaluateOptions strict = o;
    strict.preprocess.bad_samples = 0;
    const std::vector<std::int64_t> good = decodable_samples(data, o.preprocess);
    std::vector<NamedTensor> results = predict(Subset(data, good, data.name()), strict);
    for (NamedTensor& r : results) r.tensor = spread_rows(r.tensor, good, data.size());
    return results;
  }
  const std::int64_t batch = batch_size(o, s.running().plan(0), data);
  const std::vector<FeedTarget> targets(s.inputs().begin(), s.inputs().end());
  Feed feed(data, targets, o.preprocess, s.options.seed);
  for (std::size_t t = 0; t < targets.size(); ++t) feed.check_values(t);
  std::vector<NamedTensor> results;
  std::vector<std::size_t> written;  // of the plan's outputs, those of the model that are rows of samples
  std::int64_t done = 0;
  const bool whole = for_each_batch(s, feed, o, {}, batch, false, [&](const LoadedBatch& loaded, std::size_t plan) {
    const Plan& p = s.session->plan(plan);
    if (results.empty()) {
      std::string left_out;
      const std::vector<std::string> asked = o.outputs.empty() ? s.options.outputs : o.outputs;
      const std::vector<std::string> own = asked.empty() ? s.source.file().outputs() : asked;
      for (const std::string& name : asked.empty() ? own : std::vector<std::string>{})
        if (std::ranges::none_of(p.outputs, [&](const HostOutput& out) { return out.name == name; }))
          s.notes.push_back(concat("output '", name, "' is left out: it takes inputs that the model is not compiled with"));
      for (std::size_t i = 0; i < p.outputs.size(); ++i) {
        TensorType type = p.outputs[i].type;
        if (std::find(own.begin(), own.end(), p.outputs[i].name) == own.end()) continue;
        if (p.outputs[i].combine != Combine::rows) {
          left_out = concat("output '", p.outputs[i].name, "' ", type, " does not hold its samples along axis 0");
          s.notes.push_back(left_out + " and is left out");
          continue;
        }
        type.shape[0] = type.shape[0] / p.batch * data.size();
        results.push_back({p.outputs[i].name, Tensor(type)});
        written.push_back(i);
      }
      if (results.empty()) fail(left_out);
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
      const std::vector<std::byte>& from = s.runners[plan].storage[written[i]];
      const std::size_t sample = from.size() / static_cast<std::size_t>(p.batch);
      std::copy_n(from.begin(), static_cast<std::size_t>(loaded.size) * sample,
                  results[i].tensor.write().subspan(static_cast<std::size_t>(done) * sample).begin());
    }
    done += loaded.size;
  });
  return whole ? results : std::vector<NamedTensor>{};
}

}  // namespace tandem
