// Shape arithmetic, computed while the graph is built.
#pragma once
#include "importer/draft.h"

namespace tandem {

// Shape and Size need only their operand's type: their value, or nothing for other operators.
std::optional<Tensor> fold_shape(const Graph& graph, const Draft& draft);

// Where all operands of the graph's last node are constants and its operator folds, its outputs become constants and
// the node goes. Fails where its outputs would take more than `limit` bytes.
void fold_last_node(Graph& graph, std::int64_t limit);

}  // namespace tandem
