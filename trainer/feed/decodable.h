// Which samples have image files that can be decoded.
#pragma once
#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "trainer/feed/preprocess.h"

namespace tandem {

// All samples but those of a broken file, which preprocess.on_bad_sample hears of. Every file is decoded: for what measures and may
// not count a sample twice. Fails as decoding does where more than preprocess.bad_samples are broken, or all.
std::vector<std::int64_t> decodable_samples(const Dataset& data, const Preprocess& preprocess);

// Looks at the headers and the ends of at most some thousand files, evenly spread, and as many bytes as a quarter of a gibibyte: for
// what can be told before devices start. Fails as check_image does, saying what it looked at; does nothing where broken files may be
// left out.
void check_image_files(const Dataset& data, const Preprocess& preprocess);

}  // namespace tandem
