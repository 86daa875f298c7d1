// Probabilities of classes that no Softmax makes: known by how they are computed.
#pragma once
#include <optional>

#include "planner/loss/loss_value.h"

namespace tandem {

// Of a value that is exp(z) / Σ exp(z), written in any way, z and the axis of the sum; of one that is x / Σ x, of numbers x that are
// never negative, itself (normalized). Such are scikit-learn's: one-against-all and naive Bayes. Absent: it is neither.
std::optional<FinalScores> scores_of_probabilities(const Graph& graph, ValueId value);

}  // namespace tandem
