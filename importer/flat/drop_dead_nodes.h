// Nodes that no output needs.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

void drop_dead_nodes(FlatModel& model);

}  // namespace tandem
