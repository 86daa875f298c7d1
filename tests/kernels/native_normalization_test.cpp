// RowNormalization and its gradient against sums in double, with every operand there or not, on every instruction set.
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Form {
  const char* name;
  bool scale, bias, addend, rms;
};
const Form forms[] = {
    {"all", true, true, true, false},   {"no addend", true, true, false, false}, {"no bias", true, false, false, false},
    {"alone", false, false, false, false}, {"root mean square", true, false, true, true}, {"root mean square alone", false, false, false, true},
};

struct Size {
  Shape x;
  std::int64_t axis;
};
const Size sizes[] = {{{37, 192}, 1}, {{5, 3, 7}, 2}, {{4, 3, 5, 3}, 2}, {{2, 4099}, 1}, {{129, 70}, 1}, {{3, 1}, 1}, {{1, 16}, 1}};

struct Expected {
  Values y, mean, inverse, sum, dx, dscale, dbias;
};

// In double, of what the kernel reads.
Expected expected(const Form& f, std::size_t n, const Values& x, const Values& scale, const Values& bias, const Values& addend,
                  const Values& dy, const Values& dsum) {
  Expected e;
  e.dscale.assign(n, 0);
  e.dbias.assign(n, 0);
  for (std::size_t row = 0; row < x.size() / n; ++row) {
    Values s;
    for (std::size_t i = row * n; i < (row + 1) * n; ++i) s.push_back(x[i] + (f.addend ? addend[i] : 0));
    double mean = 0, variance = 0;
    for (const double v : s) mean += f.rms ? 0 : v / static_cast<double>(n);
    for (const double v : s) variance += (v - mean) * (v - mean) / static_cast<double>(n);
    const double r = 1 / std::sqrt(variance + static_cast<double>(0.01F));
    double plain = 0, along = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double normal = (s[i] - mean) * r, g = dy[row * n + i] * (f.scale ? scale[i] : 1);
      e.y.push_back(normal * (f.scale ? scale[i] : 1) + (f.bias ? bias[i] : 0));
      e.sum.push_back(s[i]);
      plain += g / static_cast<double>(n);
      along += g * normal / static_cast<double>(n);
      e.dscale[i] += dy[row * n + i] * normal;
      e.dbias[i] += dy[row * n + i];
    }
    for (std::size_t i = 0; i < n; ++i)
      e.dx.push_back(r * (dy[row * n + i] * (f.scale ? scale[i] : 1) - (f.rms ? 0 : plain) - (s[i] - mean) * r * along) +
                     (f.addend ? dsum[row * n + i] : 0));
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

Values rounded(Values v, DType dtype) {
  if (dtype == DType::bfloat16)
    for (double& d : v) d = static_cast<double>(to_float(to_bfloat16(static_cast<float>(d))));
  return v;
}

void check(const Form& f, const Size& size, DType dtype, int threads, const std::string& what) {
  const std::int64_t elements = size.x.elements();
  Shape row(Ints(size.x.begin() + size.axis, size.x.end())), rows = size.x;
  for (int i = static_cast<int>(size.axis); i < rows.rank(); ++i) rows[i] = 1;
  const DType wide = dtype == DType::bfloat16 ? DType::float32 : dtype;
  const double exact = 16 * epsilon_of(wide), error = dtype == DType::bfloat16 ? 0x1p-8 : exact;
  // Far from zero, where the difference of mean squares would lose all that there is.
  Values x = random_values(elements, 1), addend = rounded(random_values(elements, 2), dtype),
         dy = rounded(random_values(elements, 3), dtype), dsum = rounded(random_values(elements, 4), dtype);
  if (dtype != DType::bfloat16 && !f.rms)
    for (double& v : x) v = static_cast<double>(static_cast<float>(v + 100));
  x = rounded(x, dtype);
  const Values scale = random_values(row.elements(), 5), bias = random_values(row.elements(), 6);
  Attributes a{{"axis", size.axis}, {"epsilon", 0.01F}};
  if (f.rms) a.set("rms", std::int64_t{1});
  const Operand none, like_x = plain(dtype, size.x), like_row = plain(wide, row), statistic = plain(wide, rows);
  const auto with = [](bool there, const Operand& o) { return there ? o : Operand{}; };

  Case forward{"RowNormalization", a, {like_x, with(f.scale, like_row), with(f.bias, like_row)}, {like_x, statistic, statistic}, threads};
  std::vector<Values> given{x, f.scale ? scale : Values{}, f.bias ? bias : Values{}};
  if (f.addend) {
    forward.inputs.push_back(like_x);
    forward.outputs.push_back(like_x);
    given.push_back(addend);
  }
  const std::vector<Values> got = run_values(forward, given);
  const Values sum = f.addend ? got[3] : x;
  // The sum is rounded before it is normalized.
  Expected e = expected({f.name, f.scale, f.bias, false, f.rms}, static_cast<std::size_t>(row.elements()), sum, scale, bias, {}, dy, {});
  const double far = dtype == DType::bfloat16 || f.rms ? 1 : 100;  // of the mean's own size
  expect_close(got[0], e.y, error + far * exact, what + ", y");
  expect_close(got[1], e.mean, exact, what + ", mean");
  expect_close(got[2], e.inverse, far * exact, what + ", inverse deviation");
  for (std::size_t i = 0; f.addend && i < sum.size(); ++i)
    ASSERT_LE(std::abs(sum[i] - x[i] - addend[i]), error * std::abs(x[i] + addend[i]) + exact * 100) << what << ", sum";

  Case backward{"RowNormalizationBackward", a, {like_x, like_x, with(f.scale, like_row), statistic, statistic}, {like_x}, threads};
  std::vector<Values> gradients{dy, sum, f.scale ? scale : Values{}, got[1], got[2]};
  if (f.addend) {
    backward.inputs.push_back(like_x);
    gradients.push_back(dsum);
    for (std::size_t i = 0; i < e.dx.size(); ++i) e.dx[i] += dsum[i];
  }
  if (f.scale) backward.outputs.push_back(like_row);
  if (f.bias) backward.outputs.push_back(like_row);
  const std::vector<Values> back = run_values(backward, gradients);
  expect_close(back[0], e.dx, error + far * exact, what + ", dx");
  const double over_rows = exact * std::sqrt(static_cast<double>(elements / std::max<std::int64_t>(1, row.elements())));
  if (f.scale) expect_close(back[1], e.dscale, far * over_rows, what + ", dscale");
  if (f.bias) expect_close(back[2], e.dbias, over_rows, what + ", dbias");
  EXPECT_EQ(run_values(backward, gradients), back) << what << ": a second run gives other bits";
}

TEST(NativeNormalization, RowsOfEveryFormOnEveryInstructionSet) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
      for (const Form& f : forms)
        for (const Size& size : sizes)
          for (const int threads : {1, 3})
            check(f, size, dtype, threads, concat(isa, ' ', dtype, ' ', size.x, ", ", f.name, ", threads ", threads));
  }
}

