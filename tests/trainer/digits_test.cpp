// The rendered digits: the same for a seed, balanced, and too hard for a linear model.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/dataset.h"
#include "data/stream.h"
#include "trainer/feed/loader.h"

namespace tandem {
namespace {

constexpr std::size_t pixels = 28 * 28, classes = 10;

struct Digits {
  std::vector<std::uint8_t> images, labels;
  explicit Digits(const Dataset& data)
      : images(static_cast<std::size_t>(data.size()) * pixels), labels(static_cast<std::size_t>(data.size())) {
    const std::vector<std::int64_t> all = BatchOrder{.samples = data.size()}.epoch(0);
    data.read(0, all, reinterpret_cast<std::byte*>(images.data()));
    data.read(1, all, reinterpret_cast<std::byte*>(labels.data()));
  }
};

TEST(Digits, DependOnTheSeedOnly) {
  const Splits a = open_data("synthetic:digits,train=50,test=20"), b = open_data("synthetic:digits,train=30,test=20");
  const Splits c = open_data("synthetic:digits,train=50,test=20,seed=2");
  const Digits da(*a.train), db(*b.train), dc(*c.train), test(*a.test);
  EXPECT_TRUE(std::equal(db.images.begin(), db.images.end(), da.images.begin()));
  EXPECT_NE(da.images, dc.images);
  EXPECT_FALSE(std::equal(test.images.begin(), test.images.end(), da.images.begin()));
  EXPECT_EQ(Digits(*b.test).images, test.images);
}

TEST(Digits, AreBalancedAndMostlyDark) {
  const Splits splits = open_data("synthetic:digits,train=2000,test=1");
  const Digits digits(*splits.train);
  std::vector<int> count(classes);
  for (const std::uint8_t label : digits.labels) ++count.at(label);
  for (const int n : count) EXPECT_NEAR(n, 200, 60);  // more than four deviations of a fair draw
  const double mean = std::accumulate(digits.images.begin(), digits.images.end(), 0.0) / static_cast<double>(digits.images.size()) / 255;
  EXPECT_GT(mean, 0.05);
  EXPECT_LT(mean, 0.25);
}

// Softmax regression by plain gradient descent with momentum, in float.
TEST(Digits, ALinearModelStaysUnder90Percent) {
  const Splits splits = open_data("synthetic:digits,train=6000,test=1000");
  const Digits train(*splits.train), test(*splits.test);
  std::vector<float> w(pixels * classes), m(w.size()), g(w.size());
  const auto scores = [&](const std::uint8_t* image, float* out) {
    std::fill_n(out, classes, 0.0f);
    for (std::size_t p = 0; p < pixels; ++p)
      if (const float v = static_cast<float>(image[p]) / 255; v != 0)
        for (std::size_t c = 0; c < classes; ++c) out[c] += v * w[p * classes + c];
  };
  const auto accuracy = [&](const Digits& digits) {
    double right = 0;
    for (std::size_t i = 0; i < digits.labels.size(); ++i) {
      float s[classes];
      scores(&digits.images[i * pixels], s);
      right += std::max_element(s, s + classes) - s == digits.labels[i];
    }
    return right / static_cast<double>(digits.labels.size());
  };
  constexpr std::int64_t batch = 100;
  for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
    const std::vector<std::int64_t> order = BatchOrder{.samples = 6000, .batch = batch, .shuffle = true}.epoch(epoch);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto n = static_cast<std::size_t>(order[i]);
      float s[classes], sum = 0;
      scores(&train.images[n * pixels], s);
      const float largest = *std::max_element(s, s + classes);
      for (float& v : s) sum += v = std::exp(v - largest);
      for (std::size_t c = 0; c < classes; ++c) s[c] = s[c] / sum - (c == train.labels[n] ? 1.0f : 0.0f);
      for (std::size_t p = 0; p < pixels; ++p)
        for (std::size_t c = 0; c < classes; ++c)
          g[p * classes + c] += static_cast<float>(train.images[n * pixels + p]) / 255 * s[c] / batch;
      if ((i + 1) % batch != 0) continue;
      for (std::size_t k = 0; k < w.size(); ++k) {
        m[k] = 0.9f * m[k] + g[k];
        w[k] -= 0.05f * m[k];
        g[k] = 0;
      }
    }
  }
  EXPECT_GT(accuracy(train), 0.6);  // it does learn
  EXPECT_LT(accuracy(train), 0.9);
  EXPECT_LT(accuracy(test), 0.9);
  EXPECT_GT(accuracy(test), 0.5);
}

}  // namespace
}  // namespace tandem
