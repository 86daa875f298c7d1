// Options of the data and of how it reaches the model.
#pragma once
#include "options/flag.h"

namespace tandem {

std::string usages_of_data(const FlagRow&);

struct DataFlags : FlagGroup {
  constexpr DataFlags() : FlagGroup("data") {}
  Flag<std::string> data{*this, "data", "SPEC", "", "what to read, see docs/training.md: {}", {.scope = FlagScope::rank, .paths = true, .names = usages_of_data}};
  Flag<std::string> normalize{*this, "normalize", "MEAN,DEV", "", "x becomes (x - MEAN) / DEV, after bytes became 0..1; also one mean, then one deviation, a channel; imagenet (its own), auto (measured), none (default: as the file says it was trained)"};
  Flag<std::string> resize{*this, "resize", "RULE", "", "of image files: crop (cover the model's size, then its middle; the default), PIXELS (of the shorter side, then the middle) or stretch; with ,bicubic behind it by that filter, not by bilinear"};
  Flag<std::int64_t> workers{*this, "workers", "N", "0", "threads that read, decode and augment (0: one, or a quarter of the cores for image files)", whole<0, 64>};
  Flag<std::string> on_bad_sample{*this, "on-bad-sample", "fail|skip[=N]", "fail", "an image file that cannot be decoded ends the run, or the next sample takes its place, N (100) times at most"};
};
inline constexpr DataFlags data_flags;

struct SplitFlags : FlagGroup {
  Flag<std::string> split{*this, "split", "NAME", "", "train, validation or test (default: test where there is one)"};
};
inline constexpr SplitFlags split_flags;

}  // namespace tandem
