#include "trainer/model.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "trainer/compiled_model.h"
#include "trainer/loss_measures.h"
#include "trainer/share.h"

namespace tandem {

Model Model::load(const std::filesystem::path& path, const WeightOptions& weights) {
  ModelFile file = ModelFile::read(path, weights);
  std::vector<std::string> names;
  for (const TemplateTensor& t : file.tensors()) names.push_back(t.name);
  for (const auto& [field, patterns] : {std::pair{"trainable", &weights.trainable}, {"constant", &weights.constant}})
    for (const std::string& pattern : *patterns)
      if (std::none_of(names.begin(), names.end(), [&, &p = pattern](const std::string& name) { return matches_any(name, {p}); })) {
        const std::string near = nearest(pattern, names);
        fail(ExitCode::usage, option(field), " '", pattern, "': model '", file.name(), "' holds no float tensor of that name",
             near.empty() ? concat(": ", function("ModelFile::tensors()"), " lists them") : concat(", did you mean '", near, "'?"));
      }
  return Model(std::move(file));
}
Model::Model(ModelFile file)
    : source_(std::make_unique<ModelTemplate>(std::move(file))), compiled_(std::make_unique<CompiledModel>(*source_)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

void Model::check_plans(const Plan& first, const ModelOptions& o, Backends backends, const Dataset& data, const Dataset* test,
                        const FitOptions& fit) const {
  const Losses losses = source_->losses_if_any(o);
  const Graph graph = source_->graphs(o)(o.micro_batch());
  const auto gives_bytes = [&](const Dataset& from) {
    return Feed(from, targets_of(graph, unweighted(losses, from), o.plan), fit.preprocess, o.seed).give_bytes(o.plan.given_bytes);
  };
  std::vector<PlanKey> keys = keys_of_training(data.size(), o.plan.batch, gives_bytes(data), bucket_count(o));
  for (const Dataset* measured : {fit.validation, test}) {
    if (!measured || measured->size() == 0) continue;
    const std::int64_t batch = fit.eval_batch > 0 ? fit.eval_batch : o.micro_batch();
    const std::vector<PlanKey> more =
        keys_of_measuring(measured->size(), batch, gives_bytes(*measured), losses, evaluation_of(losses, fit.metrics));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  std::set<PlanKey> made{{.mode = o.plan.mode, .batch = o.plan.batch, .bytes = !o.plan.given_bytes.empty()}};
  for (const PlanKey& key : keys)
    if (made.insert(key).second) tandem::compile(source_->graphs(o, key, losses), source_->plan_options(o, key), backends, &first);
}

DataRequest Model::data_request() const {
  compiled_->running();  // fails where nothing was compiled
  return data_request(compiled_->options);
}

DataRequest Model::data_request(const ModelOptions& o) const {
  DataRequest request = source_->data_request(o);
  request.class_names = class_names(compiled_->last.preparation, file());
  request.means = column_means(compiled_->last.preparation, file());
  return request;
}

void Model::compile(const ModelOptions& options, Backends backends) { compiled_->compile(options, backends); }

const Plan& Model::plan() const {
  return compiled_->running().plan(0);
}
const std::vector<std::string>& Model::notes() const {
  return compiled_->notes;
}

std::int64_t Model::predicted_peak_bytes() const { return compiled_->predicted_peak_bytes(); }
std::int64_t Model::allocated_bytes() const { return compiled_->allocated_bytes(); }
void Model::together(const std::function<void()>& work) const { compiled_->running().together(work); }
void Model::gather_parameters() { compiled_->running().gather_parameters(); }
std::vector<NamedTensor> Model::parameters() const {
  return compiled_->running().parameters();
}
Tensor Model::parameter(const std::string& name) const { return compiled_->running().parameter(name); }
void Model::set_parameters(std::span<const NamedTensor> values) {
  Session& session = compiled_->running();
  compiled_->initial = false;
  set_shared(session, compiled_->options.world, {values.begin(), values.end()});
}
void Model::set_optimizer_state(std::span<const NamedTensor> values) {
  set_shared(compiled_->running(), compiled_->options.world, {values.begin(), values.end()}, ValueRole::optimizer_state);
}

}  // namespace tandem
