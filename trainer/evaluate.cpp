#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/option.h"
#include "trainer/feed/decodable.h"
#include "trainer/file_measure.h"
#include "trainer/loss_measures.h"
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
// filled up; a model that computes its own loss averages over the batch, and one may normalize by it, so its last batch gets a plan of its size.
// Returns whether all of it was run. `looks`: at inputs, too, as the model's numbers, also of other ranks' samples.
template <class Each>
bool for_each_batch(Model::State& s, Feed& feed, const EvaluateOptions& o, std::int64_t batch, bool looks, Each&& each) {
  std::vector<std::string> outputs = o.outputs;
  if (outputs == s.options.outputs) outputs.clear();  // those of all its plans
  const bool pad = !s.own_loss() && !s.by_batch, bytes = !looks && feed.give_bytes(s.options.plan.given_bytes);
  std::function<std::byte*(std::size_t, std::int64_t)> memory;  // the loader's own, where devices copy from any as fast
  if (s.session->will_run_ahead()) memory = [&](std::size_t number, std::int64_t bytes_of) { return s.session->host_memory(2 * number + 1, bytes_of); };  // even ones are a training's, which goes on
  Loader loader(feed, {.order = {.samples = feed.data().size(), .batch = batch}, .pad = pad, .rows = looks ? LoaderOptions::RowsOf() : s.rows_here(), .memory = memory});
  std::int64_t done = 0;
  bool announced = false;
  struct Stop {  // within a batch too, where one takes long
    Session& session;
    Stop(Session& s, const std::function<bool()>& stop) : session(s) { session.set_stop(stop); }
    ~Stop() { session.set_stop({}); }
  } const stop(*s.session, o.stop);
  while (const LoadedBatch* loaded = loader.next()) {
    const std::size_t plan = s.plan_for({.mode = PlanMode::inference, .batch = pad ? batch : loaded->size, .bytes = bytes, .outputs = outputs});
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
    for (std::size_t i = 0; i < samples.size(); ++i) std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i) * each, each, to.begin() + samples[i] * each);
  });
  return spread;
}

}  // namespace

LossMeasures::LossMeasures(const Model::State& state, const std::vector<std::string>& metrics) : losses_(state.losses), sums_(losses_.size()) {
  std::vector<std::string> rows, files;
  for (const std::string& metric : metrics) (is_graph_file(metric) ? files : rows).push_back(metric);
  for (const Labels& l : losses_) scores_.emplace_back(l, rows, losses_.size() > 1);
  files_.resize(losses_.size());
  if (files.empty() && std::none_of(losses_.begin(), losses_.end(), [](const Labels& l) { return l.of_file(); })) return;
  const Graph graph = state.source(state.options)(std::max<std::int64_t>(1, state.options.plan.batch));
  const std::vector<std::optional<GraphFile>> of_losses = state.loss_files(state.options, graph);
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (of_losses[i]) files_[i] = std::make_unique<FileMeasure>(state, *of_losses[i], losses_[i].sample);
  for (const std::string& file : files) {
    const std::string on = graph[model_value(graph, state.options.plan)].name;
    metrics_.push_back(std::make_unique<FileMeasure>(state, GraphFile(file, state.other_file(file), graph, on), losses_[0].sample));
  }
}

LossMeasures::~LossMeasures() = default;

bool LossMeasures::reads_inputs() const {
  const auto reads = [](const std::unique_ptr<FileMeasure>& file) { return file && file->reads_inputs(); };
  return std::any_of(files_.begin(), files_.end(), reads) || std::any_of(metrics_.begin(), metrics_.end(), reads);
}

void LossMeasures::add(const Plan& plan, const Runner& runner, const BatchLabels& batch) {
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Labels& l = losses_[i];
    if (files_[i]) {
      files_[i]->add(plan, runner, batch, batch.labels[i]);
      sums_[i].samples += batch.size;
      continue;
    }
    const auto on = std::find_if(plan.outputs.begin(), plan.outputs.end(), [&](const HostOutput& h) { return h.name == l.value; });
    if (on == plan.outputs.end()) fail("plan of '", plan.model, "' has no output '", l.value, "' to measure");
    const std::byte* const values = runner.storage[static_cast<std::size_t>(on - plan.outputs.begin())].data();
    const TensorType& type = on->type;
    if (!l.own()) {
      const Measured measured{.dtype = type.dtype, .values = values, .given = batch.labels[i], .samples = batch.size, .weights = batch.weights};
      measure(sums_[i], l, measured);
      scores_[i].add(measured);
      continue;
    }
    double mean = 0;
    visit_float(type.dtype, [&]<class T>() {
      for (std::int64_t k = 0; k < type.shape.elements(); ++k) mean += static_cast<double>(reinterpret_cast<const T*>(values)[k]);
    });
    sums_[i].loss += mean / static_cast<double>(type.shape.elements()) * static_cast<double>(batch.size);
    sums_[i].weight += static_cast<double>(batch.size);
    sums_[i].samples += batch.size;
  }
  for (const auto& metric : metrics_) metric->add(plan, runner, batch, batch.labels[0]);
}

