// A batch that the file hard-codes in a Reshape, Expand or Slice. The model is built at the file's own batch first; where
// an operand is the same at the wanted batch but for one axis, which grew with the batch, the output must grow alike.
#pragma once
#include <map>

#include "importer/draft.h"

namespace tandem {

// What a node's first input and output were at the file's own batch.
struct BatchHint {
  Shape input, output;
};
using BatchHints = std::map<int, BatchHint>;  // by FlatNode::id

bool wants_batch_hint(const std::string& op);
// Rewrites the draft's shape, starts or ends. `from` is the file's batch, `to` the wanted one.
void rebatch(const Graph& graph, const BatchHint& hint, std::int64_t from, std::int64_t to, Draft& draft);

}  // namespace tandem
