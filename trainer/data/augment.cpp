// What --augment may do to an image beside crop and flip. Sources: torchvision's transforms (ColorJitter, RandomErasing),
// Pillow's ImageEnhance and ImageOps, and Cubuk et al., "RandAugment", 2019.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "trainer/data/prepare.h"

namespace tandem {
namespace {

std::uint8_t byte(double v) {
  return static_cast<std::uint8_t>(std::clamp(v + 0.5, 0.0, 255.0));
}

int grey_of(const std::uint8_t* p) {
  return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

// Every value through a table.
template <class Map>
void each_value(Image& image, Map&& map) {
  std::array<std::uint8_t, 256> table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = map(v);
  for (std::uint8_t& v : image.pixels) v = table[v];
}

void brightness(Image& image, double factor) {
  each_value(image, [&](int v) { return byte(v * factor); });
}

void contrast(Image& image, double factor) {
  double sum = 0;
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::uint8_t* p = image.pixels.data() + i * image.channels;
    sum += image.channels == 3 ? grey_of(p) : *p;
  }
  const double mean = std::floor(sum / static_cast<double>(pixels) + 0.5);
  each_value(image, [&](int v) { return byte(mean + (v - mean) * factor); });
}

void saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* p = image.pixels.data() + i;
    const double grey = grey_of(p);
    for (int c = 0; c < 3; ++c) p[c] = byte(grey + (p[c] - grey) * factor);
  }
}

// out(x, y) is in(a x + b y + c, d x + e y + f) about the middle, between pixels linear, black outside.
void move(Image& image, double a, double b, double c, double d, double e, double f) {
  const Image from = image;
  const double middle_x = static_cast<double>(image.width - 1) / 2, middle_y = static_cast<double>(image.height - 1) / 2;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      const double dx = static_cast<double>(x) - middle_x, dy = static_cast<double>(y) - middle_y;
      const double sx = a * dx + b * dy + c + middle_x, sy = d * dx + e * dy + f + middle_y;
      const double left = std::floor(sx), top = std::floor(sy), right_share = sx - left, low_share = sy - top;
      for (std::int64_t k = 0; k < image.channels; ++k) {
        const auto at = [&](double py, double px) -> double {
          if (!(py >= 0 && px >= 0 && py < static_cast<double>(image.height) && px < static_cast<double>(image.width))) return 0;
          return from.pixels[static_cast<std::size_t>((static_cast<std::int64_t>(py) * image.width + static_cast<std::int64_t>(px)) * image.channels + k)];
        };
        const double upper = at(top, left) * (1 - right_share) + at(top, left + 1) * right_share;
        const double lower = at(top + 1, left) * (1 - right_share) + at(top + 1, left + 1) * right_share;
        image.pixels[static_cast<std::size_t>((y * image.width + x) * image.channels + k)] = byte(upper * (1 - low_share) + lower * low_share);
      }
    }
}

void turn(Image& image, double degrees) {
  const double angle = degrees * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  move(image, c, s, 0, -s, c, 0);
}

void rotate(Image& image, double most, Random& random) {
  turn(image, random.uniform(-most, most));
}

void turn_over(Image& image, double share, Random& random) {
  if (random.uniform() >= share) return;
  const auto row = static_cast<std::ptrdiff_t>(image.width * image.channels);
  for (std::int64_t y = 0; y < image.height / 2; ++y)
    std::swap_ranges(image.pixels.begin() + y * row, image.pixels.begin() + (y + 1) * row, image.pixels.begin() + (image.height - 1 - y) * row);
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

void auto_contrast(Image& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    int low = 255, high = 0;
    for (std::size_t i = static_cast<std::size_t>(c); i < image.pixels.size(); i += static_cast<std::size_t>(image.channels)) {
      low = std::min<int>(low, image.pixels[i]);
      high = std::max<int>(high, image.pixels[i]);
    }
    if (high <= low) continue;
    for (std::size_t i = static_cast<std::size_t>(c); i < image.pixels.size(); i += static_cast<std::size_t>(image.channels))
      image.pixels[i] = static_cast<std::uint8_t>((image.pixels[i] - low) * 255 / (high - low));
  }
}

// Every channel's values spread evenly, by Pillow's rule.
void equalize(Image& image) {
  for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
    std::array<std::int64_t, 256> count{};
    for (std::size_t i = c; i < image.pixels.size(); i += static_cast<std::size_t>(image.channels)) ++count[image.pixels[i]];
    const auto last = std::find_if(count.rbegin(), count.rend(), [](std::int64_t n) { return n > 0; });
    const std::int64_t step = (image.height * image.width - *last) / 255;
    if (step == 0) continue;
    std::array<std::uint8_t, 256> table;
    std::int64_t below = step / 2;
    for (std::size_t v = 0; v < 256; below += count[v++]) table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(255, below / step));
    for (std::size_t i = c; i < image.pixels.size(); i += static_cast<std::size_t>(image.channels)) image.pixels[i] = table[image.pixels[i]];
  }
}

// Two operations of the paper's but sharpness, drawn with replacement; `magnitude` is of 30 steps as torchvision counts them, signs are drawn.
void rand_augment(Image& image, double magnitude, Random& random) {
  constexpr int operations = 2;
  const double m = magnitude / 30;
  for (int i = 0; i < operations; ++i) {
    const std::int64_t kind = random.below(13);
    const double sign = random.below(2) == 1 ? 1 : -1;
    switch (kind) {
      case 0: break;  // as it is
      case 1: move(image, 1, sign * 0.3 * m, 0, 0, 1, 0); break;
      case 2: move(image, 1, 0, 0, sign * 0.3 * m, 1, 0); break;
      case 3: move(image, 1, 0, sign * 150.0 / 331 * m * static_cast<double>(image.width), 0, 1, 0); break;
      case 4: move(image, 1, 0, 0, 0, 1, sign * 150.0 / 331 * m * static_cast<double>(image.height)); break;
      case 5: turn(image, sign * 30 * m); break;
      case 6: brightness(image, 1 + sign * 0.9 * m); break;
      case 7: saturation(image, 1 + sign * 0.9 * m); break;
      case 8: contrast(image, 1 + sign * 0.9 * m); break;
      case 9: {  // fewer bits
        const int drop = static_cast<int>(std::lround(4 * m));
        each_value(image, [&](int v) { return static_cast<std::uint8_t>(v >> drop << drop); });
        break;
      }
      case 10: {
        const int above = static_cast<int>(255 - 255 * m);
        each_value(image, [&](int v) { return static_cast<std::uint8_t>(v >= above ? 255 - v : v); });
        break;
      }
      case 11: auto_contrast(image); break;
      default: equalize(image); break;
    }
  }
}

}  // namespace

std::span<const AugmentationRow> augmentations() {
  static constexpr AugmentationRow rows[] = {
      {"vflip", 0.5, 0, 1, "turn over so large a share", turn_over},
      {"rotate", 15, 0, 180, "by up to so many degrees", rotate},
      {"jitter", 0.4, 0, 1, "brightness, contrast and colour by up to this share", jitter},
      {"grey", 0.1, 0, 1, "no colours in so large a share", grey},
      {"erase", 0.25, 0, 1, "noise in a box of so large a share", erase},
      {"randaugment", 9, 0, 30, "two of 13 operations of this magnitude", rand_augment},
  };
  return rows;
}

}  // namespace tandem
