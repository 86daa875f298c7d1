// What mean and deviation are measured as.
#pragma once
#include "trainer/feed/feed.h"

namespace tandem {

// Sets mean and deviation, of each channel of images, of all values else, of the first input: of at most some thousand
// samples, spread evenly, as the model would see them without. Returns how many. Fails (data) where nothing can be measured.
std::int64_t measure_normalize(Preprocess& preprocess, const Dataset& data, const DataRequest& request);

}  // namespace tandem
