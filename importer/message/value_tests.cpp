#include "importer/message/value_tests.h"

#include <algorithm>
#include <cmath>

#include "importer/message/tensor_data.h"

namespace tandem {
namespace {

constexpr double masked = -1e4;
constexpr std::int64_t least_of_two_values = 5, least_rows = 5, least_columns_of_fewer = 8;

// Whether one column follows the recurrence; `changes` tells those that hold more than one value.
template <class At>
bool follows(std::int64_t rows, At&& at, double rounding, bool& changes) {
  double products = 0, squares = 0, largest = 0;
  for (std::int64_t i = 1; i + 1 < rows; ++i) {
    products += at(i) * (at(i + 1) + at(i - 1));
    squares += at(i) * at(i);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    largest = std::max(largest, std::abs(at(i)));
    changes = changes || at(i) != at(0);
  }
  // angles grow, and with them what float32 rounds off
  const double k = squares > 0 ? products / squares : 0, error = (1e-5 + 2e-7 * static_cast<double>(rows) + 4 * rounding) * largest;
  for (std::int64_t i = 1; i + 1 < rows; ++i)
    if (std::abs(at(i + 1) + at(i - 1) - k * at(i)) > error) return false;
  return true;
}

}  // namespace

bool all_alike(const Tensor& tensor) {
  if (!tensor.in_memory()) {  // a look at the first values may spare reading all others
    Tensor first(TensorType{tensor.dtype(), Shape{std::min<std::int64_t>(tensor.elements(), 1024)}});
    tensor.read(first.write(), 0);
    if (!all_alike(first)) return false;
  }
  if (is_half(tensor.dtype())) return all_alike(tensor.cast(DType::float32));
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    return std::all_of(values.begin(), values.end(), [&](T v) { return v == values[0]; });
  });
}

bool all_finite(const Tensor& tensor) {
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    return std::all_of(values.begin(), values.end(), [](T v) { return std::isfinite(static_cast<double>(v)); });
  });
}

bool is_mask(const Tensor& tensor) {
  return visit_float(tensor.dtype(), [&]<class T>() {
    bool hides = false, of_one = true, of_two = true, zero = false;
    double other = 0;
    for (const T value : tensor.values<T>()) {
      const auto v = static_cast<double>(value);
      hides = hides || v <= masked;
      of_one = of_one && (v <= masked || v == 0 || v == 1);
      zero = zero || v == 0;
      if (v != 0 && other == 0) other = v;
      of_two = of_two && (v == 0 || v == other);
      if (!of_one && !of_two) return false;
    }
    return (hides && of_one) || (of_two && zero && other != 0 && tensor.elements() >= least_of_two_values);
  });
}

bool is_grid(const Tensor& tensor) {
  constexpr std::int64_t least_of_whole_numbers = 4;
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    const bool whole =
        std::all_of(values.begin(), values.end(), [](T v) { return std::nearbyint(static_cast<double>(v)) == static_cast<double>(v); });
    return whole && tensor.elements() >= least_of_whole_numbers && !all_alike(tensor);
  });
}

bool is_lattice(const Tensor& tensor) {
  constexpr std::size_t least_steps = 4;
  std::int64_t columns = 1;
  for (const std::int64_t d : tensor.shape())
    if (d > 1) columns = d;
  if (columns >= tensor.elements()) return false;
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    bool lattice = false;
    for (std::int64_t c = 0; c < columns; ++c) {
      std::vector<double> steps;
      for (std::size_t i = static_cast<std::size_t>(c); i < values.size(); i += static_cast<std::size_t>(columns))
        steps.push_back(static_cast<double>(values[i]));
      const std::size_t rows = steps.size();
      std::sort(steps.begin(), steps.end());
      const double range = steps.back() - steps.front(), error = 1e-6 * std::max(std::abs(steps.back()), std::abs(steps.front()));
      steps.erase(std::unique(steps.begin(), steps.end(), [&](double a, double b) { return b - a <= error; }), steps.end());
      if (steps.size() == 1) continue;
      const double step = range / static_cast<double>(steps.size() - 1);
      for (std::size_t i = 1; i < steps.size(); ++i)
        if (std::abs(steps[i] - steps[i - 1] - step) > 4 * error) return false;
      if (steps.size() < least_steps || 2 * steps.size() > rows) return false;
      lattice = true;
    }
    return lattice;
  });
}

bool is_table(const Tensor& tensor, double rounding) {
  Shape shape;
  for (const std::int64_t d : tensor.shape())
    if (d != 1) shape.dims.push_back(d);
  if (shape.rank() < 1) return false;
  const int matrix = std::max(0, shape.rank() - 2);  // where its two axes begin
  const std::int64_t rows = shape[matrix], columns = shape.rank() == 1 ? 1 : shape[matrix + 1];
  if (rows < least_rows - 1) return false;
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    std::int64_t changing = 0;
    const std::int64_t matrices = tensor.elements() / std::max<std::int64_t>(1, rows * columns);
    for (std::int64_t c = 0; c < matrices * columns; ++c) {
      bool changes = false;
      const std::int64_t first = c / columns * rows * columns + c % columns;
      const auto at = [&](std::int64_t i) { return static_cast<double>(values[static_cast<std::size_t>(first + i * columns)]); };
      if (!follows(rows, at, rounding, changes)) return false;
      changing += changes;
    }
    return 4 * changing >= matrices * columns && (rows >= least_rows || changing >= least_columns_of_fewer);
  });
}

bool is_decay(const Tensor& tensor, double rounding) {
  const Shape& shape = tensor.shape();
  const int last = shape.rank() - 1;
  if (last < 1 || shape[last] != shape[last - 1] || shape[last] < least_rows) return false;
  const std::int64_t n = shape[last];
  return visit_float(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    const auto decays = [&](std::int64_t first, bool below) {  // one matrix, with zeros above the diagonal or below it
      const auto at = [&](std::int64_t i, std::int64_t j) {
        return static_cast<double>(values[static_cast<std::size_t>(first + (below ? i * n + j : j * n + i))]);
      };
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          if (at(i, j) != (j > i ? 0 : at(i - j, 0))) return false;
      bool changes = false;
      return follows(n, [&](std::int64_t i) { return at(i, 0); }, rounding, changes) && changes;
    };
    for (const bool below : {true, false}) {
      bool all = tensor.elements() > 0;
      for (std::int64_t first = 0; all && first < tensor.elements(); first += n * n) all = decays(first, below);
      if (all) return true;
    }
    return false;
  });
}

}  // namespace tandem
