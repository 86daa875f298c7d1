// Det and its gradient against Leibniz's formula, of matrices with an inverse and without.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

// Over the rows and columns that are left in.
double determinant(const Values& x, std::int64_t n, std::int64_t without_row = -1, std::int64_t without_column = -1) {
  std::vector<std::int64_t> rows, columns;
  for (std::int64_t i = 0; i < n; ++i) {
    if (i != without_row) rows.push_back(i);
    if (i != without_column) columns.push_back(i);
  }
  double sum = 0;
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), 0U);
  do {
    double term = 1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      term *= x[static_cast<std::size_t>(rows[i] * n + columns[order[i]])];
      for (std::size_t j = 0; j < i; ++j)
        if (order[j] > order[i]) term = -term;
    }
    sum += term;
  } while (std::next_permutation(order.begin(), order.end()));
  return sum;
}

struct Row {
  const char* name;
  std::int64_t n;
  int dependent;  // rows that are sums of others
};
const Row rows[] = {{"one number", 1, 0},         {"two", 2, 0},           {"five", 5, 0},  {"six", 6, 0},
                    {"without an inverse", 5, 1}, {"of rank n - 2", 5, 2}, {"zeros", 3, 3}, {"a zero", 1, 1}};

// Of a matrix without an inverse some are 0 but for what sums lose.
void expect_close(const Values& got, const Values& wanted, double error, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double scale = 1;
  for (const double v : wanted) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - wanted[i]), error * scale) << what << ", element " << i << ": got " << got[i] << ", wanted " << wanted[i];
}

TEST(NativeDet, IsLeibnizsWithItsGradient) {
  for (const Row& row : rows)
    for (const DType dtype : {DType::float32, DType::float64}) {
      const std::int64_t n = row.n, count = 3;
      Values x;
      for (const double v : random_values(count * n * n, 11, -2, 2)) x.push_back(std::round(4 * v) / 4);  // so that the formula is exact
      for (std::int64_t m = 0; m < count; ++m)
        for (std::int64_t r = n - row.dependent; r < n; ++r)
          // exact
          for (std::int64_t c = 0; c < n; ++c)
            x[static_cast<std::size_t>((m * n + r) * n + c)] =
                row.dependent == n ? 0 : x[static_cast<std::size_t>(m * n * n + c)] * static_cast<double>(1 << r);
      const Values dy{1.5, -2, 0.25};
      Values y, dx;
      for (std::int64_t m = 0; m < count; ++m) {
        const Values one(x.begin() + m * n * n, x.begin() + (m + 1) * n * n);
        y.push_back(determinant(one, n));
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = 0; c < n; ++c)
            dx.push_back(dy[static_cast<std::size_t>(m)] * ((r + c) % 2 ? -1 : 1) * determinant(one, n, r, c));
      }
      const Operand matrices = plain(dtype, {count, n, n}), numbers = plain(dtype, {count});
      const double error = 400 * epsilon_of(dtype);
      for (const int threads : {1, 2}) {
        expect_close(run_values({"Det", {}, {matrices}, {numbers}, threads}, {x})[0], y, error, row.name);
        expect_close(run_values({"DetBackward", {}, {matrices, numbers}, {matrices}, threads}, {x, dy})[0], dx, error, row.name);
      }
    }
}

}  // namespace
}  // namespace tandem::native_tests
