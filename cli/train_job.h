// What the flags of `tandem train` come to: options of the API, and the data, found and checked before any device is opened.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cli/command.h"
#include "ranks/world.h"
#include "trainer/model.h"

namespace tandem {

// The parts of the data that a run uses.
struct RunData {
  Splits splits;
  std::unique_ptr<Dataset> kept, held_out;  // of the training part, with --validation-split
  const Dataset* train = nullptr;
  const Dataset* validation = nullptr;  // measured after each epoch: the test part where there is no other
  const Dataset* test = nullptr;
};

struct Job {
  ModelOptions options;
  FitOptions fit;
  RunData data;
};

// The template's own training step, as far as --loss and --optimizer do not overrule it; none: all is the user's to say.
std::optional<TrainingStep> own_step(const Arguments& arguments, const Model& model);

// Fails as the parts of the API do that it asks.
Job prepare(const Invocation& call, const Model& model, const BackendSet& backends, World* world);

// An option as it was settled after all, in what config.json will say.
void set_in_config(FitOptions& fit, const FlagRow& option, Json value);

// What every rank must have found alike.
std::vector<World::Fact> facts_of(const Invocation& call, const Model& model, const RunData& data, World* world);

}  // namespace tandem
