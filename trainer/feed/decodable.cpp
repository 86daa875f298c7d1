#include "trainer/feed/decodable.h"

#include <algorithm>

#include "base/option.h"
#include "data/image.h"

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

void check_image_files(const Dataset& data, const Preprocess& preprocess) {
  constexpr std::int64_t most_files = 1000, most_bytes = std::int64_t{256} << 20;
  if (preprocess.bad_samples > 0) return;
  std::vector<std::byte> file;
  const std::int64_t files = std::min(most_files, data.size());
  for (std::size_t f = 0; f < data.fields().size(); ++f)
    for (std::int64_t i = 0, bytes = 0; data.fields()[f].encoded && i < files && bytes < most_bytes; ++i, bytes += std::ssize(file)) {
      const std::int64_t sample = i * data.size() / files;
      data.encoded(f, sample, file);
      try {
        check_image(file, data.describe(sample));
      } catch (const Error& e) {
        fail(e.code(), e.what(), " (found before training: ", files == data.size() ? "all" : concat(files, " of ", data.size()),
             " files are looked at; ", option("on_bad_sample"), " leaves such out)");
      }
    }
}

}  // namespace tandem