// An addend, y and dy of bfloat16 beside float32: the same as with float32 numbers, rounded once.
TEST(NativeNormalization, RowsBesideFloat32) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const Size& size : sizes)
      for (const int threads : {1, 3}) {
        const Shape row(Ints(size.x.begin() + size.axis, size.x.end()));
        Shape rows = size.x;
        for (auto i = static_cast<int>(size.axis); i < rows.rank(); ++i) rows[i] = 1;
        const std::int64_t elements = size.x.elements();
        const Operand wide = plain(DType::float32, size.x), narrow = plain(DType::bfloat16, size.x),
                      statistic = plain(DType::float32, rows), like_row = plain(DType::float32, row);
        const auto in_16_bits = [&](int seed) { return rounded(random_values(elements, seed), DType::bfloat16); };
        const Values x = rounded(random_values(elements, 1), DType::float32), addend = in_16_bits(2), dy = in_16_bits(3),
                     dsum = rounded(random_values(elements, 4), DType::float32);
        const Values scale = rounded(random_values(row.elements(), 5), DType::float32),
                     bias = rounded(random_values(row.elements(), 6), DType::float32);
        const Attributes a{{"axis", size.axis}, {"epsilon", 0.01F}};
        for (const bool adds : {false, true}) {
          const auto forward = [&](const Operand& other, const Operand& y) {
            Case c{"RowNormalization", a, {wide, like_row, like_row}, {y, statistic, statistic}, threads};
            std::vector<Values> given{x, scale, bias};
            if (adds) {
              c.inputs.push_back(other);
              c.outputs.push_back(wide);
              given.push_back(addend);
            }
            return run_values(c, given);
          };
          const auto backward = [&](const Operand& of_dy, const std::vector<Values>& of) {
            Case c{"RowNormalizationBackward",
                   {{"axis", size.axis}},
                   {of_dy, wide, like_row, statistic, statistic},
                   {wide, like_row, like_row},
                   threads};
            std::vector<Values> given{dy, x, scale, of[1], of[2]};
            if (adds) {
              c.inputs.push_back(wide);
              given.push_back(dsum);
            }
            return run_values(c, given);
          };
          const std::vector<Values> wanted = forward(wide, wide);
          for (const Operand& y : {wide, narrow}) {
            if (!adds && y.dtype == DType::float32) continue;
            std::vector<Values> got = forward(narrow, y);
            EXPECT_EQ(got[0], rounded(wanted[0], y.dtype)) << to_string(size.x) << ' ' << isa;
            got[0] = wanted[0];
            EXPECT_EQ(got, wanted) << to_string(size.x) << ' ' << isa;
          }
          EXPECT_EQ(backward(narrow, wanted), backward(wide, wanted)) << to_string(size.x) << ' ' << isa;
        }
      }
  }
}

// What is summed in which order depends on how many threads a plan has, not on how many it is given.
TEST(NativeNormalization, GradientsMayTakeTheMemoryOfTheirOperands) {
  const Operand x = plain(DType::float32, {64, 96}), row = plain(DType::float32, {96}), statistic = plain(DType::float32, {64, 1});
  const Case c{"RowNormalizationBackward", {{"axis", std::int64_t{1}}}, {x, x, row, statistic, statistic, x}, {x, row, row}, 2};
  const std::vector<Values> given{random_values(64 * 96, 1), random_values(64 * 96, 2), random_values(96, 3),
                                  random_values(64, 4),      random_values(64, 5),      random_values(64 * 96, 6)};
  const KernelDescription d = described(c);
  const std::vector<Values> wanted = run_values(c, given);
  for (const auto& [output, input] : d.in_place) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < given.size(); ++i) buffers.emplace_back(d.inputs[i], given[i]);
    std::vector<int> shared(3, -1);
    shared[static_cast<std::size_t>(output)] = input;
    std::vector<Buffer> got = run(d, buffers, shared);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].values(), wanted[i]) << "output " << output << " in input " << input;
  }
}

}  // namespace
}  // namespace tandem::native_tests
