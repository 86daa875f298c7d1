// Another model's graph beside that of the one that trains: a loss that a file computes, a teacher.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// Appends the nodes of `part` with its inputs bound, by name, to values of `graph` of the same types, and gives back what its
// outputs are there. It computes what it does in inference: its BatchNormalizations go by their running statistics, its Dropouts
// are left out. Its weights do not train; with `constants` they are constants, else parameters of the role teacher. Names of values and
// nodes get the prefix. Fails (model) where a weight has no values.
std::vector<ValueId> append_graph(Graph& graph, const Graph& part, const std::map<std::string, ValueId>& inputs, const std::string& prefix,
                                  bool constants);

}  // namespace tandem
