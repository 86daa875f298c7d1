// Sources: Pillow's Blend.c, Convert.c (HSV), Filter.c, Geometry.c, ImageEnhance.py and ImageOps.py.
#include "data/operations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem {
namespace {

int grey_of(const std::uint8_t* p) {
  return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

// From one value through another, and beyond.
std::uint8_t between(int from, int to, float factor) {
  const float v = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return v <= 0 ? 0 : v >= 255 ? 255 : static_cast<std::uint8_t>(v);
}

// Every value through a table.
template <class Map>
void each_value(Image& image, Map&& map) {
  std::array<std::uint8_t, 256> table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = map(v);
  for (std::uint8_t& v : image.pixels) v = table[v];
}

// Each channel through a table that `make` has of how often it holds each value; an empty one changes nothing.
using Counts = std::array<std::int64_t, 256>;
template <class Make>
void each_channel(Image& image, Make&& make) {
  const auto step = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < step; ++c) {
    Counts counts{};
    for (std::size_t i = c; i < image.pixels.size(); i += step) ++counts[image.pixels[i]];
    std::array<std::uint8_t, 256> table;
    if (!make(counts, table)) continue;
    for (std::size_t i = c; i < image.pixels.size(); i += step) image.pixels[i] = table[image.pixels[i]];
  }
}

std::uint8_t clip(double v) {
  return static_cast<std::uint8_t>(std::clamp(v, 0.0, 255.0));
}

struct Hsv {
  std::uint8_t h, s, v;
};
Hsv hsv_of(const std::uint8_t* p) {
  const int r = p[0], g = p[1], b = p[2], top = std::max({r, g, b}), low = std::min({r, g, b});
  if (top == low) return {0, 0, static_cast<std::uint8_t>(top)};
  const auto range = static_cast<float>(top - low);
  const float rc = static_cast<float>(top - r) / range, gc = static_cast<float>(top - g) / range, bc = static_cast<float>(top - b) / range;
  const float sixth = r == top ? bc - gc : g == top ? static_cast<float>(2.0 + rc - bc) : static_cast<float>(4.0 + gc - rc);
  const auto h = static_cast<float>(std::fmod(sixth / 6.0 + 1.0, 1.0));
  return {clip(std::trunc(h * 255.0)), clip(std::trunc(static_cast<float>(range / static_cast<float>(top)) * 255.0)),
          static_cast<std::uint8_t>(top)};
}
void set_rgb(std::uint8_t* p, const Hsv& c) {
  const auto v = static_cast<float>(c.v), s = static_cast<float>(c.s / 255.0), h = static_cast<float>(c.h * 6.0 / 255.0),
             part = h - std::floor(h);
  const std::uint8_t low = clip(std::round(v * (1.0 - s))), falls = clip(std::round(v * (1.0 - s * part))),
                     rises = clip(std::round(v * (1.0 - s * (1.0 - part))));
  const std::array<std::array<std::uint8_t, 3>, 6> sixths{
      {{c.v, rises, low}, {falls, c.v, low}, {low, c.v, rises}, {low, falls, c.v}, {rises, low, c.v}, {c.v, low, falls}}};
  std::copy_n(c.s == 0 ? std::array{c.v, c.v, c.v}.begin() : sixths[static_cast<std::size_t>(std::floor(h)) % 6].begin(), 3, p);
}

}  // namespace

void brightness(Image& image, double factor) {
  each_value(image, [&](int v) { return between(0, v, static_cast<float>(factor)); });
}

void contrast(Image& image, double factor) {
  double sum = 0;
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::uint8_t* p = image.pixels.data() + i * image.channels;
    sum += image.channels == 3 ? grey_of(p) : *p;
  }
  const int mean = static_cast<int>(sum / static_cast<double>(pixels) + 0.5);
  each_value(image, [&](int v) { return between(mean, v, static_cast<float>(factor)); });
}

void saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* p = image.pixels.data() + i;
    const int grey = grey_of(p);
    for (int c = 0; c < 3; ++c) p[c] = between(grey, p[c], static_cast<float>(factor));
  }
}

// The smoothed picture keeps its border.
void sharpness(Image& image, double factor) {
  const Image from = image;
  const auto row = static_cast<std::ptrdiff_t>(image.width * image.channels), step = static_cast<std::ptrdiff_t>(image.channels);
  constexpr float side = 1.0F / 13, middle = 5.0F / 13;
  for (std::int64_t y = 1; y + 1 < image.height; ++y)
    for (std::ptrdiff_t x = step; x < row - step; ++x) {
      const std::uint8_t* p = from.pixels.data() + y * row + x;
      float sum = 0.5F;
      for (const std::ptrdiff_t line : {row, std::ptrdiff_t{0}, -row})
        for (const std::ptrdiff_t at : {-step, std::ptrdiff_t{0}, step})
          sum += static_cast<float>(p[line + at]) * (line == 0 && at == 0 ? middle : side);
      image.pixels[static_cast<std::size_t>(y * row + x)] = between(static_cast<int>(clip(sum)), *p, static_cast<float>(factor));
    }
}

