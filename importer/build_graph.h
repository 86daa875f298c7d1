// A graph for one batch size from a flat model.
#pragma once
#include <vector>

#include "importer/flat_model.h"
#include "importer/rebatch.h"

namespace tandem {

struct BuiltGraph {
  Graph graph;
  std::vector<Problem> problems;              // empty: the graph is whole
  BatchHints hints;                           // what rebatch() wants to know of this build
  std::vector<std::optional<Shape>> outputs;  // shapes, by the model's outputs; none: not built
  std::vector<ValueId> values;                // by symbol; absent: not built
};

// Never fails for what the model holds: nodes that cannot be built become problems, those that read them are passed
// over. `own`: a build at the file's own batch, or null where this is it. `shapes_only`: weights without their values.
BuiltGraph build_graph(const FlatModel& model, const ImportOptions& options, std::int64_t batch, const BuiltGraph* own,
                       bool shapes_only = false);

}  // namespace tandem
