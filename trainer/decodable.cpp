#include "trainer/decodable.h"

#include "trainer/data/image.h"

namespace tandem {

std::vector<std::int64_t> decodable_samples(const Dataset& data, const Preprocess& preprocess) {
  std::vector<std::int64_t> good;
  std::vector<std::byte> file;
  Image image;
  std::int64_t bad = 0;
  for (std::int64_t sample = 0; sample < data.size(); ++sample) try {
      for (std::size_t f = 0; f < data.fields().size(); ++f) {
        if (!data.fields()[f].encoded) continue;
        data.encoded(f, sample, file);
        decode_image(file, {}, data.describe(sample), image);
      }
      good.push_back(sample);
    } catch (const Error& error) {
      if ((error.code() != ExitCode::data && error.code() != ExitCode::io) || ++bad > preprocess.bad_samples) throw;
      if (preprocess.on_bad_sample) preprocess.on_bad_sample(error.what());
    }
  if (good.empty()) fail(ExitCode::data, data.name(), ": no image file of it can be decoded");
  return good;
}

}  // namespace tandem
