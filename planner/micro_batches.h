// Where the rows of a batch stand in its equal parts.
#pragma once
#include <cstdint>
#include <vector>

#include "planner/options.h"

namespace tandem {

// How many rows of its own each part has: all, but for those behind the full ones. Each divides MicroBatches::rows.
std::vector<std::int64_t> own_rows(const MicroBatches& parts);
// By row of the parts: which row of the batch stands there. A part's own come first, and then again.
std::vector<std::int64_t> places_of(const MicroBatches& parts);

}  // namespace tandem
