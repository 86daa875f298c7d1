#include "data/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem {
namespace {

// Box and Muller's.
double normal(Random& random) {
  const double length = std::sqrt(-2 * std::log1p(-random.uniform()));
  return length * std::cos(2 * std::numbers::pi * random.uniform());
}

// The logarithm of a number from Gamma(alpha, 1), which for small alpha is beyond any float. Source: Marsaglia and Tsang, "A
// simple method for generating gamma variables", 2000; below 1 by one of alpha + 1.
double log_gamma_variate(double alpha, Random& random) {
  if (alpha < 1) {
    const double larger = log_gamma_variate(alpha + 1, random);
    return larger + std::log1p(-random.uniform()) / alpha;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log1p(-random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d) + std::log(v);
  }
}

}  // namespace

double draw_beta(double alpha, Random& random) {
  const double a = log_gamma_variate(alpha, random), b = log_gamma_variate(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

Mix draw_mix(double mixup_alpha, double cutmix_alpha, Random& random) {
  Mix m;
  m.cut = cutmix_alpha > 0 && (mixup_alpha <= 0 || random.below(2) == 1);
  m.lambda = draw_beta(m.cut ? cutmix_alpha : mixup_alpha, random);
  m.across = random.uniform();
  m.down = random.uniform();
  return m;
}

Box Mix::box(std::int64_t height, std::int64_t width) const {
  const double r = 0.5 * std::sqrt(1 - lambda);
  const auto middle = [](double at, std::int64_t size) { return static_cast<std::int64_t>(at * static_cast<double>(size)); };
  const auto half = [&](std::int64_t size) { return static_cast<std::int64_t>(r * static_cast<double>(size)); };
  const std::int64_t x = middle(across, width), y = middle(down, height);
  const std::int64_t left = std::max<std::int64_t>(0, x - half(width)), top = std::max<std::int64_t>(0, y - half(height));
  return {top, left, std::min(height, y + half(height)) - top, std::min(width, x + half(width)) - left};
}

double Mix::share(std::int64_t height, std::int64_t width) const {
  if (!cut) return lambda;
  const Box b = box(height, width);
  return 1.0 - static_cast<double>(b.height * b.width) / static_cast<double>(height * width);
}

}  // namespace tandem
