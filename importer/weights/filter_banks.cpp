#include "importer/weights/filter_banks.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem {
namespace {

using Row = std::vector<double>;

constexpr std::int64_t least_filters = 4;
constexpr std::size_t least_samples = 16;  // of a filter that tells whether it is a sine
constexpr double exactly = 1e-5, nearly = 0.05, nothing = 1e-3;

// Of what a tensor of 16 bits holds.
double rounding_of(const Filters& bank) {
  return bank.tensor->dtype() == DType::float16 ? 0x1p-11 : bank.tensor->dtype() == DType::bfloat16 ? 0x1p-8 : 0;
}

Row row_of(const Filters& bank, std::int64_t filter) {
  if (rounding_of(bank) > 0) {
    Tensor one(TensorType{bank.tensor->dtype(), Shape{bank.samples}});
    const std::byte* const from = bank.tensor->bytes().data();
    std::byte* const to = one.write().data();
    for (std::int64_t i = 0; i < bank.samples; ++i)
      std::copy_n(from + 2 * (filter * bank.filter_stride + i * bank.sample_stride), 2, to + 2 * i);
    return one.to_doubles();
  }
  return visit_float(bank.tensor->dtype(), [&]<class T>() {
    const auto values = bank.tensor->values<T>();
    Row row(static_cast<std::size_t>(bank.samples));
    for (std::int64_t i = 0; i < bank.samples; ++i)
      row[static_cast<std::size_t>(i)] =
          static_cast<double>(values[static_cast<std::size_t>(filter * bank.filter_stride + i * bank.sample_stride)]);
    return row;
  });
}

double largest(const Row& row) {
  double most = 0;
  for (const double v : row) most = std::max(most, std::abs(v));
  return most;
}

double product(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Without zeros at its ends.
Row inner(const Row& row, double zero) {
  const auto filled = [&](double v) { return std::abs(v) > zero; };
  const auto first = std::find_if(row.begin(), row.end(), filled);
  return {first, std::find_if(row.rbegin(), std::make_reverse_iterator(first), filled).base()};
}

// How far v[i−n] + v[i+n] lies from all combinations of v[i] and v[i−j] + v[i+j], j < n, relative to the largest v. 0 for n sines.
double beside_recurrence(const Row& v, std::size_t n) {
  const std::size_t equations = v.size() - 2 * n;
  const auto sums = [&](std::size_t j) {
    Row s(equations);
    for (std::size_t i = 0; i < equations; ++i) s[i] = j ? v[i + n - j] + v[i + n + j] : v[i + n];
    return s;
  };
  std::vector<Row> basis;
  const auto take_out = [&](Row& s) {
    for (int again = 0; again < 2; ++again)
      for (const Row& b : basis) {
        const double part = product(s, b);
        for (std::size_t i = 0; i < s.size(); ++i) s[i] -= part * b[i];
      }
  };
  for (std::size_t j = 0; j < n; ++j) {
    Row s = sums(j);
    const double before = std::sqrt(product(s, s));
    take_out(s);
    const double length = std::sqrt(product(s, s));
    if (length <= 1e-9 * before) continue;
    for (double& x : s) x /= length;
    basis.push_back(std::move(s));
  }
  Row rest = sums(n);
  take_out(rest);
  return largest(rest) / largest(v);
}

std::size_t order_for(const Row& v) {
  return v.size() < 2 * least_samples ? 3 : 5;
}
bool alike(const Row& v) {
  return std::all_of(v.begin(), v.end(), [&](double x) { return x == v[0]; });
}

// The share of its samples that a filter's energy takes up: of a sine under a window a fifth to two thirds.
double spread(const Row& row) {
  double squares = 0, fourth = 0;
  for (const double v : row) squares += v * v, fourth += v * v * v * v;
  return squares * squares / fourth / static_cast<double>(row.size());
}

struct Triangle {
  std::ptrdiff_t first = 0, last = -1;  // that are not zero
  bool fits = true, lines = true;       // one piece, nothing below zero; two lines
};

Triangle triangle_of(const Row& row, double error) {
  Triangle t;
  const auto n = static_cast<std::ptrdiff_t>(row.size());
  const auto at = [&](std::ptrdiff_t i) { return row[static_cast<std::size_t>(i)]; };
  t.first = n;
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    t.fits = t.fits && at(i) >= -error;
    if (at(i) <= error) continue;
    t.first = std::min(t.first, i);
    t.last = i;
  }
  std::ptrdiff_t peak = t.first;
  for (std::ptrdiff_t i = t.first; i <= t.last; ++i) {
    t.fits = t.fits && at(i) > error;
    if (at(i) > at(peak)) peak = i;
  }
  const auto line = [&](std::ptrdiff_t from, std::ptrdiff_t to) {  // [from, to]
    for (std::ptrdiff_t i = from + 1; i < to; ++i)
      if (std::abs(at(i - 1) + at(i + 1) - 2 * at(i)) > 4 * error) return false;
    return true;
  };
  for (std::ptrdiff_t i = t.first + 1; i <= t.last; ++i)  // up, then down
    t.fits = t.fits && (i <= peak ? at(i) >= at(i - 1) - error : at(i) <= at(i - 1) + error);
  t.lines = t.last < t.first || (line(t.first, peak) && line(peak + 1, t.last)) || (line(t.first, peak - 1) && line(peak, t.last));
  return t;
}

bool is_triangles(const Filters& bank, double error) {
  std::size_t filled = 0, wide = 0;  // entries that are not 0; filters with three of them at least
  bool lines = true;
  std::ptrdiff_t before = -1, least = -1, last = -1;
  Row sums(static_cast<std::size_t>(bank.samples));
  for (std::int64_t r = 0; r < bank.filters; ++r) {
    const Row row = row_of(bank, r);
    const double most = largest(row);
    const Triangle t = triangle_of(row, error * most);
    if (!t.fits || (t.last >= t.first && t.first < before)) return false;
    lines = lines && t.lines;
    if (t.last < t.first) continue;
    before = t.first;
    filled += static_cast<std::size_t>(t.last - t.first + 1);
    wide += t.last - t.first >= 2;
    const std::ptrdiff_t peak = std::max_element(row.begin(), row.end()) - row.begin();
    if (least < 0) least = peak;
    last = peak;
    for (std::size_t i = 0; i < row.size(); ++i) sums[i] += row[i];
  }
  if (least < 0 || before <= least || 2 * filled > static_cast<std::size_t>(bank.filters) * sums.size()) return false;
  bool share = true;  // each sample's weights sum to 1
  for (std::ptrdiff_t i = least + 1; i < last; ++i) share = share && std::abs(sums[static_cast<std::size_t>(i)] - 1) <= 4 * error;
  return 4 * wide >= static_cast<std::size_t>(bank.filters) && (lines || (share && last > least + 4));
}

// One that is not zero, which says it of nearly all banks that are none; nothing where there is none of three.
Row sample_of(const Filters& bank) {
  for (const std::int64_t at : {bank.filters / 3, bank.filters / 2, 2 * bank.filters / 3})
    if (Row row = row_of(bank, at); largest(row) > 0) return row;
  return {};
}

}  // namespace

