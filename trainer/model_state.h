// What a Model holds, shared by its .cpp files.
#pragma once
#include <tuple>

#include "planner/loss/evaluation.h"
#include "trainer/feed/buckets.h"
#include "trainer/feed/loader.h"
#include "trainer/graph_file.h"
#include "trainer/initialize.h"
#include "trainer/kept_plans.h"
#include "trainer/measure/metrics.h"
#include "trainer/model.h"

namespace tandem {

// One plan of the session, ready to run: its inputs by feed target and room for its outputs.
struct Runner {
  std::vector<int> targets;  // of each plan input; -1: given by StepState
  std::vector<const std::byte*> inputs, ahead;  // of a step, and of the one that follows
  std::vector<std::vector<std::byte>> storage;  // of each plan output
  std::vector<std::byte*> outputs;
  std::size_t bucket = 0;
};

// How much each sample counts.
FeedTarget weights_target();

// What a bucket makes of a sample.
struct BucketForm {
  std::vector<Shape> shapes;   // of each target
  std::int64_t positions = 1;  // that have a class each
  Losses losses;
};

// What a plan of the session is for.
struct PlanKey {
  PlanMode mode = PlanMode::training;
  std::int64_t batch = 1;
  bool bytes = false;   // inputs are given as CompileOptions::given_bytes has them
  std::size_t bucket = 0;
  std::vector<std::string> outputs{};  // that an inference plan gives in place of the model's
  EvaluationOutputs evaluation{};      // what one gives that evaluates
  auto operator<=>(const PlanKey&) const = default;
};

// Those of training on so many samples: of whole batches and of the short last one.
std::vector<PlanKey> keys_of_training(std::int64_t samples, std::int64_t batch, bool bytes, std::size_t buckets);
// Those of measuring so many samples. Samples do not see each other in an inference plan, so the last batch is filled up; a model that
// computes its own loss averages over the batch, so its last batch has a plan of its size.
std::vector<PlanKey> keys_of_measuring(std::int64_t samples, std::int64_t batch, bool bytes, const Losses& losses,
                                       const EvaluationOutputs& evaluation);
bool own_loss(const Losses& losses);  // the model computes one of them itself, over its batch

// What is known of the batch that follows: Session's Ahead, by feed target.
struct BatchAhead {
  bool announced = false;
  std::size_t plan = 0;
  std::span<std::byte* const> inputs;
};

struct Model::State {
  explicit State(ModelFile f) : file(std::move(f)) {}

  ModelFile file;
  mutable std::map<std::string, ModelFile> others;  // other_file's, by path
  ModelOptions options;
  std::vector<const Backend*> backends;
  KeptPlans kept_plans;
  std::unique_ptr<Session> session;
  std::vector<Runner> runners;                                     // by plan
  std::map<PlanKey, std::size_t> plans;
  std::map<std::int64_t, std::unique_ptr<Session>> gradient_sessions;  // by batch
  struct FileSession {
    std::unique_ptr<Session> session;
    bool by_sample = false;  // it gives rows of numbers for each sample
  };
  mutable std::map<std::pair<std::string, std::int64_t>, FileSession> file_sessions;  // that measure, by file and batch
  std::vector<FeedTarget> targets;                                 // the model's inputs, then the labels, then the samples' weights
  std::vector<BucketForm> bucket_forms;                            // the largest first
  Losses losses;                                                   // none: of an inference plan of a model that has none
  std::vector<std::string> notes;
  std::int64_t step = 0;
  int under_way = 0;     // steps begun
  Json fitted;           // rate and schedule of the last fit
  Json position;         // where the last fit ended, as its checkpoints say it
  bool by_batch = false;  // a normalization takes each batch's own statistics in inference
  bool initial = false;  // the values are those that compile drew or took of the template
  std::map<std::string, std::string> preparation;  // of the last training: what save() writes as metadata, without "tandem."

