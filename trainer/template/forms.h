// How options say what is imported and planned: sizes of dimensions by bucket, plans by key, and what a plan takes of each sample.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "importer/model_file.h"
#include "planner/loss/evaluation.h"
#include "trainer/feed/feed.h"
#include "trainer/template/model_options.h"

namespace tandem {

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

PlanKey first_key(const ModelOptions& o, const Losses& losses);  // of the plan that is made first

// Those of training on so many samples: of whole batches and of the short last one.
std::vector<PlanKey> keys_of_training(std::int64_t samples, std::int64_t batch, bool bytes, std::size_t buckets);
// Those of measuring so many samples. Samples do not see each other in an inference plan, so the last batch is filled up; a model that
// computes its own loss averages over the batch, so its last batch has a plan of its size.
std::vector<PlanKey> keys_of_measuring(std::int64_t samples, std::int64_t batch, bool bytes, const Losses& losses,
                                       const EvaluationOutputs& evaluation);
bool own_loss(const Losses& losses);  // the model computes one of them itself, over its batch

ImportOptions import_options(const ModelOptions& o, std::int64_t batch, bool training);
std::size_t bucket_count(const ModelOptions& o);
// Sizes of the dimensions in a bucket, 0 the largest.
std::map<std::string, std::int64_t> dims_of(const ModelOptions& o, std::size_t bucket = 0);
ModelOptions in_bucket(ModelOptions o, std::size_t bucket = 0);  // as if `dims` gave these sizes

// What a model takes of each sample: its inputs, then the labels and weights that its losses take.
std::vector<FeedTarget> targets_of(const Graph& graph, const Losses& losses, const CompileOptions& options);
FeedTarget weights_target();  // how much each sample counts
std::vector<ValueId> without_samples(const Graph& graph);  // inputs that hold no samples
// Of data that is only measured, which need not have the weights of samples that the training's had.
Losses unweighted(Losses losses, const Dataset& data);

// Where a model has adapters these and a new head are trained, and what `unfreeze` names; adapters that `freeze` names stay as they are.
void freeze_base(const ModelFile& file, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze);
inline constexpr std::string_view teacher_prefix = "teacher/";  // of its values and nodes
inline constexpr std::string_view metadata_prefix = "tandem.";  // of what a file says of its training
std::string list_some(const std::vector<std::string>& names);   // "a, b, ... (7 in all)"

// What a training leaves word of for those who go by its model later, by key without "tandem.": in a file its metadata.
using PreparationWords = std::map<std::string, std::string>;
// Those of `own`, else the file's. What is none of ours counts as nothing.
std::vector<std::string> class_names(const PreparationWords& own, const ModelFile& file);
std::map<std::string, double> column_means(const PreparationWords& own, const ModelFile& file);

}  // namespace tandem
