// How a BatchNormalization computes outside of training, and what its running variance follows within.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// In a graph that does not train, a node that asks for training (training_mode = 1) takes its running statistics; where these are the
// untouched 0 and 1, which nothing was ever moved by, those of its batch. In a graph that trains, `unbiased` has running variances follow
// unbiased ones.
void settle_batch_normalization(Graph& graph, bool training, bool unbiased);
// For the user of a graph that does not train: which nodes ask for training, and what they are computed by.
std::vector<std::string> training_mode_notes(const Graph& graph);
// Whether samples of a batch see each other in a graph that does not train.
bool normalizes_by_batch(const Graph& graph);

}  // namespace tandem
