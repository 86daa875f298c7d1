// GroupNormalizationTraining and its gradient against sums in double, on every instruction set.
#include <cmath>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Size {
  Shape x;
  std::int64_t groups;
};
const Size sizes[] = {{{3, 6, 5, 7}, 2}, {{2, 8, 81}, 8}, {{2, 4, 2100}, 1}, {{5, 12}, 3}, {{1, 3, 4, 4}, 3}, {{4, 2, 1}, 2}};

struct Expected {
  Values y, mean, inverse, dx, dscale, dbias;
};

Expected expected(const Size& size, const Values& x, const Values& scale, const Values& bias, const Values& dy) {
  const std::int64_t channels = size.x[1], each = channels / size.groups, plane = size.x.elements() / (size.x[0] * channels),
                     n = each * plane;
  Expected e{.y = Values(x.size()),
             .mean = {},
             .inverse = {},
             .dx = Values(x.size()),
             .dscale = Values(static_cast<std::size_t>(channels)),
             .dbias = Values(static_cast<std::size_t>(channels))};
  for (std::int64_t group = 0; group < size.x[0] * size.groups; ++group) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(group * n + i); };
    const auto channel = [&](std::int64_t i) { return static_cast<std::size_t>(group % size.groups * each + i / plane); };
    double mean = 0, variance = 0, plain = 0, along = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += x[at(i)] / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) variance += (x[at(i)] - mean) * (x[at(i)] - mean) / static_cast<double>(n);
    const double r = 1 / std::sqrt(variance + static_cast<double>(0.01F));
    for (std::int64_t i = 0; i < n; ++i) {
      const double normal = (x[at(i)] - mean) * r, g = dy[at(i)] * scale[channel(i)];
      e.y[at(i)] = normal * scale[channel(i)] + bias[channel(i)];
      plain += g / static_cast<double>(n);
      along += g * normal / static_cast<double>(n);
      e.dscale[channel(i)] += dy[at(i)] * normal;
      e.dbias[channel(i)] += dy[at(i)];
    }
    for (std::int64_t i = 0; i < n; ++i) e.dx[at(i)] = r * (dy[at(i)] * scale[channel(i)] - plain - (x[at(i)] - mean) * r * along);
    e.mean.push_back(mean);
    e.inverse.push_back(r);
  }
  return e;
}

void expect_close(const Values& got, const Values& wanted, double error, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double scale = 1;
  for (const double v : wanted) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - wanted[i]), error * scale) << what << ", element " << i << ": got " << got[i] << ", wanted " << wanted[i];
}

Values stored(Values v, DType dtype) {
  for (double& d : v)
    d = dtype == DType::bfloat16 ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(d))))
                                 : static_cast<double>(static_cast<float>(d));
  return v;
}

void check(const Size& size, DType dtype, bool scaled, int threads, const std::string& what) {
  const std::int64_t elements = size.x.elements(), channels = size.x[1];
  const DType wide = dtype == DType::bfloat16 ? DType::float32 : dtype;
  const double exact = 32 * epsilon_of(wide), error = dtype == DType::bfloat16 ? 0x1p-8 : exact, far = dtype == DType::bfloat16 ? 4 : 100;
  // Far from zero, where the difference of mean squares would lose what there is.
  Values x = random_values(elements, 1);
  if (dtype != DType::bfloat16)
    for (double& v : x) v += 30;
  x = stored(x, dtype);
  const Values dy = stored(random_values(elements, 2), dtype),
               some = static_cast<std::size_t>(channels) ? stored(random_values(channels, 3), wide) : Values{};
  const Values scale = scaled ? some : Values(some.size(), 1.0),
               bias = scaled ? stored(random_values(channels, 4), wide) : Values(some.size(), 0.0);
  const Expected e = expected(size, x, scale, bias, dy);
  const Operand like_x = plain(dtype, size.x), channel = plain(wide, {channels}), statistic = plain(wide, {size.x[0], size.groups});
  Case forward{
      "GroupNormalizationTraining", {{"groups", size.groups}, {"epsilon", 0.01F}}, {like_x}, {like_x, statistic, statistic}, threads};
  std::vector<Values> given{x};
  if (scaled) {
    forward.inputs.insert(forward.inputs.end(), {channel, channel});
    given.insert(given.end(), {scale, bias});
  }
  const std::vector<Values> got = run_values(forward, given);
  expect_close(got[0], e.y, error + far * exact, what + ", y");
  expect_close(got[1], e.mean, exact, what + ", mean");
  expect_close(got[2], e.inverse, far * exact, what + ", inverse deviation");

  Case backward{"GroupNormalizationBackward",
                {{"groups", size.groups}},
                {like_x, like_x, scaled ? channel : Operand{}, statistic, statistic},
                {like_x},
                threads};
  if (scaled) backward.outputs.insert(backward.outputs.end(), {channel, channel});
  const std::vector<Values> gradients{dy, x, scaled ? scale : Values{}, got[1], got[2]};
  const std::vector<Values> back = run_values(backward, gradients);
  expect_close(back[0], e.dx, error + far * exact, what + ", dx");
  if (scaled) {
    expect_close(back[1], e.dscale, far * exact, what + ", dscale");
    expect_close(back[2], e.dbias, far * exact, what + ", dbias");
  }
  EXPECT_EQ(run_values(backward, gradients), back) << what << ": a second run gives other bits";
}

TEST(NativeGroupNormalization, OfEveryTypeOnEveryInstructionSet) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      for (const Size& size : sizes)
        for (const bool scaled : {true, false})
          for (const int threads : {1, 3})
            check(size, dtype, scaled, threads, concat(isa, ' ', dtype, ' ', size.x, ", ", size.groups, " groups, threads ", threads));
  }
}

}  // namespace
}  // namespace tandem::native_tests
