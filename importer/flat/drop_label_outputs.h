// Outputs of classifiers that no graph holds.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Drops outputs of strings and of maps from label to score.
void drop_label_outputs(FlatModel& model);

}  // namespace tandem
