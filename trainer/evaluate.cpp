#include <algorithm>
#include <chrono>
#include <cstring>

#include "trainer/model_state.h"

namespace tandem {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t batch_size(const EvaluateOptions& o, const Plan& plan, const Dataset& data) {
  if (data.size() == 0) fail(ExitCode::data, data.name(), " has no samples");
  return std::min(o.batch > 0 ? o.batch : plan.batch, data.size());
}

// Runs `each(batch, plan)` for all of the data. Samples do not see each other in an inference plan, so the last batch is
// filled up; a model that computes its own loss averages over the batch, so its last batch gets a plan of its size.
// Returns whether all of it was run.
template <class Each>
bool for_each_batch(Model::State& s, Feed& feed, const EvaluateOptions& o, std::int64_t batch, Each&& each) {
  const bool pad = s.options.plan.loss != "output";
  Loader loader(feed, {.order = {.samples = feed.data().size(), .batch = batch}, .pad = pad, .rows = s.rows_here()});
  std::int64_t done = 0;
  bool announced = false;
  struct Stop {  // within a batch too, where one takes long
    Session& session;
    Stop(Session& s, const std::function<bool()>& stop) : session(s) { session.set_stop(stop); }
    ~Stop() { session.set_stop({}); }
  } const stop(*s.session, o.stop);
  while (const LoadedBatch* loaded = loader.next()) {
    const std::size_t plan = s.plan_for(PlanMode::inference, pad ? batch : loaded->size);
    const LoadedBatch* const next = loader.peek();
    const bool same_plan = next && (pad || next->size == loaded->size);
    s.run(plan, loaded->inputs, 0, {announced, plan, same_plan ? std::span<std::byte* const>(next->inputs) : std::span<std::byte* const>()}, done);
    announced = same_plan;
    if (o.stop && s.any(o.stop())) return false;
    each(*loaded, plan);
    done += loaded->size;
    if (o.on_batch) o.on_batch(done, feed.data().size());
  }
  return true;
}

}  // namespace

Evaluation Model::evaluate(const Dataset& data, const EvaluateOptions& o) {
  State& s = *state_;
  const std::int64_t batch = batch_size(o, s.running().plan(0), data);
  if (s.labels.value.empty()) s.labels_for(s.options);  // says why there is no loss
  Feed feed(data, s.targets, o.preprocess, s.options.seed);
  const bool own_loss = s.options.plan.loss == "output";
  const std::size_t label = s.targets.size() - 1;
  if (!own_loss && (s.targets.empty() || !s.targets[label].label))
    fail(ExitCode::usage, "model '", s.file.name(), "' takes its labels as an input, so its loss is one of its outputs: expected the loss 'output'");
  feed.check_values(s.options.plan.loss);
  Measure sum;
  const auto start = std::chrono::steady_clock::now();
  const bool whole = for_each_batch(s, feed, o, batch, [&](const LoadedBatch& loaded, std::size_t plan) {
    const auto& outputs = s.session->plan(plan).outputs;
    const auto on = std::find_if(outputs.begin(), outputs.end(), [&](const HostOutput& h) { return h.name == s.labels.value; });
    if (on == outputs.end()) fail("plan of '", s.file.name(), "' has no output '", s.labels.value, "' to measure");
    const TensorType& output = on->type;
    const std::byte* values = s.runners[plan].storage[static_cast<std::size_t>(on - outputs.begin())].data();
    if (!own_loss) return measure(sum, s.labels, output.dtype, values, loaded.inputs[label], loaded.size);
    double mean = 0;
    visit_float(output.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < output.shape.elements(); ++i) mean += static_cast<double>(reinterpret_cast<const T*>(values)[i]);
    });
    sum.loss += mean / static_cast<double>(output.shape.elements()) * static_cast<double>(loaded.size);
    sum.samples += loaded.size;
  });
  if (!whole) return {.stopped = true};
  return {.loss = sum.mean_loss(),
          .accuracy = sum.accuracy(),
          .samples = sum.samples,
          .samples_per_second = static_cast<double>(sum.samples) / seconds_since(start)};
}

std::vector<NamedTensor> Model::predict(const Dataset& data, const EvaluateOptions& o) {
  State& s = *state_;
  const std::int64_t batch = batch_size(o, s.running().plan(0), data);
  std::vector<FeedTarget> targets = s.targets;
  if (!targets.empty() && targets.back().label) targets.pop_back();
  Feed feed(data, targets, o.preprocess, s.options.seed);
  for (std::size_t t = 0; t < targets.size(); ++t) feed.check_values(t);
  std::vector<NamedTensor> results;
  std::vector<std::size_t> written;  // of the plan's outputs, those of the model that are rows of samples
  std::int64_t done = 0;
  const bool whole = for_each_batch(s, feed, o, batch, [&](const LoadedBatch& loaded, std::size_t plan) {
    const Plan& p = s.session->plan(plan);
    if (results.empty()) {
      std::string left_out;
      const std::vector<std::string> own = s.file.outputs();
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
      std::memcpy(results[i].tensor.write().data() + static_cast<std::size_t>(done) * sample, from.data(), static_cast<std::size_t>(loaded.size) * sample);
    }
    done += loaded.size;
  });
  return whole ? results : std::vector<NamedTensor>{};
}

}  // namespace tandem
