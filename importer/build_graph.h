// A graph for one batch size from a flat model.
#pragma once
#include <vector>

#include "importer/flat_model.h"
#include "importer/rebatch.h"

namespace tandem {

struct BuiltGraph {
  Graph graph;
  std::vector<Problem> problems;  // empty: the graph is whole
  BatchHints hints;               // what rebatch() wants to know of this build
};

// Never fails for what the model holds: nodes that cannot be built become problems, those that read them are passed
// over. `hints`: of a build at the file's own batch, or null.
BuiltGraph build_graph(const FlatModel& model, const ImportOptions& options, std::int64_t batch, const BatchHints* hints);

}  // namespace tandem
