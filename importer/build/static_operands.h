// Operands that must be known when the plan is made, moved into attributes (Operator::static_operands).
#pragma once
#include "importer/batch/budget.h"
#include "importer/upgrade/draft.h"

namespace tandem {

// Scalars become integers or floats, lists Ints or Floats, tensors of higher rank stay tensors. Fails where such an
// operand is given but not known (and may not be computed), or beyond the budget.
void move_static_operands(const Graph& graph, const Operator& op, Draft& draft, Budget& budget);

}  // namespace tandem
