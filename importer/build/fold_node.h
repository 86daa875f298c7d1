// Shape arithmetic, computed while the graph is built.
#pragma once
#include "importer/batch/budget.h"
#include "importer/upgrade/draft.h"

namespace tandem {

// Where all operands of the graph's last node are constants (or their types are enough, as for Shape) and its operator
// folds, its outputs become constants and the node goes. Fails where that is beyond the budget.
void fold_last_node(Graph& graph, Budget& budget);

}  // namespace tandem
