// The graph of a plan that evaluates: the model with its losses, and the counts that metrics are made of, for each sample. The host
// adds up a few numbers a sample, in double, whatever the devices and the batch.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/loss/labels.h"

namespace tandem {

// What an evaluation takes of a loss's value. All but the value itself are outputs of the role measure.
struct LossOutputs {
  bool loss = false;        // loss_measure [N]: the sum over a sample's places, each times its label's weight, without the sample's
  bool likelihood = false;  // likelihood_measure [N]: the sum of -log softmax at the label, over the places that count
  std::int64_t top = 0;     // top_measure [N,places,top]: the classes of the so many largest scores, the first of equals first
  bool value = false;       // the value, as the model gives it
  auto operator<=>(const LossOutputs&) const = default;
};
inline constexpr std::string_view loss_measure = "loss", likelihood_measure = "likelihood", top_measure = "top";
// What `of` of such an output says.
std::string measure_of(std::string_view what, const Labels& loss);

// No losses: the plan predicts.
struct EvaluationOutputs {
  std::vector<LossOutputs> losses{};  // of each
  bool model = false;                 // and all outputs of the model
  auto operator<=>(const EvaluationOutputs&) const = default;
};

// The model with these outputs in place of its own, and inputs of the role label for what they compare with. A loss that the model
// or a file computes has none. Scores of 16 bits are widened before.
Graph evaluating(Graph model, const Losses& losses, const EvaluationOutputs& outputs, const CompileOptions& options, std::int64_t samples);

}  // namespace tandem
