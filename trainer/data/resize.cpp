// Source: Pillow's Resample.c: coefficients in 22 bits, a horizontal pass into 8 bits, then a vertical one.
#include <algorithm>
#include <cmath>

#include "trainer/data/image.h"

namespace tandem {
namespace {

constexpr int precision = 32 - 8 - 2;

// What each output takes: weights[i · width ...] of inputs first[i] ... first[i] + count[i] - 1.
struct Taps {
  std::vector<std::int32_t> first, count, weights;
  std::size_t width = 0;
};

// Of outputs begin ... begin + wanted - 1 of `to`.
Taps taps_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t wanted) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(1.0, scale), support = stretch;
  Taps t;
  t.width = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  t.weights.resize(static_cast<std::size_t>(wanted) * t.width);
  std::vector<double> weights(t.width);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const double centre = (static_cast<double>(begin + i) + 0.5) * scale;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto high = std::min(from, static_cast<std::int64_t>(centre + support + 0.5));
    double sum = 0;
    for (std::int64_t x = low; x < high; ++x) {
      const double w = std::max(0.0, 1 - std::abs((static_cast<double>(x) - centre + 0.5) * (1 / stretch)));
      weights[static_cast<std::size_t>(x - low)] = w;
      sum += w;
    }
    for (std::int64_t x = 0; x < high - low; ++x) {
      const double w = weights[static_cast<std::size_t>(x)] / (sum != 0 ? sum : 1);
      t.weights[static_cast<std::size_t>(i) * t.width + static_cast<std::size_t>(x)] = static_cast<std::int32_t>(0.5 + w * (1 << precision));
    }
    t.first.push_back(static_cast<std::int32_t>(low));
    t.count.push_back(static_cast<std::int32_t>(high - low));
  }
  return t;
}

std::uint8_t clip(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

template <int channels>
void across(const std::uint8_t* from, const Taps& taps, std::uint8_t* to) {
  for (std::size_t i = 0; i < taps.first.size(); ++i, to += channels) {
    const std::uint8_t* p = from + static_cast<std::ptrdiff_t>(taps.first[i]) * channels;
    const std::int32_t* w = taps.weights.data() + i * taps.width;
    std::int32_t sum[channels];
    std::fill_n(sum, channels, 1 << (precision - 1));
    for (std::int32_t k = 0; k < taps.count[i]; ++k, p += channels)
      for (int c = 0; c < channels; ++c) sum[c] += p[c] * w[k];
    for (int c = 0; c < channels; ++c) to[c] = clip(sum[c]);
  }
}

}  // namespace

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, Image& to) {
  resize_image(from, box, height, width, {0, 0, height, width}, to);
}

void resize_image(const Image& from, const Box& box, std::int64_t height, std::int64_t width, const Box& window, Image& to) {
  const std::int64_t c = from.channels, row = window.width * c;
  to.reshape(window.height, window.width, c);
  const bool across_too = width != box.width, down_too = height != box.height;
  const Taps down = down_too ? taps_of(box.height, height, window.top, window.height) : Taps{};
  const std::int64_t first = down_too ? down.first.front() : window.top;
  const std::int64_t lines = down_too ? down.first.back() + down.count.back() - first : window.height;  // that are needed
  thread_local std::vector<std::uint8_t> middle;  // [lines, row]
  thread_local std::vector<std::int32_t> sums;    // of one row of the output
  if (down_too) middle.resize(static_cast<std::size_t>(lines * row));
  std::uint8_t* const rows = down_too ? middle.data() : to.pixels.data();
  const Taps taps = across_too ? taps_of(box.width, width, window.left, window.width) : Taps{};
  for (std::int64_t y = 0; y < lines; ++y) {
    const std::uint8_t* const line = from.pixels.data() + ((box.top + first + y) * from.width + box.left) * c;
    if (!across_too)
      std::copy_n(line + window.left * c, row, rows + y * row);
    else if (c == 1)
      across<1>(line, taps, rows + y * row);
    else
      across<3>(line, taps, rows + y * row);
  }
  if (!down_too) return;
  sums.resize(static_cast<std::size_t>(row));
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (precision - 1));
    std::int32_t* const sum = sums.data();
    for (std::int32_t k = 0; k < down.count[y]; ++k) {
      const std::uint8_t* const line = rows + (down.first[y] - first + k) * row;
      const std::int32_t w = down.weights[y * down.width + static_cast<std::size_t>(k)];
      for (std::int64_t x = 0; x < row; ++x) sum[x] += line[x] * w;
    }
    std::uint8_t* const out = to.pixels.data() + static_cast<std::int64_t>(y) * row;
    for (std::int64_t x = 0; x < row; ++x) out[x] = clip(sum[x]);
  }
}

Box centre_box(std::int64_t height, std::int64_t width, std::int64_t box_height, std::int64_t box_width) {
  const auto half = [](std::int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); };  // Python's round(n / 2)
  return {half(height - box_height), half(width - box_width), box_height, box_width};
}

}  // namespace tandem
