// What --augment may do to an image beside crop and flip. Sources: torchvision's transforms (ColorJitter, RandomErasing, RandAugment,
// TrivialAugmentWide); Cubuk et al., "RandAugment", 2019; Mueller and Hutter, "TrivialAugment", 2021.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "data/operations.h"
#include "data/prepare.h"

namespace tandem {
namespace {

void rotate(Image& image, double most, Random& random) {
  turn(image, random.uniform(-most, most), Between::linear);
}

void turn_over(Image& image, double share, Random& random) {
  if (random.uniform() >= share) return;
  const auto row = static_cast<std::ptrdiff_t>(image.width * image.channels);
  for (std::int64_t y = 0; y < image.height / 2; ++y)
    std::swap_ranges(image.pixels.begin() + y * row, image.pixels.begin() + (y + 1) * row,
                     image.pixels.begin() + (image.height - 1 - y) * row);
}

void jitter(Image& image, double amount, Random& random) {
  void (*const steps[])(Image&, double) = {brightness, contrast, saturation};
  std::array<std::size_t, 3> order{0, 1, 2};
  shuffle(order, random);
  for (const std::size_t i : order) steps[i](image, random.uniform(std::max(0.0, 1 - amount), 1 + amount));
}

void grey(Image& image, double share, Random& random) {
  if (random.uniform() < share) saturation(image, 0);
}

// A box of 2 to 33% of the area becomes noise.
void erase(Image& image, double share, Random& random) {
  if (random.uniform() >= share) return;
  constexpr int tries = 10;
  for (int i = 0; i < tries; ++i) {
    const double area = static_cast<double>(image.height * image.width) * random.uniform(0.02, 0.33);
    const double ratio = std::exp(random.uniform(std::log(0.3), std::log(3.3)));
    const auto h = std::llround(std::sqrt(area * ratio)), w = std::llround(std::sqrt(area / ratio));
    if (h < 1 || w < 1 || h >= image.height || w >= image.width) continue;
    const std::int64_t top = random.below(image.height - h + 1), left = random.below(image.width - w + 1);
    for (std::int64_t y = top; y < top + h; ++y)
      for (std::int64_t k = left * image.channels; k < (left + w) * image.channels; ++k)
        image.pixels[static_cast<std::size_t>(y * image.width * image.channels + k)] = static_cast<std::uint8_t>(random.next() >> 24);
    return;
  }
}

void turn_hue(Image& image, double most, Random& random) {
  hue(image, random.uniform(-most, most));
}

// One of torchvision's operations: by how much at most in RandAugment, and in TrivialAugmentWide; what is signed goes either way.
struct Operation {
  const char* name;
  double most, widest;
  bool sign;
  void (*apply)(Image& image, double amount);
  std::int64_t Image::* unit = nullptr;  // what `most` is a share of; `widest` is in pixels
};
constexpr double all = 255, shift = 150.0 / 331;
constexpr Operation operations[] = {
    {"Identity", 0, 0, false, [](Image&, double) {}},
    {"ShearX", 0.3, 0.99, true, [](Image& i, double v) { transform(i, {1, v, 0, 0, 1, 0}, Between::nearest); }},
    {"ShearY", 0.3, 0.99, true, [](Image& i, double v) { transform(i, {1, 0, 0, v, 1, 0}, Between::nearest); }},
    {"TranslateX", shift, 32, true, [](Image& i, double v) { transform(i, {1, 0, -std::trunc(v), 0, 1, 0}, Between::nearest); }, &Image::width},
    {"TranslateY", shift, 32, true, [](Image& i, double v) { transform(i, {1, 0, 0, 0, 1, -std::trunc(v)}, Between::nearest); }, &Image::height},
    {"Rotate", 30, 135, true, [](Image& i, double v) { turn(i, v, Between::nearest); }},
    {"Brightness", 0.9, 0.99, true, [](Image& i, double v) { brightness(i, 1 + v); }},
    {"Color", 0.9, 0.99, true, [](Image& i, double v) { saturation(i, 1 + v); }},
    {"Contrast", 0.9, 0.99, true, [](Image& i, double v) { contrast(i, 1 + v); }},
    {"Sharpness", 0.9, 0.99, true, [](Image& i, double v) { sharpness(i, 1 + v); }},
    {"Posterize", 4, 6, false, [](Image& i, double v) { posterize(i, 8 - static_cast<int>(std::nearbyint(v))); }},
    {"Solarize", all, all, false, [](Image& i, double v) { solarize(i, all - v); }},
    {"AutoContrast", 0, 0, false, [](Image& i, double) { auto_contrast(i); }},
    {"Equalize", 0, 0, false, [](Image& i, double) { equalize(i); }},
};
constexpr double magnitudes = 30;  // the largest

const Operation& draw_operation(Random& random) { return operations[random.below(std::ssize(operations))]; }
void apply(const Operation& o, Image& image, double amount, Random& random) {
  o.apply(image, o.sign && random.below(2) == 1 ? -amount : amount);
}

void rand_augment(Image& image, double magnitude, Random& random) {
  const Operation& o = draw_operation(random);
  apply(o, image, o.most * (o.unit ? static_cast<double>(image.*o.unit) : 1) * magnitude / magnitudes, random);
}

void trivial_augment(Image& image, double, Random& random) {
  const Operation& o = draw_operation(random);
  apply(o, image, o.widest * static_cast<double>(random.below(31)) / magnitudes, random);
}

}  // namespace

void apply_operation(Image& image, std::string_view name, double amount) {
  for (const Operation& o : operations)
    if (o.name == name) return o.apply(image, amount);
  fail("no operation '", name, "'");
}

std::span<const AugmentationRow> augmentations() {
  static constexpr AugmentationRow rows[] = {
      {"vflip", 0.5, 0, 1, "turn over so large a share", turn_over},
      {"rotate", 15, 0, 180, "by up to so many degrees", rotate},
      {"hue", 0.1, 0, 0.5, "colours turned by up to this share of the circle", turn_hue},
      {"jitter", 0.4, 0, 1, "brightness, contrast and colour by up to this share", jitter},
      {"grey", 0.1, 0, 1, "no colours in so large a share", grey},
      {"erase", 0.25, 0, 1, "noise in a box of so large a share", erase},
      {"randaugment", 9, 0, 30, "two of 14 operations of this magnitude", rand_augment, 2},
      {"trivial", 1, 1, 1, "one of these operations of any magnitude", trivial_augment},
  };
  return rows;
}

}  // namespace tandem
