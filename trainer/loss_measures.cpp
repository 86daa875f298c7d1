#include "trainer/loss_measures.h"

#include <algorithm>
#include <cmath>

#include "trainer/file_measure.h"

namespace tandem {
namespace {

// An output as a batch left it; without bytes where the plan has none such.
struct Given {
  TensorType type{DType::float32, {}};
  const std::byte* bytes = nullptr;
};
Given given(const Plan& plan, const Runner& runner, ValueRole role, std::string_view name) {
  const auto on =
      std::find_if(plan.outputs.begin(), plan.outputs.end(), [&](const HostOutput& h) { return h.role == role && h.name == name; });
  if (on == plan.outputs.end()) return {};
  return {on->type, runner.storage[static_cast<std::size_t>(on - plan.outputs.begin())].data()};
}

// The first so many numbers of a measure; none where the plan does not give it.
std::vector<double> numbers_of(const Plan& plan, const Runner& runner, const std::string& measure, std::int64_t samples) {
  const Given output = given(plan, runner, ValueRole::measure, measure);
  std::vector<double> numbers;
  if (!output.bytes) return numbers;
  visit_float(output.type.dtype, [&]<class T>() {
    const auto* const values = reinterpret_cast<const T*>(output.bytes);
    std::transform(values, values + samples, std::back_inserter(numbers), [](T v) { return static_cast<double>(v); });
  });
  return numbers;
}

// The mean of what the model gives as its loss.
double own_loss(const Plan& plan, const Runner& runner, const Labels& l) {
  const Given loss = given(plan, runner, ValueRole::plain, l.value);
  if (!loss.bytes) fail("plan of '", plan.model, "' has no output '", l.value, "' to measure");
  const std::int64_t elements = loss.type.shape.elements();
  double sum = 0;
  visit_float(loss.type.dtype, [&]<class T>() {
    for (std::int64_t k = 0; k < elements; ++k) sum += static_cast<double>(reinterpret_cast<const T*>(loss.bytes)[k]);
  });
  return sum / static_cast<double>(elements);
}

}  // namespace

LossMeasures::LossMeasures(const CompiledModel& state, const std::vector<std::string>& metrics)
    : losses_(state.losses), sums_(losses_.size()) {
  const auto [rows, files] = rows_and_files(metrics);
  for (const Labels& l : losses_) scores_.emplace_back(l, rows, losses_.size() > 1);
  files_.resize(losses_.size());
  if (files.empty() && std::none_of(losses_.begin(), losses_.end(), [](const Labels& l) { return l.of_file(); })) return;
  const Graph graph = state.source.graphs(state.options)(std::max<std::int64_t>(1, state.options.micro_batch()));
  const std::vector<std::optional<GraphFile>> of_losses = state.source.loss_files(state.options, graph);
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (of_losses[i]) files_[i] = std::make_unique<FileMeasure>(state, *of_losses[i], losses_[i].sample);
  for (const std::string& file : files) {
    const std::string on = graph[model_value(graph, state.options.plan)].name;
    metrics_.push_back(std::make_unique<FileMeasure>(state, GraphFile(file, state.source.other_file(file), graph, on), losses_[0].sample));
  }
}

LossMeasures::~LossMeasures() = default;

bool LossMeasures::reads_inputs() const {
  const auto reads = [](const std::unique_ptr<FileMeasure>& file) { return file && file->reads_inputs(); };
  return std::any_of(files_.begin(), files_.end(), reads) || std::any_of(metrics_.begin(), metrics_.end(), reads);
}

void LossMeasures::add(const Plan& plan, const Runner& runner, const BatchLabels& batch) {
  samples_ += batch.size;
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Labels& l = losses_[i];
    if (files_[i]) {
      files_[i]->add(plan, runner, batch, batch.labels[i]);
      continue;
    }
    if (l.own()) {
      sums_[i].loss += own_loss(plan, runner, l) * static_cast<double>(batch.size);
      sums_[i].weight += static_cast<double>(batch.size);
      continue;
    }
    const Given value = given(plan, runner, ValueRole::plain, l.value);
    Measured measured{
        .dtype = value.type.dtype, .values = value.bytes, .given = batch.labels[i], .samples = batch.size, .weights = batch.weights};
    measured.likelihoods = numbers_of(plan, runner, measure_of(likelihood_measure, l), batch.size);
    measured.classes = reinterpret_cast<const std::int64_t*>(given(plan, runner, ValueRole::measure, measure_of(top_measure, l)).bytes);
    measured.top = scores_[i].wanted().top;
    const std::vector<double> losses = numbers_of(plan, runner, measure_of(loss_measure, l), batch.size);
    for (std::size_t n = 0; n < losses.size(); ++n)
      sums_[i].loss += (batch.weights ? static_cast<double>(batch.weights[n]) : 1.0) * losses[n];
    if (!names_classes(l, measured)) sums_[i].loss = not_measured;
    sums_[i].weight += loss_weight(l, batch.labels[i], batch.weights, batch.size);
    scores_[i].add(measured);
  }
  for (const auto& metric : metrics_) metric->add(plan, runner, batch, batch.labels[0]);
}

Evaluation LossMeasures::result() const {
  Evaluation e{.loss = 0, .samples = samples_};
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Labels& l = losses_[i];
    const std::string prefix = losses_.size() == 1 ? "" : l.output + "_";
    const double loss = files_[i] ? files_[i]->mean() : sums_[i].mean();
    e.loss += l.share * loss;
    const double accuracy = scores_[i].accuracy();
    if (std::isnan(e.accuracy)) e.accuracy = accuracy;
    if (!prefix.empty()) e.metrics[prefix + "loss"] = loss;
    if (!prefix.empty() && !std::isnan(accuracy)) e.metrics[prefix + "accuracy"] = accuracy;
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

}  // namespace tandem