void hue(Image& image, double share) {
  if (image.channels != 3) return;
  const auto by = static_cast<std::uint8_t>(static_cast<int>(share * 255));
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    Hsv c = hsv_of(image.pixels.data() + i);
    c.h = static_cast<std::uint8_t>(c.h + by);
    set_rgb(image.pixels.data() + i, c);
  }
}

void posterize(Image& image, int bits) {
  const int drop = 8 - bits;
  each_value(image, [&](int v) { return static_cast<std::uint8_t>(v >> drop << drop); });
}

void solarize(Image& image, double threshold) {
  each_value(image, [&](int v) { return static_cast<std::uint8_t>(v < threshold ? v : 255 - v); });
}

void auto_contrast(Image& image) {
  each_channel(image, [](const Counts& counts, auto& table) {
    int low = 0, high = 255;
    while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) return false;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = clip(std::trunc(v * scale + offset));
    return true;
  });
}

void equalize(Image& image) {
  const std::int64_t pixels = image.height * image.width;
  each_channel(image, [&](const Counts& counts, auto& table) {
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t n) { return n > 0; });
    const std::int64_t step = last == counts.rend() ? 0 : (pixels - *last) / 255;
    if (step == 0) return false;
    std::int64_t below = step / 2;
    for (std::size_t v = 0; v < 256; below += counts[v++]) table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(255, below / step));
    return true;
  });
}

namespace {

// As Pillow does: in 16 bits behind the point.
void transform_nearest(const Image& from, const Affine& m, Image& to) {
  const auto fixed = [](double v) { return static_cast<std::int64_t>(std::floor(v * 65536.0 + 0.5)); };
  const std::int64_t along[2] = {fixed(m[0]), fixed(m[3])}, down[2] = {fixed(m[1]), fixed(m[4])};
  std::int64_t line[2] = {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), fixed(m[5] + m[3] * 0.5 + m[4] * 0.5)};
  std::uint8_t* out = to.pixels.data();
  for (std::int64_t y = 0; y < to.height; ++y, line[0] += down[0], line[1] += down[1])
    for (std::int64_t x = 0; x < to.width; ++x, out += to.channels) {
      const std::int64_t in_x = (line[0] + x * along[0]) >> 16, in_y = (line[1] + x * along[1]) >> 16;
      if (in_x >= 0 && in_y >= 0 && in_x < from.width && in_y < from.height)
        std::copy_n(from.pixels.data() + (in_y * from.width + in_x) * from.channels, from.channels, out);
      else
        std::fill_n(out, to.channels, std::uint8_t{0});
    }
}

void transform_linear(const Image& from, const Affine& m, Image& image) {
  const std::int64_t channels = image.channels;
  const auto pixel = [&](std::int64_t y, std::int64_t x) { return from.pixels.data() + (y * from.width + x) * channels; };
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x) {
      std::uint8_t* to = image.pixels.data() + (y * image.width + x) * channels;
      const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
      const double in_x = m[0] * px + m[1] * py + m[2], in_y = m[3] * px + m[4] * py + m[5];
      if (!(in_x >= 0 && in_y >= 0 && in_x < static_cast<double>(from.width) && in_y < static_cast<double>(from.height))) {
        std::fill_n(to, channels, std::uint8_t{0});
        continue;
      }
      const double left = std::floor(in_x - 0.5), top = std::floor(in_y - 0.5), right_share = in_x - 0.5 - left,
                   low_share = in_y - 0.5 - top;
      const auto inside = [](double at, std::int64_t size) { return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, size - 1); };
      const std::uint8_t *upper = pixel(inside(top, from.height), 0), *lower = pixel(inside(top + 1, from.height), 0);
      const std::int64_t first = inside(left, from.width) * channels, second = inside(left + 1, from.width) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto across = [&](const std::uint8_t* row) { return row[first + c] + (row[second + c] - row[first + c]) * right_share; };
        const double above = across(upper);
        to[c] = static_cast<std::uint8_t>(above + (across(lower) - above) * low_share);
      }
    }
}

}  // namespace

void transform(Image& image, const Affine& m, Between how) {
  const Image from = image;
  (how == Between::nearest ? transform_nearest : transform_linear)(from, m, image);
}

void turn(Image& image, double degrees, Between how) {
  const double angle = -degrees * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  const double x = static_cast<double>(image.width) / 2, y = static_cast<double>(image.height) / 2;
  transform(image, {c, s, x - c * x - s * y, -s, c, y + s * x - c * y}, how);
}

}  // namespace tandem
