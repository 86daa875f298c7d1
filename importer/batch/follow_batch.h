// Follows the samples of a batch through a graph, operator by operator (Operator::follow): where they lie in every value,
// and which operands have to be repeated for them.
//
// In a graph for more than one sample the shapes say where a Reshape puts them. In one for a single sample a Reshape can
// be read in several ways ([10,1,32] as [10,32]: 10 rows a sample, or 32 columns). A reading is kept where the rest of the
// graph can be followed; where it cannot, the nearest reading that the failing node depends on is taken back. Any reading
// that can be followed to the end is right: the rules hold sample by sample, so each sample's part of every value is what
// the file computes for it alone.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

struct FollowedBatch {
  std::vector<BatchPlace> places;  // by value
  // Operands that hold no samples where there must be as many as in the other operands.
  struct Repeat {
    int input;
    BatchPlace place;
  };
  std::map<NodeId, std::vector<Repeat>> repeats;
  // Parameters, constants and repeated values that hold the same once for every sample of the file's batch, and so count
  // as holding samples.
  std::map<ValueId, BatchPlace> copies;
  // Empty: followed. Else why not, beginning with `node`, and how the samples came there.
  std::string reason;
  NodeId node;
};

// `graph` is for `batch` samples, and its inputs that hold them say so (depends_on_batch).
FollowedBatch follow_batch(const Graph& graph, std::int64_t batch);

// Whether the parts of `tensor` that `batch` samples would have at this place are all the same.
bool holds_copies(const Tensor& tensor, const BatchPlace& place, std::int64_t batch);

}  // namespace tandem
