// What rank 0 has and the others need, and what each says to all.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ranks/world.h"
#include "trainer/checkpoint.h"

namespace tandem {

// Rank 0's; what the others give is not looked at. Without a world: what is given.
std::vector<NamedTensor> share(World* world, std::vector<NamedTensor> values);
// Sets rank 0's in every rank's session, one by one: who receives them holds one at a time.
void set_shared(Session& session, World* world, std::vector<NamedTensor> values, ValueRole role = ValueRole::plain);
// Those of rank 0, by name; the others' have no values.
std::vector<NamedTensor> share_names(World* world, std::vector<NamedTensor> values);

// What each rank says, by rank.
std::vector<std::string> gather_texts(World& world, const std::string& said);
// The same of what `work` returns on each. Where it fails on some, all fail as the first of these, whose rank is named.
std::vector<std::string> gather_results(World& world, const std::function<std::string()>& work);

}  // namespace tandem
