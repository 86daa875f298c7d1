// What known places take: parts of what was joined, and regions of the samples' own images.
#pragma once
#include "importer/upgrade/upgrade.h"

namespace tandem {

// A Slice of a Concat along the joined axis, where one of the joined values is known, reads the values alone that it takes from: a sample's
// number that stands in a table beside what is computed from the sample is a number again.
void slice_known_parts(UpgradeContext& c);

// A RoiAlign of which the regions are known to be those of image 0, then of image 1, as many of each, gets the attribute `regions`,
// that many: each image's regions take from it alone, and samples do not meet.
void count_regions(UpgradeContext& c);

}  // namespace tandem
