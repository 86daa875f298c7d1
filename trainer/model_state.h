// What a Model holds, shared by its .cpp files.
#pragma once
#include "trainer/kept_plans.h"
#include "trainer/loader.h"
#include "trainer/metrics.h"
#include "trainer/model.h"

namespace tandem {

// One plan of the session, ready to run: its inputs by feed target and room for its outputs.
struct Runner {
  std::vector<int> targets;  // of each plan input; -1: given by StepState
  std::vector<const std::byte*> inputs, ahead;  // of a step, and of the one that follows
  std::vector<std::vector<std::byte>> storage;  // of each plan output
  std::vector<std::byte*> outputs;
};

// What is known of the batch that follows: Session's Ahead, by feed target.
struct BatchAhead {
  bool announced = false;
  std::size_t plan = 0;
  std::span<std::byte* const> inputs;
};

struct Model::State {
  explicit State(ModelFile f) : file(std::move(f)) {}

  ModelFile file;
  ModelOptions options;
  std::vector<const Backend*> backends;
  KeptPlans kept_plans;
  std::unique_ptr<Session> session;
  std::vector<Runner> runners;                                     // by plan
  std::map<std::pair<PlanMode, std::int64_t>, std::size_t> plans;  // by mode and batch
  std::vector<FeedTarget> targets;                                 // the model's inputs, then the labels
  Scores scores;
  TensorType output;  // the model's first
  std::vector<std::string> notes;
  std::int64_t step = 0;

  GraphSource source(const ModelOptions& o) const;
  bool first() const { return !options.world || options.world->rank() == 0; }  // the one that writes
  Loader::RowsOf rows_here() const;                         // those of a batch that this process's devices take
  Session& running() const;                                 // fails (usage) before compile
  std::size_t plan_for(PlanMode mode, std::int64_t batch);  // compiled when first asked for
  void prepare_runner(std::size_t plan);
  // One step of plan `plan`; inputs[i] belongs to targets[i].
  void run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead = {});
  StepReport report(std::size_t plan, double rate) const;  // of the training step just run
};

}  // namespace tandem
