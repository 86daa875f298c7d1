// First values of a model's parameters.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/session.h"

namespace tandem {

struct Initial {
  std::vector<NamedTensor> values;    // of the model's parameters
  std::vector<NamedTensor> teacher;   // of those of the model that it learns from, as they are
  std::vector<std::string> missing;   // under "keep": those the template gives no values for, drawn as he-normal
  std::vector<std::string> constant;  // under "keep": weights whose values are all alike, which no training tells apart
  std::string chosen;                 // under "auto": what was chosen for a template without weights; empty: it was kept
};

// keep: the template's values. he-normal: normal, variance 2 / fan_in (He et al. 2015). glorot-uniform: uniform within
// ±√(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). What a parameter is to the operators that read it decides its
// fans, and that biases are 0, BatchNormalization's scale and variance 1, bias and mean 0; names decide nothing. A value
// depends on the seed and the parameter's name only. auto: keep, but where the template has no values, or values all alike,
// for every weight that starts at random, it is untrained: he-normal where it has a rectifier, else glorot-uniform. Fails
// (usage) on another `how`.
Initial initialize(const Graph& graph, std::string_view how, std::uint64_t seed);

void check_initialization(std::string_view how);  // fails (usage)

}  // namespace tandem
