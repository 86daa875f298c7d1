// How many samples of a batch each device gets.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/options.h"

namespace tandem {

std::vector<std::int64_t> slice_sizes(std::int64_t batch, std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) {
    if (!(w >= 0) || std::isinf(w)) fail(ExitCode::usage, "slice weights must be finite and not negative, got ", w);
    total += w;
  }
  if (!(total > 0)) fail(ExitCode::usage, "slice weights must not all be zero");
  if (std::isinf(total)) fail(ExitCode::usage, "slice weights are too large: their sum is infinite");
  if (batch < 0) fail(ExitCode::usage, "batch size must not be negative, got ", batch);
  std::vector<std::int64_t> sizes(weights.size());
  std::vector<double> rest(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(batch) * weights[i] / total;
    sizes[i] = static_cast<std::int64_t>(std::floor(exact + 1e-9));  // 1e-9: 3 × (1/3) is 1
    rest[i] = exact - static_cast<double>(sizes[i]);
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rest[a] > rest[b] + 1e-9; });
  const std::int64_t missing = batch - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < missing; ++i) ++sizes[order[static_cast<std::size_t>(i)]];
  return sizes;
}

}  // namespace tandem
