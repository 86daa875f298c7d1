#include "trainer/share.h"

#include "base/spec.h"
#include "data/npy.h"

namespace tandem {

std::vector<NamedTensor> share(World* world, std::vector<NamedTensor> values) {
  if (!world) return values;
  if (world->rank() != 0) values.clear();
  values.resize(static_cast<std::size_t>(parse_integer(world->broadcast(std::to_string(values.size())), "the number of tensors")));
  for (NamedTensor& v : values) {
    v.name = world->broadcast(v.name);  // may be of any bytes
    const std::string npy = world->broadcast(world->rank() == 0 ? npy_of(v.tensor) : "");
    if (world->rank() != 0) v.tensor = parse_npy(std::as_bytes(std::span(npy)), v.name);
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
