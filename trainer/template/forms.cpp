#include "trainer/template/forms.h"

#include <algorithm>

#include "base/json.h"
#include "base/pattern.h"
#include "base/printable.h"
#include "trainer/feed/decodable.h"
#include "trainer/feed/index_range.h"
#include "trainer/template/evaluation_outputs.h"

namespace tandem {
namespace {

Shape without_batch(const Shape& s) {
  return s.rank() == 0 ? s : Shape(std::vector<std::int64_t>(s.begin() + 1, s.end()));
}

// What the last training left word of, or the file; null: nothing, or what is none of ours.
Json words_of(const PreparationWords& all, const ModelFile& file, const std::string& key) {
  const auto own = all.find(key);
  const auto given = file.metadata().find(concat(metadata_prefix, key));
  try {
    if (own != all.end()) return Json::parse(own->second);
    if (given != file.metadata().end()) return Json::parse(given->second);
  } catch (const Error&) {
  }
  return {};
}

}  // namespace

PlanKey first_key(const ModelOptions& o, const Losses& losses) {
  PlanKey key{.mode = o.plan.mode, .batch = o.plan.batch, .bytes = !o.plan.given_bytes.empty()};
  if (key.mode == PlanMode::inference && o.measures) key.evaluation = evaluation_of(losses, o.metrics);
  return key;
}

std::vector<PlanKey> keys_of_training(std::int64_t samples, std::int64_t batch, bool bytes, std::size_t buckets) {
  std::vector<PlanKey> keys;
  for (const std::int64_t size : {std::min(batch, samples), samples % batch})
    for (std::size_t bucket = 0; size > 0 && bucket < buckets; ++bucket) keys.push_back({.batch = size, .bytes = bytes, .bucket = bucket});
  return keys;
}

std::vector<PlanKey> keys_of_measuring(std::int64_t samples, std::int64_t batch, bool bytes, const Losses& losses,
                                       const EvaluationOutputs& evaluation) {
  std::vector<PlanKey> keys;
  if (samples == 0) return keys;
  batch = std::min(batch, samples);
  keys.push_back({.mode = PlanMode::inference, .batch = batch, .bytes = bytes, .evaluation = evaluation});
  if (own_loss(losses) && samples % batch > 0)
    keys.push_back({.mode = PlanMode::inference, .batch = samples % batch, .bytes = bytes, .evaluation = evaluation});
  return keys;
}

bool own_loss(const Losses& losses) {
  return std::any_of(losses.begin(), losses.end(), [](const Labels& l) { return l.own(); });
}

std::size_t bucket_count(const ModelOptions& o) { return o.buckets.empty() ? 1 : o.buckets.begin()->second.size(); }

std::map<std::string, std::int64_t> dims_of(const ModelOptions& o, std::size_t bucket) {
  std::map<std::string, std::int64_t> dims = o.dims;
  for (const auto& [name, sizes] : o.buckets) dims[name] = sizes.at(sizes.size() - 1 - bucket);
  return dims;
}

ModelOptions in_bucket(ModelOptions o, std::size_t bucket) {
  o.dims = dims_of(o, bucket);
  o.buckets.clear();
  return o;
}

ImportOptions import_options(const ModelOptions& o, std::int64_t batch, bool training) {
  ImportOptions import{.batch = batch,
                       .dims = dims_of(o),
                       .constants = o.constants,
                       .training = training,
                       .max_loop_iterations = o.max_loop_iterations,
                       .unbiased_variance = o.unbiased_variance,
                       .batch_axes = o.batch_axes,
                       .one_sample = o.micro_batch() == 1};  // a run's last batch of one is no other reading of the file
  import.constants.insert(o.data_constants.begin(), o.data_constants.end());
  return import;
}

// What a model takes of each sample: its inputs, then the labels and weights that its losses take.
std::vector<FeedTarget> targets_of(const Graph& graph, const Losses& losses, const CompileOptions& o) {
  std::vector<FeedTarget> targets;
  for (const ValueId in : graph.inputs) {
    const Value& value = graph[in];
    if (value.role != ValueRole::plain || !value.depends_on_batch) continue;
    targets.push_back({.name = value.name,
                       .sample = {value.type.dtype, without_batch(value.type.shape)},
                       .indices = index_range(graph, in),
                       .nan = is_float(value.type.dtype) && takes_nan(graph, in)});
  }
  bool weighted = false;
  for (const Labels& l : losses) {
    weighted = weighted || l.weighted;
    if (!l.sample) continue;
    FeedTarget target{.name = l.input(),
                      .sample = *l.sample,
                      .label = true,
                      .indices = {.count = l.classes, .ignored = l.ignore},
                      .loss = l.loss,
                      .of = l.output};
    if (o.loss.shift_labels && l.axis >= 0) target.ahead = l.ignore;
    if (const auto in = l.of_file() ? graph.find(ValueRole::label, l.output) : std::nullopt) target.indices = index_range(graph, *in);
    targets.push_back(std::move(target));
  }
  if (weighted) targets.push_back(weights_target());
  return targets;
}

FeedTarget weights_target() {
  return {.name = "sample_weights", .sample = {DType::float32, {}}, .label = true, .weight = true};
}

// Inputs that hold no samples.
std::vector<ValueId> without_samples(const Graph& graph) {
  std::vector<ValueId> list;
  for (const ValueId in : graph.inputs)
    if (const Value& v = graph[in]; v.role == ValueRole::plain && !v.depends_on_batch) list.push_back(in);
  return list;
}

// Data that is only measured need not have the weights that the training's had.
Losses unweighted(Losses losses, const Dataset& data) {
  const auto fields = data.fields();
  if (std::none_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; }))
    for (Labels& l : losses) l.weighted = false;
  return losses;
}

void freeze_base(const ModelFile& file, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze) {
  if (file.adapters().empty()) return;
  for (const LoraAdapter& adapter : file.adapters())
    for (const std::string& name : {adapter.a, adapter.b})
      if (!matches_any(name, freeze)) unfreeze.push_back(name);
  unfreeze.insert(unfreeze.end(), file.head().begin(), file.head().end());
  freeze.push_back("*");
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) s += (i ? ", " : "") + names[i];
  return names.size() > most ? concat(s, ", ... (", names.size(), " in all)") : s;
}

std::vector<std::string> class_names(const PreparationWords& all, const ModelFile& file) {
  std::vector<std::string> names;
  try {
    const Json list = words_of(all, file, "classes");
    for (const Json& name : list.is_null() ? Json::Array{} : list.array()) names.push_back(from_text(name.text()));
  } catch (const Error&) {
    return {};  // others' entry
  }
  return names;
}

std::map<std::string, double> column_means(const PreparationWords& all, const ModelFile& file) {
  std::map<std::string, double> means;
  try {
    const Json object = words_of(all, file, "missing");
    for (const auto& [column, mean] : object.is_null() ? Json::Object{} : object.object()) means[column] = mean.number();
  } catch (const Error&) {
    return {};
  }
  return means;
}

}  // namespace tandem
