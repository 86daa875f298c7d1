// What the flags of `tandem train` come to: a run that is prepared, and what config.json says of it.
#pragma once
#include <vector>

#include "cli/command.h"
#include "ranks/world.h"
#include "trainer/prepare.h"

namespace tandem {

// Opens no device. Fails as prepare() does.
Prepared prepare_training(const Invocation& call, const Model& model, const BackendSet& backends, World* world);

// An option as it was settled after all, in what config.json will say.
void set_in_config(FitOptions& fit, const FlagRow& option, Json value);

// What every rank must have found alike.
std::vector<World::Fact> facts_of(const Invocation& call, const Model& model, const RunData& data, World* world);

}  // namespace tandem
