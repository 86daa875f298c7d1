// How data reaches the model: normalize, resize, workers, on_bad_sample.
#pragma once
#include <string>
#include <vector>

#include "data/preparation.h"
#include "options/values.h"

namespace tandem {

void read_image_options(const OptionValues& values, Preprocess& preprocess);
// What was left out by on_bad_sample skip: why, a sentence for each sample.
std::vector<std::string> bad_samples_of(const Preprocess& preprocess);

}  // namespace tandem