bool may_be_sines(const Filters& bank) {
  const Row one = sample_of(bank);
  return one.size() > 2 && beside_recurrence(one, 1) <= nearly;
}

Filters rows_of(const Tensor& tensor, std::int64_t rows) {
  const std::int64_t samples = tensor.elements() / std::max<std::int64_t>(1, rows);
  return {&tensor, rows, samples, samples, 1};
}

Filters columns_of(const Tensor& tensor, std::int64_t columns) {
  return {&tensor, columns, tensor.elements() / std::max<std::int64_t>(1, columns), 1, columns};
}

Bank windowed_sines(const Filters& filters) {
  if (filters.filters < least_filters || filters.samples < static_cast<std::int64_t>(least_samples)) return Bank::none;
  const Row one = inner(sample_of(filters), 0);
  if (one.empty()) return Bank::none;
  if (one.size() >= least_samples && !alike(one) && !(beside_recurrence(one, order_for(one)) <= nearly)) return Bank::none;
  Bank bank = Bank::exact;
  std::int64_t telling = 0;
  double most = 0;
  for (std::int64_t r = 0; r < filters.filters; ++r) most = std::max(most, largest(row_of(filters, r)));
  if (!std::isfinite(most)) return Bank::none;
  for (std::int64_t r = 0; r < filters.filters; ++r) {
    const Row whole = row_of(filters, r);
    if (largest(whole) <= nothing * most) continue;  // the sine of the highest frequency, of which only rounding is left
    const Row row = inner(whole, 1e-7 * most);
    if (row.size() < least_samples || alike(row)) continue;
    ++telling;
    const double off = beside_recurrence(row, order_for(row));
    if (off > nearly) return Bank::none;
    // Angles grow, and with them what float32 rounds off. A sinc layer's filters are nearly such sums, too, but most of each lies in few
    // samples.
    if (off > exactly + 2e-7 * static_cast<double>(row.size()) + 8 * rounding_of(filters) || spread(row) < 0.17) bank = Bank::near;
  }
  return 2 * telling >= filters.filters ? bank : Bank::none;
}

Bank triangles(const Filters& filters) {
  if (filters.filters < least_filters || filters.samples < 2 * least_filters) return Bank::none;
  const Row one = sample_of(filters);
  if (one.empty() || *std::min_element(one.begin(), one.end()) < -nearly * largest(one) || !is_triangles(filters, nearly))
    return Bank::none;
  return is_triangles(filters, exactly + 2 * rounding_of(filters)) ? Bank::exact : Bank::near;
}

bool orthogonal(const Filters& bank) {
  constexpr double right = 1e-4;
  constexpr std::int64_t most = 1024;
  if (bank.filters < 1 || bank.samples < 2 || bank.filters > bank.samples || bank.filters > most) return false;
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < bank.filters; ++r) {
    Row& row = rows.emplace_back(row_of(bank, r));
    const double length = std::sqrt(product(row, row));
    if (!(length > 0)) return false;
    for (double& v : row) v /= length;
  }
  for (std::size_t a = 0; a < rows.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (!(std::abs(product(rows[a], rows[b])) <= right)) return false;
  return true;
}

}  // namespace tandem
