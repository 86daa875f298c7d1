// Sizes of symbolic dimensions that follow from the file's weights: a product of [N,unknown] by a matrix [5,3] needs 5.
#pragma once
#include "importer/build/build_graph.h"

namespace tandem {

// The options with the sizes of dimensions for which the weights leave one alone. Where any size will do, or several, none is set.
// `work`: nodes that may be built for it; those that were are taken from it.
ImportOptions with_sizes_by_weights(const FlatModel& model, ImportOptions options, const BatchReading& reading, std::int64_t& work);

// The options with some size for every dimension that still has none: for looking at all else.
ImportOptions with_some_sizes(const FlatModel& model, ImportOptions options, const BatchReading& reading);

}  // namespace tandem
