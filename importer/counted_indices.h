// Indices that exporters make of positions in the batch.
#pragma once
#include "importer/upgrade.h"

namespace tandem {

// x[arange(N), i] comes as a GatherND or ScatterND whose tuples begin with the place that they stand at themselves. Such leading
// coordinates, as far as they are known, become batch_dims: the same for every batch, and then samples do not meet.
void count_as_batch(UpgradeContext& c);

// Such a constant for another number of places along the axis; its further coordinates are those of the first place.
Tensor counted_to(const Tensor& tuples, int axis, std::int64_t length);

}  // namespace tandem
