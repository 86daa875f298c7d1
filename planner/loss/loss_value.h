// On which value of a model each loss stands, and the scores that it is computed from.
#pragma once
#include <vector>

#include "graph/operator.h"
#include "planner/loss/losses.h"
#include "planner/options.h"

namespace tandem {

// What stands at the end of a model, for a loss.
struct FinalScores {
  OutputKind kind = OutputKind::plain;
  ValueId logits;
  int axis = -1;  // of the logits: a softmax's
  bool normalized = false;  // the logits are the probabilities themselves, which no softmax makes: their logarithm is a score
};

// Of an output: behind the operator that makes numbers of scores others may stand that hand these on unchanged.
FinalScores find_scores(const Graph& graph, ValueId output, const LossRow& loss);

// The axis of a value along which the operator that makes it writes its features: 1 behind a convolution, the last behind a product
// by a matrix of parameters; -1: not known. Elementwise operators, transpositions and reshapes stand between.
int feature_axis(const Graph& graph, ValueId value);

// The options of each loss alone: its name as `loss`, its output as `loss_on`, its labels' form.
std::vector<CompileOptions> options_of_losses(const CompileOptions& options);

// The value that options.loss.on names, or the model's first output of floats. Fails (usage).
ValueId model_value(const Graph& model, const CompileOptions& options);
// The same, or what the file gives that computes the loss on it (role file_loss), where the graph has that.
ValueId loss_value(const Graph& model, const CompileOptions& options);
// The values that the losses are computed from: what goes into a final Softmax, LogSoftmax or Sigmoid, which is exact where
// log(softmax(x)) would round; else the value itself.
// With distillation those of the student and of the teacher stand behind them.
std::vector<ValueId> logits_of(const Graph& model, const CompileOptions& options);
// What a value is a softmax of, or the value.
ValueId scores_behind(const Graph& model, ValueId value);
// The output that the teacher's is compared with: the first loss's. Fails (usage).
ValueId student_value(const Graph& model, const CompileOptions& options);

}  // namespace tandem
