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

Taps taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(1.0, scale), support = stretch;
  Taps t;
  t.width = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  t.weights.resize(static_cast<std::size_t>(to) * t.width);
  std::vector<double> weights(t.width);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
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
  const std::int64_t c = from.channels;
  to.reshape(height, width, c);
  const auto row_of = [&](std::int64_t y) { return from.pixels.data() + ((box.top + y) * from.width + box.left) * c; };
  thread_local std::vector<std::uint8_t> middle;  // [box.height, width, c]
  thread_local std::vector<std::int32_t> sums;    // of one row of the output
  const std::int64_t row = width * c;
  const bool narrows = width != box.width, flattens = height != box.height;
  std::uint8_t* const rows = flattens ? (middle.resize(static_cast<std::size_t>(box.height * row)), middle.data()) : to.pixels.data();
  if (narrows) {
    const Taps taps = taps_of(box.width, width);
    for (std::int64_t y = 0; y < box.height; ++y)
      if (c == 1)
        across<1>(row_of(y), taps, rows + y * row);
      else
        across<3>(row_of(y), taps, rows + y * row);
  } else {
    for (std::int64_t y = 0; y < box.height; ++y) std::copy_n(row_of(y), row, rows + y * row);
  }
  if (!flattens) return;
  const Taps taps = taps_of(box.height, height);
  sums.resize(static_cast<std::size_t>(row));
  for (std::int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (precision - 1));
    std::int32_t* const sum = sums.data();
    for (std::int32_t k = 0; k < taps.count[static_cast<std::size_t>(y)]; ++k) {
      const std::uint8_t* const line = rows + (taps.first[static_cast<std::size_t>(y)] + k) * row;
      const std::int32_t w = taps.weights[static_cast<std::size_t>(y) * taps.width + static_cast<std::size_t>(k)];
      for (std::int64_t x = 0; x < row; ++x) sum[x] += line[x] * w;
    }
    std::uint8_t* const out = to.pixels.data() + y * row;
    for (std::int64_t x = 0; x < row; ++x) out[x] = clip(sum[x]);
  }
}

Box centre_box(std::int64_t height, std::int64_t width, std::int64_t box_height, std::int64_t box_width) {
  const auto half = [](std::int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0 ? 1 : 0); };  // Python's round(n / 2)
  return {half(height - box_height), half(width - box_width), box_height, box_width};
}

}  // namespace tandem