  // What plans are made of: that of training ends in the losses of files.
  GraphSource source(const ModelOptions& o, std::size_t bucket = 0, const std::vector<std::string>& outputs = {}) const;
  GraphSource source(const ModelOptions& o, const PlanKey& key, const Losses& losses) const;  // of a plan of that key
  // of options in a bucket
  GraphSource plain_source(const ModelOptions&o, const std::vector<std::string>&outputs = {}) const,
      source_with_losses(const ModelOptions&o) const;
  void add_teacher(Graph& graph, const ModelOptions& o, std::int64_t batch) const;
  const ModelFile& other_file(const std::string& path) const;  // a loss, a metric, a teacher: read when first asked for
  std::vector<std::optional<GraphFile>> loss_files(const ModelOptions& o, const Graph& graph) const;  // by term; none: no file computes it
  Losses losses_for(const ModelOptions& o, std::size_t bucket = 0) const;  // fails (usage) on a value that is not there, naming the nearest
  // The same for what needs no loss: an inference plan of a model that has none gives none.
  Losses losses_if_any(const ModelOptions& o, std::size_t bucket = 0) const;
  std::span<const FeedTarget> inputs() const;  // the targets without labels and weights
  bool any(bool mine) const { return options.world ? options.world->any(mine) : mine; }  // of the ranks
  void check_buckets(const ModelOptions& o) const;  // fails (usage) where they cannot share their weights
  CompileOptions plan_options(const ModelOptions& o) const;  // with the names of the template's tensors
  CompileOptions plan_options(const ModelOptions& o, const PlanKey& key) const;
  bool first() const { return !options.world || options.world->rank() == 0; }  // the one that writes
  LoaderOptions::RowsOf rows_here() const;                         // those of a batch that this process's devices take
  Session& running() const;                                 // fails (usage) before compile
  // Compiled when first asked for.
  std::size_t plan_for(const PlanKey& key);
  void prepare_runner(std::size_t plan, const PlanKey& key);
  Session& gradient_session(std::int64_t batch);
  // One step of plan `plan`; inputs[i] belongs to targets[i]. `first`: as StepState::first.
  void run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead = {}, std::int64_t first = 0);
  // The same in two parts, where the session runs ahead; else begin() does it all.
  void begin(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead);
  void finish();
  Buckets buckets_for(Feed& feed) const;  // of what trains
  std::vector<std::string> class_names() const;  // as the last training's data had them, or the file says
  std::map<std::string, double> means() const;   // of columns, by the same
  void run(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead = {});
  Ahead put_inputs(std::size_t plan, std::span<std::byte* const> inputs, const BatchAhead& ahead);
  StepState step_state(double rate) const;
  // What each mean of a batch is divided by: of the losses, then that of distillation. `inputs` are those of the targets.
  std::vector<double> weigh(std::span<std::byte* const> inputs, std::int64_t samples, std::size_t bucket) const;
  bool weighs_alike() const;  // batches of as many samples all have the same weights
  std::size_t loss_means() const { return losses.size() + (options.plan.loss.distillation ? 1 : 0); }
  // First values of the weights as options.init says, by the template's own initialization where it is asked for or drawn by.
  Initial first_values(const Graph& graph, const ModelOptions& o, Backends on) const;
  void start_states();    // the optimizer's, as options.states has them
  void start_averages();  // those that the updates keep become the weights
  StepReport report(std::size_t plan, double rate) const;  // of the training step just run
};

ImportOptions import_options(const ModelOptions& o, std::int64_t batch, bool training);
// Without inputs that nothing needs. With `losses`, without those that no loss needs, and the outputs that need these.
Graph without_unneeded_inputs(Graph graph, const CompileOptions* losses);
std::size_t bucket_count(const ModelOptions& o);
// Sizes of the dimensions in a bucket, 0 the largest.
std::map<std::string, std::int64_t> dims_of(const ModelOptions& o, std::size_t bucket = 0);
ModelOptions in_bucket(ModelOptions o, std::size_t bucket = 0);  // as if `dims` gave these sizes
inline constexpr std::string_view teacher_prefix = "teacher/";  // of its values and nodes
inline constexpr std::string_view metadata_prefix = "tandem.";  // of what a file says of its training
// Where a model has adapters these and a new head are trained, and what `unfreeze` names; adapters that `freeze` names stay as they are.
void freeze_base(const ModelFile& file, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze);
std::string list_some(const std::vector<std::string>& names);  // "a, b, ... (7 in all)"
// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
Plan plan_together(World* world, KeptPlans& kept, const GraphSource& source, CompileOptions options, Backends backends,
                   const Plan* parameters_of);

}  // namespace tandem