Evaluation LossMeasures::result() const {
  Evaluation e{.loss = 0, .samples = sums_[0].samples};
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Labels& l = losses_[i];
    const std::string prefix = losses_.size() == 1 ? "" : l.output + "_";
    const double loss = files_[i] ? files_[i]->mean() : sums_[i].mean_loss();
    e.loss += l.share * loss;
    if (std::isnan(e.accuracy)) e.accuracy = sums_[i].accuracy();
    if (!prefix.empty()) e.metrics[prefix + "loss"] = loss;
    if (!prefix.empty() && sums_[i].rows > 0) e.metrics[prefix + "accuracy"] = sums_[i].accuracy();
    for (const auto& [name, value] : scores_[i].values()) e.metrics[prefix + name] = value;
    if (scores_[i].table()) e.tables[l.output] = *scores_[i].table();
  }
  for (const auto& metric : metrics_) e.metrics[std::filesystem::path(metric->file().path()).stem().string()] = metric->mean();
  return e;
}

BatchLabels labels_in(const Losses& losses, std::span<const FeedTarget> targets, std::span<std::byte* const> inputs, std::int64_t size) {
  BatchLabels batch{.labels = std::vector<const std::byte*>(losses.size()), .size = size, .targets = targets, .inputs = inputs};
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t].weight) batch.weights = reinterpret_cast<const float*>(inputs[t]);
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (targets[t].label && !targets[t].weight && targets[t].of == losses[i].output) batch.labels[i] = inputs[t];
  }
  return batch;
}

Evaluation Model::evaluate(const Dataset& data, const EvaluateOptions& o) {
  State& s = *state_;
  if (o.preprocess.bad_samples > 0) {  // in place of a broken one another would count twice
    EvaluateOptions strict = o;
    strict.preprocess.bad_samples = 0;
    return evaluate(Subset(data, decodable_samples(data, o.preprocess), data.name()), strict);
  }
  const std::int64_t batch = batch_size(o, s.running().plan(0), data);
  if (s.losses.empty()) s.losses_for(s.options);  // says why there is no loss
  if (!o.outputs.empty()) fail(ExitCode::usage, option("outputs"), " is for predictions: what is measured is the loss's value");
  // The weights are those of this data, whatever that was trained on had.
  std::vector<FeedTarget> targets = s.targets;
  std::erase_if(targets, [](const FeedTarget& t) { return t.weight; });
  const auto fields = data.fields();
  if (s.options.plan.sample_weights.value_or(true) && std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; }))
    targets.push_back(weights_target());
  Feed feed(data, targets, o.preprocess, s.options.seed);
  feed.check_values(s.options.plan.loss);
  LossMeasures measures(s, o.metrics);
  const auto start = std::chrono::steady_clock::now();
  const bool whole = for_each_batch(s, feed, o, batch, measures.reads_inputs(), [&](const LoadedBatch& loaded, std::size_t plan) {
    measures.add(s.session->plan(plan), s.runners[plan], labels_in(s.losses, targets, loaded.inputs, loaded.size));
  });
  if (!whole) return {.stopped = true};
  Evaluation e = measures.result();
  e.samples_per_second = static_cast<double>(e.samples) / seconds_since(start);
  return e;
}

std::vector<NamedTensor> Model::predict(const Dataset& data, const EvaluateOptions& o) {
  State& s = *state_;
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
  const bool whole = for_each_batch(s, feed, o, batch, false, [&](const LoadedBatch& loaded, std::size_t plan) {
    const Plan& p = s.session->plan(plan);
    if (results.empty()) {
      std::string left_out;
      const std::vector<std::string> asked = o.outputs.empty() ? s.options.outputs : o.outputs;
      const std::vector<std::string> own = asked.empty() ? s.file.outputs() : asked;
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
      std::copy_n(from.begin(), static_cast<std::size_t>(loaded.size) * sample, results[i].tensor.write().subspan(static_cast<std::size_t>(done) * sample).begin());
    }
    done += loaded.size;
  });
  return whole ? results : std::vector<NamedTensor>{};
}

}  // namespace tandem
