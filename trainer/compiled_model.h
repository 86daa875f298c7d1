// The plans and values that Model::compile makes of a template, and one step of one of these plans. Fit, evaluations and predictions
// stand on it; nothing of it is for users.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "runtime/session.h"
#include "trainer/feed/buckets.h"
#include "trainer/feed/loader.h"
#include "trainer/kept_plans.h"
#include "trainer/measure/metrics.h"
#include "trainer/reports.h"
#include "trainer/template/forms.h"
#include "trainer/template/initialize.h"
#include "trainer/template/model_template.h"

namespace tandem {

// One plan of the session, ready to run: its inputs by feed target and room for its outputs.
struct Runner {
  std::vector<int> targets;  // of each plan input; -1: given by StepState
  std::vector<const std::byte*> inputs, ahead;  // of a step, and of the one that follows
  std::vector<std::vector<std::byte>> storage;  // of each plan output
  std::vector<std::byte*> outputs;
  std::size_t bucket = 0;
  std::vector<std::int64_t> samples;  // of each micro-batch, whose rows may be more (MicroBatches)
};

// What a bucket makes of a sample.
struct BucketForm {
  std::vector<Shape> shapes;   // of each target
  std::int64_t positions = 1;  // that have a class each
  Losses losses;
};

// What is known of the batch that follows: Session's Ahead, by feed target.
struct BatchAhead {
  bool announced = false;
  std::size_t plan = 0;
  std::span<std::byte* const> inputs;
};

// What the last training leaves to those after it.
struct LastTraining {
  Json options;                  // rate and schedule
  Json position;                 // where it ended, as its checkpoints say it
  PreparationWords preparation;  // what save() writes as metadata
};

struct CompiledModel {
  explicit CompiledModel(const ModelTemplate& of) : source(of) {}

  const ModelTemplate& source;  // outlives it
  ModelOptions options;
  std::vector<const Backend*> backends;
  std::unique_ptr<Session> session;  // null: not compiled yet
  std::vector<FeedTarget> targets;       // the model's inputs, then the labels, then the samples' weights
  std::vector<BucketForm> bucket_forms;  // the largest first
  Losses losses;                         // none: of an inference plan of a model that has none
  bool by_batch = false;                 // a normalization takes each batch's own statistics in inference
  std::vector<std::string> notes;
  KeptPlans kept_plans;
  std::map<PlanKey, std::size_t> plans;
  std::vector<Runner> runners;  // by plan
  std::map<std::int64_t, std::unique_ptr<Session>> gradient_sessions;  // by batch
  struct FileSession {
    std::unique_ptr<Session> session;
    bool by_sample = false;  // it gives rows of numbers for each sample
  };
  mutable std::map<std::pair<std::string, std::int64_t>, FileSession> file_sessions;  // that measure, by file and batch
  std::int64_t step = 0;
  int under_way = 0;     // steps begun
  bool initial = false;  // the values are those that compile drew or took of the template
  LastTraining last;

  // As Model's.
  void compile(const ModelOptions& options, Backends backends);
  std::int64_t predicted_peak_bytes() const;
  std::int64_t allocated_bytes() const;
  Session& running() const;  // fails (usage) before compile

  // Plans. One is compiled when first asked for.
  std::size_t plan_for(const PlanKey& key);
  Session& gradient_session(std::int64_t batch);
  Buckets buckets_for(Feed& feed) const;  // of what trains
  std::span<const FeedTarget> inputs() const;  // the targets without labels and weights

  // Steps. One step of plan `plan`; inputs[i] belongs to targets[i]. `first`: as StepState::first.
  void run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead = {}, std::int64_t first = 0);
  void run(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead = {},
           Outputs become = Outputs::of_all_ranks);
  // The same in two parts, where the session runs ahead; else begin() does it all. Of several ranks the outputs are kept.
  void begin(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead);
  void finish();
  // A step with a note of when each part of it was done, by device of all ranks (Session::run_traced). None may be under way.
  std::vector<Timeline> run_traced(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state);
  StepState step_state(double rate) const;
  StepReport report(std::size_t plan, double rate) const;  // of the training step whose outputs the runner has
  // What each mean of a batch is divided by: of the losses, then that of distillation. `inputs` are those of the targets.
  StepState in_micro_batches(std::size_t plan, std::span<std::byte* const> inputs, StepState state) const;
  std::vector<double> weigh(std::span<std::byte* const> inputs, std::int64_t samples, std::size_t bucket) const;
  // By micro-batch of a plan. The sum of a mean's is the batch's.
  std::vector<std::vector<double>> weights_of(std::size_t plan, std::span<std::byte* const> inputs) const;
  std::int64_t micro_batch() const { return running().plan(0).batch / running().plan(0).micro_batches; }  // its samples
  bool weighs_alike() const;  // batches of as many samples all have the same weights
  std::size_t loss_means() const { return losses.size() + (options.plan.loss.distillation ? 1 : 0); }

  // Values.
  void start_states();    // the optimizer's, as options.states has them
  void start_averages();  // those that the updates keep become the weights

  // Ranks.
  bool any(bool mine) const { return options.world ? options.world->any(mine) : mine; }  // of the ranks
  bool first() const { return !options.world || options.world->rank() == 0; }            // the one that writes
  LoaderOptions::RowsOf rows_here() const;  // those of a batch that this process's devices take

 private:
  void forget();  // what an earlier compile has made
  void note_values(const Initial& values);
  void note_files(const Graph& graph);
  void settle_forms(const Graph& graph);
  void prepare_runner(std::size_t plan, const PlanKey& key);
  Ahead put_inputs(std::size_t plan, std::span<std::byte* const> inputs, const BatchAhead& ahead);
};

// First values of the weights as options.init says, by the template's own initialization where it is asked for or drawn by.
Initial first_values(const ModelFile& file, const Graph& graph, const ModelOptions& options, Backends on);

// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
// `given`: in place of the one that would be made, at rank 0.
Plan plan_together(World* world, KeptPlans& kept, const GraphSource& source, CompileOptions options, Backends backends,
                   const Plan* parameters_of, const Plan* given = nullptr);

}  // namespace tandem
