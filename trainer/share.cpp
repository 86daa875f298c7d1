#include "trainer/share.h"

#include "trainer/data/npy.h"

namespace tandem {

std::vector<NamedTensor> share(World* world, std::vector<NamedTensor> values) {
  if (!world) return values;
  if (world->rank() != 0) values.clear();
  Json::Array names;
  for (const NamedTensor& v : values) names.emplace_back(v.name);
  const Json all = Json::parse(world->broadcast(Json(std::move(names)).dump()));
  values.resize(all.array().size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string npy = world->broadcast(world->rank() == 0 ? npy_of(values[i].tensor) : "");
    if (world->rank() != 0) values[i] = {all.array()[i].text(), parse_npy(std::as_bytes(std::span(npy)), all.array()[i].text())};
  }
  return values;
}

Checkpoint share(World* world, Checkpoint checkpoint) {
  if (!world) return checkpoint;
  return {.state = Json::parse(world->broadcast(checkpoint.state.dump())),
          .weights = share(world, std::move(checkpoint.weights)),
          .optimizer = share(world, std::move(checkpoint.optimizer))};
}

}  // namespace tandem
