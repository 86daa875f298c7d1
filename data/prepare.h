// From an image file's bytes, or an image of bytes, to the pixels that a model takes: size, and what augmentation draws.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/preparation.h"
#include "data/stream.h"

namespace tandem {

// Brings `from` to height x width: torchvision's Resize and CenterCrop, to their rounding.
void fit_image(const Image& from, const Resizing& resizing, std::int64_t height, std::int64_t width, Image& to);

// torchvision's RandomResizedCrop: a box of 8 to 100% of the area, 3:4 to 4:3.
Box random_box(std::int64_t height, std::int64_t width, Random& random);

// One row an augmentation, for --help and errors.
struct AugmentationRow {
  const char* name;
  double absent;            // amount where none is given
  double low, high;         // that it may be
  const char* help;
  void (*apply)(Image& image, double amount, Random& random);
  std::int64_t times = 1;   // where none are given
};
std::span<const AugmentationRow> augmentations();
void augment_image(Image& image, const std::vector<Augmentation>& recipe, Random& random);
// One of RandAugment's, by torchvision's name; `amount` as its table has it, with its sign.
void apply_operation(Image& image, std::string_view name, double amount);

}  // namespace tandem
