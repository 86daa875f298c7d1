// A graph for one batch size from a flat model.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "importer/batch/batch_reading.h"
#include "importer/batch/follow_batch.h"
#include "importer/flat/flat_model.h"
#include "importer/upgrade/draft.h"

namespace tandem {

struct BuiltGraph {
  Graph graph;
  std::vector<Problem> problems;  // empty: the graph is whole
  std::vector<ValueId> values;    // by the model's symbols; absent: not built
  // That gives a node's outputs, by FlatNode::id and iteration; those that were folded are not there.
  std::map<std::pair<int, std::string>, NodeId> nodes;
  std::map<std::pair<int, std::string>, ValueId> made;  // of symbols that unrolling made, by what they are copies of, and the iteration
  std::vector<std::pair<Counted, NodeId>> counted;      // constants that nodes take for positions in the batch
  bool one_sample = false;                              // BatchReading's: its outputs have no axis for samples yet
};

// A graph whose samples were followed.
struct FollowedGraph {
  BuiltGraph built;
  FollowedBatch followed;
  std::int64_t samples = 1;
  BatchReading reading;
};

// Never fails for what the model holds: nodes that cannot be built become problems, those that read them are passed
// over. `own`: a graph of the same model for another batch, after which this one is made; null: the file's sizes are taken
// as they are. `shapes_only`: weights without their values.
BuiltGraph build_graph(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t batch,
                       const FollowedGraph* own, bool shapes_only = false);

// How the file's inputs are read, and the options with the sizes that weights tell.
std::pair<BatchReading, ImportOptions> chosen_reading(const FlatModel& model, const ImportOptions& options);

// A graph for one batch size whose values say where they hold its samples (Value::batch): what ModelFile gives.
BuiltGraph build_followed(const FlatModel& model, const ImportOptions& options);

}  // namespace tandem
