// What an operator's row says of its operands, held against a node of the file before any of the operator's functions runs.
#pragma once
#include <vector>

#include "graph/operator.h"
#include "importer/flat/flat_model.h"

namespace tandem {

// Fails where a node leaves out what its operator needs, or has more than it knows: nothing behind this has to ask again.
void check_arity(const Arity& takes, const Arity& gives, const FlatNode& node);

// Fails where an operand's element type is none of those its operator takes, or another than that of one it has to be like.
void check_types(const Operator& op, const Graph& graph, const std::vector<ValueId>& inputs);

}  // namespace tandem
