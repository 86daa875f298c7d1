#include "trainer/data/prepare.h"

#include <algorithm>
#include <cmath>

#include "trainer/spec.h"

namespace tandem {
namespace {

constexpr std::int64_t most_side = 16384;

}  // namespace

Resizing parse_resizing(std::string_view text) {
  if (text == "crop") return {};
  if (text == "stretch") return {.stretch = true};
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    fail(ExitCode::usage, "resize '", text, "': expected crop, stretch or the pixels of the shorter side");
  const std::int64_t side = parse_integer(text, "resize");
  if (side < 1 || side > most_side) fail(ExitCode::usage, "resize: ", side, " pixels, expected 1 to ", most_side);
  return {.shorter = side};
}

std::string text_of(const Resizing& r) {
  return r.stretch ? "stretch" : r.shorter > 0 ? std::to_string(r.shorter) : "crop";
}

void fit_image(const Image& from, const Resizing& r, std::int64_t height, std::int64_t width, Image& to) {
  const Box whole{0, 0, from.height, from.width};
  if (r.stretch) return resize_image(from, whole, height, width, to);
  std::int64_t h = r.shorter, w = r.shorter;
  // The side that decides is exact, the other one rounded down.
  if (r.shorter == 0 ? from.height * width <= from.width * height : from.height <= from.width) {
    if (r.shorter == 0) h = height;
    w = static_cast<std::int64_t>(static_cast<double>(h) * static_cast<double>(from.width) / static_cast<double>(from.height));
  } else {
    if (r.shorter == 0) w = width;
    h = static_cast<std::int64_t>(static_cast<double>(w) * static_cast<double>(from.height) / static_cast<double>(from.width));
  }
  h = std::max(h, height);  // for a model larger than the shorter side that was asked for, and rounding
  w = std::max(w, width);
  resize_image(from, whole, h, w, centre_box(h, w, height, width), to);
}

Box random_box(std::int64_t height, std::int64_t width, Random& random) {
  constexpr double least_area = 0.08, least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
  constexpr int tries = 10;
  const double area = static_cast<double>(height) * static_cast<double>(width);
  for (int i = 0; i < tries; ++i) {
    const double part = area * random.uniform(least_area, 1), ratio = std::exp(random.uniform(std::log(least_ratio), std::log(most_ratio)));
    const auto w = std::llround(std::sqrt(part * ratio)), h = std::llround(std::sqrt(part / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const std::int64_t top = random.below(height - h + 1), left = random.below(width - w + 1);
    return {top, left, h, w};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t h = height, w = width;
  if (ratio < least_ratio) h = std::max<std::int64_t>(1, std::llround(static_cast<double>(w) / least_ratio));
  if (ratio > most_ratio) w = std::max<std::int64_t>(1, std::llround(static_cast<double>(h) * most_ratio));
  return centre_box(height, width, h, w);
}

void augment_image(Image& image, const std::vector<Augmentation>& recipe, Random& random) {
  for (const Augmentation& step : recipe)
    for (const AugmentationRow& row : augmentations())
      if (row.name == step.name) row.apply(image, step.amount, random);
}

}  // namespace tandem
