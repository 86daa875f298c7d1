// Weights of a checkpoint, for a model that was trained.
#include <utility>

#include "trainer/compiled_model.h"
#include "trainer/model.h"
#include "trainer/records/rank_parts.h"
#include "trainer/share.h"

namespace tandem {

void Model::take_checkpoint(const std::filesystem::path& file) {
  Session& session = compiled_->running();
  World* world = compiled_->options.world;
  std::filesystem::path folder;
  if (std::string why; world && session.lacks_parameters()) folder = shared_folder(*world, file.parent_path(), why);
  Checkpoint checkpoint;
  const auto read = [&] {
    if (compiled_->first()) checkpoint = read_checkpoint(file);
    return std::string();
  };
  if (!folder.empty())
    checkpoint = RankParts(session, *std::exchange(world, nullptr), folder).read(file.filename());
  else if (world)
    gather_results(*world, read);
  else
    read();
  std::erase_if(checkpoint.optimizer, [](const NamedTensor& t) { return !t.name.starts_with("average/"); });
  compiled_->initial = false;
  set_shared(session, world, std::move(checkpoint.weights));
  set_shared(session, world, std::move(checkpoint.optimizer), ValueRole::optimizer_state);
}

}  // namespace tandem
