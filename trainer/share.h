// What rank 0 has and the others need.
#pragma once
#include "ranks/world.h"
#include "trainer/checkpoint.h"

namespace tandem {

// Rank 0's; what the others give is not looked at. Without a world: what is given.
std::vector<NamedTensor> share(World* world, std::vector<NamedTensor> values);
Checkpoint share(World* world, Checkpoint checkpoint);

}  // namespace tandem
