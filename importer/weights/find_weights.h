// Which tensors of a file are trained, by the rules of docs/weights.md.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

void find_weights(FlatModel& model, const WeightOptions& options);

}  // namespace tandem
