// The trained model as a file.
#include "base/memory.h"
#include "trainer/model.h"
#include "trainer/model_state.h"

namespace tandem {

void Model::save(const std::filesystem::path& path, bool metadata, SaveOptions options) const {
  release_free_memory();  // of evaluations and checkpoints, before the weights are copied
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  std::map<std::string, std::string> entries = state_->file.metadata();
  const bool trained = state_->options.plan.mode == PlanMode::training;
  if (trained || !metadata) std::erase_if(entries, [](const auto& entry) { return entry.first.starts_with(metadata_prefix); });
  if (trained && metadata)
    for (const auto& [key, value] : state_->preparation) entries[concat(metadata_prefix, key)] = value;
  options.metadata = std::move(entries);
  if (trained && state_->options.own_step) {
    options.training_steps = state_->step;
    state_->session->each_optimizer_state([&](const NamedTensor& t) { options.training_states[t.name] = t.tensor; });
  }
  state_->file.write(path, std::move(weights), options);
}

void Model::save_adapter(const std::filesystem::path& path) const {
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  state_->file.write_adapter(path, weights);
}

}  // namespace tandem
