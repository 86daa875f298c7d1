#include "trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem {
namespace {

// Where the classes of a sample's positions stand.
struct Rows {
  std::int64_t classes, stride, per_sample;
  std::int64_t start(std::int64_t sample, std::int64_t row) const {
    return (sample * per_sample + row / stride * stride) * classes + row % stride;
  }
};

Rows rows_of(const Labels& labels) {
  Rows r{labels.scores[labels.axis], 1, labels.positions()};
  for (int i = labels.axis + 1; i < labels.scores.rank(); ++i) r.stride *= labels.scores[i];
  return r;
}

template <class T>
void cross_entropy(Measure& sum, const Labels& labels, const T* x, const std::int64_t* indices, const T* dense, std::int64_t samples) {
  const Rows r = rows_of(labels);
  std::vector<double> logp(static_cast<std::size_t>(r.classes));
  for (std::int64_t n = 0; n < samples; ++n) {
    double loss = 0;
    for (std::int64_t row = 0; row < r.per_sample; ++row) {
      const std::int64_t at = r.start(n, row);
      const auto value = [&](const T* from, std::int64_t c) { return static_cast<double>(from[at + c * r.stride]); };
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      std::int64_t best = 0;
      for (std::int64_t c = 0; c < r.classes; ++c)
        if (value(x, c) > largest) {
          largest = value(x, c);
          best = c;
        }
      for (std::int64_t c = 0; c < r.classes; ++c) total += std::exp(value(x, c) - largest);
      for (std::int64_t c = 0; c < r.classes; ++c) {
        const double v = value(x, c);
        logp[static_cast<std::size_t>(c)] = labels.kind == OutputKind::softmax
                                                ? std::log(std::max(v, static_cast<double>(std::numeric_limits<T>::min())))
                                            : labels.kind == OutputKind::log_softmax ? v
                                                                                 : v - largest - std::log(total);
      }
      std::int64_t label = 0;
      if (indices) {
        label = indices[n * r.per_sample + row];
        const bool inside = label >= 0 && label < r.classes;
        loss -= inside ? logp[static_cast<std::size_t>(label)] : std::numeric_limits<double>::quiet_NaN();
      } else {
        for (std::int64_t c = 0; c < r.classes; ++c) {
          if (value(dense, c) > value(dense, label)) label = c;
          loss -= value(dense, c) * logp[static_cast<std::size_t>(c)];
        }
      }
      sum.correct += best == label;
    }
    sum.loss += loss / static_cast<double>(r.per_sample);
    sum.rows += r.per_sample;
  }
}

// Losses of single elements: x the output, t the label.
double squared(double x, double t) {
  return (x - t) * (x - t);
}
double absolute(double x, double t) {
  return std::abs(x - t);
}
double binary_logit(double x, double t) {
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
}
double binary_probability(double x, double t) {
  constexpr double least = std::numeric_limits<float>::min();
  return -t * std::log(std::max(x, least)) - (1 - t) * std::log(std::max(1 - x, least));
}

}  // namespace

double Measure::accuracy() const {
  return rows == 0 ? std::numeric_limits<double>::quiet_NaN() : correct / static_cast<double>(rows);
}

void measure(Measure& sum, const Labels& labels, DType dtype, const std::byte* values, const std::byte* given, std::int64_t samples) {
  visit_float(dtype, [&]<class T>() {
    const T* x = reinterpret_cast<const T*>(values);
    const auto* indices = labels.sample->dtype == DType::int64 ? reinterpret_cast<const std::int64_t*>(given) : nullptr;
    const T* dense = indices ? nullptr : reinterpret_cast<const T*>(given);
    if (labels.axis >= 0) {
      cross_entropy(sum, labels, x, indices, dense, samples);
    } else {
      const bool binary = labels.loss == "binary-cross-entropy", probability = labels.kind == OutputKind::sigmoid;
      const auto each = labels.loss == "mse" ? squared : labels.loss == "l1" ? absolute : probability ? binary_probability : binary_logit;
      const double threshold = probability ? 0.5 : 0.0;
      const std::int64_t per_sample = labels.scores.elements();
      for (std::int64_t i = 0; i < samples * per_sample; ++i) {
        const double t = indices ? static_cast<double>(indices[i]) : static_cast<double>(dense[i]);
        const auto v = static_cast<double>(x[i]);
        sum.loss += each(v, t) / static_cast<double>(per_sample);
        if (binary && per_sample == 1) {
          sum.correct += (v > threshold) == (t > 0.5);
          ++sum.rows;
        }
      }
    }
  });
  sum.samples += samples;
}

}  // namespace tandem
