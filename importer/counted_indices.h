// Indices that exporters make of positions in the batch.
#pragma once
#include "importer/upgrade.h"

namespace tandem {

// x[arange(N), i] comes as a GatherND or ScatterND whose tuples begin with the place that they stand at themselves. Such leading
// coordinates, as far as they are known, become batch_dims: the same for every batch, and then samples do not meet.
void count_as_batch(UpgradeContext& c);

// The same as PyTorch's older exporter writes it: a Gather from x [N·S, ...] at arange(N)·S + i becomes a GatherND from each sample.
// That is the same where 0 ≤ i < S, which a warning says.
void gather_within_samples(UpgradeContext& c);

// Such a constant for another number of places along the axis; further coordinates are those of the first place.
Tensor counted_to(const Tensor& tensor, const Counted& counted, std::int64_t length);

}  // namespace tandem
