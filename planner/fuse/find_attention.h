// Attention as exporters write it out, found from the product by values up to that of queries by keys:
//   y = Dropout?(guard?(Softmax(mask(scale · q·kᵀ)))) · v
// scale: by numbers on q, k or the scores; mask: numbers that are added, or a Where; guard: zeros for rows of NaN. All that lies between
// must be read by nothing else. A mask that has a gradient stays as it is.
#pragma once
#include <functional>
#include <optional>

#include "graph/graph.h"

namespace tandem {

struct FoundAttention {
  ValueId q, k, v;                  // of the old graph
  bool turned = false;              // k is [...,T,D]
  Ints key_order;                   // k's axes, as the product's right operand has them
  double scale = 1;
  std::vector<ValueId> addends;
  ValueId keep;                     // where it is false, the score is `fill`
  bool drops_kept = false;          // where it is true instead
  double fill = 0;
  bool causal = false;
  std::int64_t offset = 0;
  int guarded = 0;
  ValueId guard_of;                 // the mask by which rows are guarded, where it is told by that
  NodeId dropout, softmax;
  Shape scores;                     // with the most axes that they have on the way
};

// What ends in a product, where that is attention. The graph must outlive it.
using FindAttention = std::function<std::optional<FoundAttention>(const Node& product)>;
FindAttention attention_finder(const Graph& graph, bool training);

}  // namespace tandem
