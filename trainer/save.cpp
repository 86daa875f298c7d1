// The trained model as a file.
#include "base/memory.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

void Model::save(const std::filesystem::path& path, bool metadata, SaveOptions options) const {
  release_free_memory();  // of evaluations and checkpoints, before the weights are copied
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  std::map<std::string, std::string> entries = compiled_->source.file().metadata();
  const bool trained = compiled_->options.plan.mode == PlanMode::training;
  if (trained || !metadata) std::erase_if(entries, [](const auto& entry) { return entry.first.starts_with(metadata_prefix); });
  if (trained && metadata)
    for (const auto& [key, value] : compiled_->last.preparation) entries[concat(metadata_prefix, key)] = value;
  options.metadata = std::move(entries);
  if (trained && compiled_->options.own_step) {
    options.training_steps = compiled_->step;
    compiled_->session->each_optimizer_state([&](const NamedTensor& t) { options.training_states[t.name] = t.tensor; });
  }
  compiled_->source.file().write(path, std::move(weights), options);
}

void Model::save_adapter(const std::filesystem::path& path) const {
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  compiled_->source.file().write_adapter(path, weights);
}

}  // namespace tandem
