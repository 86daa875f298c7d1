#include "data/prepare.h"

#include <algorithm>
#include <cmath>

#include "base/spec.h"

namespace tandem {
namespace {

constexpr std::int64_t most_side = 16384;

}  // namespace

Resizing parse_resizing(std::string_view text) {
  Resizing r;
  std::string_view how = text;
  if (const std::size_t comma = text.find(','); comma != std::string_view::npos) {
    const std::string_view filter = text.substr(comma + 1);
    how = text.substr(0, comma);
    if (filter != "bicubic" && filter != "bilinear")
      fail(ExitCode::usage, "resize '", text, "': expected bilinear or bicubic behind the comma");
    if (filter == "bicubic") r.filter = Filter::bicubic;
  }
  if (how == "crop") return r;
  r.stretch = how == "stretch";
  if (r.stretch) return r;
  if (how.empty() || how.find_first_not_of("0123456789") != std::string_view::npos)
    fail(ExitCode::usage, "resize '", text, "': expected crop, stretch or the pixels of the shorter side, and bicubic behind a comma");
  r.shorter = parse_integer(std::string(how), "resize");
  if (r.shorter < 1 || r.shorter > most_side) fail(ExitCode::usage, "resize: ", r.shorter, " pixels, expected 1 to ", most_side);
  return r;
}

std::string text_of(const Resizing& r) {
  const std::string how = r.stretch ? "stretch" : r.shorter > 0 ? std::to_string(r.shorter) : "crop";
  return r.filter == Filter::bicubic ? how + ",bicubic" : how;
}

void fit_image(const Image& from, const Resizing& r, std::int64_t height, std::int64_t width, Image& to) {
  const Box whole{0, 0, from.height, from.width};
  if (r.stretch) return resize_image(from, whole, height, width, to, r.filter);
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
  resize_image(from, whole, h, w, centre_box(h, w, height, width), to, r.filter);
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
      for (std::int64_t i = 0; i < step.times && row.name == step.name; ++i) row.apply(image, step.amount, random);
}

}  // namespace tandem
