// What a loss sees of a model, and what one sample's labels look like for it. This is derived here and nowhere else: the
// training graph's loss, the feed of data, the session's check of what it is fed and the metrics of evaluation go by it.
#pragma once
#include <optional>
#include <string>

#include "graph/operator.h"
#include "planner/loss/loss_value.h"
#include "planner/loss/losses.h"
#include "planner/loss/sample_rows.h"
#include "planner/options.h"

namespace tandem {

struct Labels {
  OutputKind kind = OutputKind::plain;  // what the value holds, told by the operator that makes it
  std::string loss;           // a row's name
  std::string value;          // of the model, that the loss is computed on
  Shape scores;               // of one sample: [C], [C,H,W], [S,V]. Where N samples give [N·T,C]: [T,C]
  int axis = -1;              // of `scores`, that holds the classes; -1: this loss has none
  std::int64_t classes = 0;   // that a label's index may name; 0: labels are no indices
  std::optional<TensorType> sample;  // one sample's labels: int64 class indices, or values of the scores' type. Absent: the
                                     // model computes its loss
  std::string assumed;        // what was assumed and what overrules it, for the user; empty: nothing
  std::string output;            // whose labels they are where there are several losses: the training graph's input has it as `of`
  double share = 1;              // of this loss in the total
  std::map<std::string, double, std::less<>> parameters;
  double smoothing = 0;
  std::optional<std::int64_t> ignore;  // a class index that does not count
  std::vector<double> class_weights;   // of class indices; empty: all count alike
  bool probabilities = false;          // the loss is given probabilities, and takes their logarithm for scores
  bool weighted = false;               // samples count by the input of the role sample_weight
  bool by_sample = false;              // of a file's: it gives numbers for each sample, else one for the batch
  bool weighs_itself = false;          // of a file's: it takes the samples' weights as an input

  // What people call the input of the training graph.
  std::string input() const { return output.empty() ? "labels" : concat("labels/", output); }
  LossValues values() const { return {loss_row(loss), parameters}; }
  bool own() const { return loss == "output"; }  // the model computes its loss
  bool of_file() const { return loss == file_loss; }

  // What of a sample is right or wrong: 1, or the places that have a class each.
  std::int64_t positions() const { return axis < 0 || scores[axis] == 0 ? 1 : scores.elements() / scores[axis]; }
};

// Of each of the losses that options.loss.name names. Fails as below, and (usage) on options that none of them takes.
using Losses = std::vector<Labels>;
Losses losses_of(const GraphSource& source, const CompileOptions& options);

// Of the first loss that options.loss.name names, on its output or options.loss.on. Fails (usage) where there is no such loss or value,
// (model) where the value does not grow with the batch: the model's graphs at two batch sizes show it.
Labels labels_of(const GraphSource& source, const CompileOptions& options);

// The loss of a value that has one number for each sample or place, where nobody chose one: binary-cross-entropy of a sigmoid, else
// mse, as far as the model tells. Empty: it is not so, or somebody chose. Fails (model) as labels_of.
std::string loss_of_one_number(const GraphSource& source, const CompileOptions& options);

// Sets what of dense_labels and class_axis is open so that one sample's labels fit. Returns a line where more than one axis
// would; where none does nothing is set, and the labels will not fit.
std::string fit_labels(const GraphSource& source, CompileOptions& options, const TensorType& sample);

}  // namespace tandem
