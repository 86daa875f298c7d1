// Indices that exporters make of positions in the batch.
#pragma once
#include "importer/upgrade/upgrade.h"

namespace tandem {

// x[arange(N), i] comes as a GatherND or ScatterND whose tuples begin with the place that they stand at themselves. Such leading
// coordinates, as far as they are known, become batch_dims: the same for every batch, and then samples do not meet. Tuples that name all
// places in order are none: x[mask] of a mask that hides nothing is x in another shape, and x[mask] = y is y.
void count_as_batch(UpgradeContext& c);

// x.view(N·R, ...)[i + R·arange(N)] comes as a Gather from rows of all samples. Where the numbers' part of the sample is known it is
// taken out: each picks from its own rows of x [N, R, ...]. All rows in order are x in another shape.
// An i that comes from data is then taken to name rows 0 to R−1, which a warning says; the offset of a channel may stand beside the
// sample's (a max-unpooling of planes).
void count_as_parts(UpgradeContext& c);

// The same of a ScatterElements of a single axis, which all samples' segments share, and of one that names whole rows (a column of indices,
// expanded).
void count_as_elements(UpgradeContext& c);

// A constant that counts places along an axis (Draft::counted) for another number of them; further coordinates are those of the first.
Tensor counted_to(const Tensor& tensor, const Counted& counted, std::int64_t length);

}  // namespace tandem
