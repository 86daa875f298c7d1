// The trained model as a file.
#include "base/memory.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

void Model::save(const std::filesystem::path& path, bool metadata, SaveOptions options) const {
  release_free_memory();  // of evaluations and checkpoints
  const Session& session = compiled_->running();
  ModelFile::WeightSource weights{{}, [&](const std::string& name) { return session.streamed(name); }};
  for (const PlanParameter& p : session.plan(0).parameters)
    if (p.role == ValueRole::plain) weights.weights.emplace_back(p.name, p.type);
  std::map<std::string, std::string> entries = compiled_->source.file().metadata();
  const bool trained = compiled_->options.plan.mode == PlanMode::training;
  if (trained || !metadata) std::erase_if(entries, [](const auto& entry) { return entry.first.starts_with(metadata_prefix); });
  if (trained && metadata)
    for (const auto& [key, value] : compiled_->last.preparation) entries[concat(metadata_prefix, key)] = value;
  options.metadata = std::move(entries);
  if (trained && compiled_->options.own_step) {
    options.training_steps = compiled_->step;
    session.each_optimizer_state([&](const NamedTensor& t) { options.training_states[t.name] = t.tensor; });
  }
  compiled_->source.file().write_from(weights, path, options);
}

void Model::save_adapter(const std::filesystem::path& path) const {
  std::vector<ModelFile::Weight> weights;
  for (const LoraAdapter& adapter : file().adapters())
    for (const std::string& name : {adapter.a, adapter.b}) weights.push_back({name, compiled_->running().parameter(name)});
  compiled_->source.file().write_adapter(path, weights);
}

}  // namespace tandem
