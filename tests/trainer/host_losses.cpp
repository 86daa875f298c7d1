#include "tests/trainer/host_losses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "planner/loss/ctc.h"

namespace tandem {
namespace {

using P = LossValues;
constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr double apart = 1e-6;  // of triplet

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sign(double t) { return t > 0 ? 1 : -1; }
double difference(const HostRow& r) { return r.x[0] - r.t[0]; }
double dot(std::span<const double> a, std::span<const double> b) {
  double s = 0;
  for (std::size_t i = 0; i < a.size(); ++i) s += a[i] == 0 || b[i] == 0 ? 0 : a[i] * b[i];
  return s;
}
double log_of_sum(std::span<const double> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double s = 0;
  for (const double v : x) s += std::exp(v - top);
  return top + std::log(s);
}
double cross_entropy(const HostRow& r) {
  const double log_sum = log_of_sum(r.x);
  double s = 0;
  for (std::size_t i = 0; i < r.x.size(); ++i) s += r.t[i] == 0 ? 0 : r.t[i] * (log_sum - r.x[i]);
  return s;
}
double huber(const HostRow& r, double delta) {
  const double a = std::abs(difference(r)), m = std::min(a, delta);
  return m * (a - m / 2);
}
double binary(const HostRow& r, double w) {
  const double x = r.x[0], t = r.t[0];
  return (1 - t) * x + (1 + (w - 1) * t) * softplus(-x);
}
double margin_of(const HostRow& r) { return std::max(0.0, 1 - r.x[0] * sign(r.t[0])); }

double log_of_sum(std::initializer_list<double> list) {
  const double top = std::max(list);
  if (std::isinf(top)) return top;
  double sum = 0;
  for (const double v : list) sum += std::exp(v - top);
  return top + std::log(sum);
}

Ctc ctc_of(const P& p) {
  return {.blank = static_cast<std::int64_t>(p["blank"]),
          .padding = static_cast<std::int64_t>(p["padding"]),
          .zero_infinity = p["zero-infinity"] != 0,
          .per_label = p["per-label"] != 0};
}

double ctc(std::span<const double> x, std::int64_t classes, std::span<const std::int64_t> t, const Ctc& o) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  const std::int64_t blank = o.blank < 0 ? o.blank + classes : o.blank;
  std::vector<std::int64_t> extended{blank};
  for (const std::int64_t label : t) {
    if (label == o.padding) continue;
    extended.push_back(label);
    extended.push_back(blank);
  }
  const std::size_t c = static_cast<std::size_t>(classes), places = extended.size();
  std::vector<double> a(places, none), next(places);
  for (std::size_t at = 0; at < x.size(); at += c) {
    const double top = *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(at), x.begin() + static_cast<std::ptrdiff_t>(at + c));
    double sum = 0;
    for (std::size_t k = 0; k < c; ++k) sum += std::exp(x[at + k] - top);
    for (std::size_t k = 0; k < places; ++k) {
      const bool skips = k > 1 && extended[k] != blank && extended[k] != extended[k - 2];
      const double before = at == 0 ? (k < 2 ? 0 : none) : log_of_sum({a[k], k > 0 ? a[k - 1] : none, skips ? a[k - 2] : none});
      next[k] = before + x[at + static_cast<std::size_t>(extended[k])] - top - std::log(sum);
    }
    std::swap(a, next);
  }
  const double loss = -log_of_sum({a[places - 1], places > 1 ? a[places - 2] : none});
  if (std::isinf(loss) && o.zero_infinity) return 0;
  return o.per_label ? loss / std::max(1.0, static_cast<double>(places / 2)) : loss;
}

using Formula = std::function<double(const HostRow&, const P&)>;
const std::map<std::string, Formula, std::less<>>& formulas() {
  static const std::map<std::string, Formula, std::less<>> all = {
      {"softmax-cross-entropy", [](const HostRow& r, const P&) { return cross_entropy(r); }},
      {"binary-cross-entropy", [](const HostRow& r, const P& p) { return binary(r, p["pos-weight"]); }},
      {"mse", [](const HostRow& r, const P&) { return difference(r) * difference(r); }},
      {"l1", [](const HostRow& r, const P&) { return std::abs(difference(r)); }},
      {"smooth-l1", [](const HostRow& r, const P& p) { return huber(r, p["beta"]) / p["beta"]; }},
      {"huber", [](const HostRow& r, const P& p) { return huber(r, p["delta"]); }},
      {"log-cosh", [](const HostRow& r, const P&) { return difference(r) + softplus(-2 * difference(r)) - std::log(2.0); }},
      {"poisson", [](const HostRow& r, const P& p) { return p["log"] != 0 ? std::exp(r.x[0]) - r.t[0] * r.x[0] : r.x[0] - r.t[0] * std::log(r.x[0] + 1e-8); }},
      {"focal", [](const HostRow& r, const P& p) { const double ce = cross_entropy(r); return p["alpha"] * std::pow(-std::expm1(-ce), p["gamma"]) * ce; }},
      {"binary-focal", [](const HostRow& r, const P& p) {
       const double s = 1 / (1 + std::exp(-r.x[0])), t = r.t[0], a = p["alpha"];
       return binary(r, 1) * std::pow(s + t - 2 * s * t, p["gamma"]) * (a < 0 ? 1 : a * t + (1 - a) * (1 - t));
     }},
      {"kl-divergence", [](const HostRow& r, const P&) {
       double s = cross_entropy(r);
       for (const double t : r.t) s += t == 0 ? 0 : t * std::log(t);
       return s;
     }},
      {"hinge", [](const HostRow& r, const P&) { return margin_of(r); }},
      {"squared-hinge", [](const HostRow& r, const P&) { return margin_of(r) * margin_of(r); }},
      {"soft-margin", [](const HostRow& r, const P&) { return softplus(-r.x[0] * sign(r.t[0])); }},
      {"categorical-hinge", [](const HostRow& r, const P&) {
       double wrong = -infinite;
       for (std::size_t i = 0; i < r.x.size(); ++i) wrong = std::max(wrong, (1 - r.t[i]) * r.x[i]);
       return std::max(0.0, 1 + wrong - dot(r.t, r.x));
     }},
      {"multi-margin", [](const HostRow& r, const P& p) {
       double s = 0;
       for (std::size_t i = 0; i < r.x.size(); ++i) s += (1 - r.t[i]) * std::max(0.0, p["margin"] - dot(r.t, r.x) + r.x[i]);
       return s / static_cast<double>(r.x.size());
     }},
      {"cosine", [](const HostRow& r, const P&) {
       const auto norm = [](std::span<const double> v) { return std::max(1e-8, std::sqrt(dot(v, v))); };
       return 1 - dot(r.x, r.t) / (norm(r.x) * norm(r.t));
     }},
      {"triplet", [](const HostRow& r, const P& p) {
       const std::size_t n = r.x.size() / 3;
       const auto distance_to = [&](std::size_t k) {
         double s = 0;
         for (std::size_t i = 0; i < n; ++i) s += (r.x[i] - r.x[k * n + i] + apart) * (r.x[i] - r.x[k * n + i] + apart);
         return std::sqrt(s);
       };
       return std::max(0.0, distance_to(1) - distance_to(2) + p["margin"]);
     }},
      {"ctc", [](const HostRow& r, const P& p) { return ctc(r.x, r.classes, r.sequence, ctc_of(p)); }},
      {std::string(file_loss), [](const HostRow& r, const P&) { return r.x[0]; }},
      {"output", [](const HostRow& r, const P&) { return r.x[0]; }},
  };
  return all;
}

std::size_t best(std::span<const double> v) { return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin()); }

void measure_sequences(HostMeasure& sum, const Labels& l, const Measured& batch) {
  const auto each = static_cast<std::size_t>(l.scores.elements()), length = static_cast<std::size_t>(l.sample->shape.elements());
  std::vector<double> x(each);
  const auto* const labels = reinterpret_cast<const std::int64_t*>(batch.given);
  visit_float(batch.dtype, [&]<class T>() {
    for (std::int64_t n = 0; n < batch.samples; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const T* const values = reinterpret_cast<const T*>(batch.values) + at * each;
      std::transform(values, values + each, x.begin(), [](T v) { return static_cast<double>(v); });
      for (double& v : x)
        if (l.kind == OutputKind::softmax) v = std::log(std::max(v, static_cast<double>(std::numeric_limits<T>::min())));
      const double weight = batch.weights ? static_cast<double>(batch.weights[n]) : 1.0;
      sum.loss += weight * host_loss(l, {.x = x, .t = {}, .classes = l.classes, .sequence = {labels + at * length, length}});
    }
  });
  sum.samples += batch.samples;
}

}  // namespace

double host_loss(const Labels& l, const HostRow& row) { return formulas().at(l.loss)(row, l.values()); }

double HostMeasure::mean_loss() const { return weight == 0 ? 0 : loss / weight; }

double HostMeasure::accuracy() const { return rows == 0 ? nan : correct / static_cast<double>(rows); }

void measure(HostMeasure& sum, const Labels& l, const Measured& batch) {
  sum.weight += loss_weight(l, batch.given, batch.weights, batch.samples);
  const LossRow& row = loss_row(l.loss);
  if (row.over == LossOver::sequence) return measure_sequences(sum, l, batch);
  const bool classes = l.axis >= 0, indices = l.sample && l.sample->dtype == DType::int64, inside = l.loss == "softmax-cross-entropy";
  const bool yes_or_no = row.labels == LabelKind::binary && l.scores.elements() == 1;
  std::vector<double> t;
  const auto smoothed = [&](double v, double count) { return v * (1 - l.smoothing) + l.smoothing / count; };
  each_place(l, batch, [&](const Place& p) {
    const double of_sample = batch.weights ? static_cast<double>(batch.weights[p.sample]) : 1.0;
    if (classes) {
      if (p.ignored) return;
      const auto own = [&](std::size_t c) { return l.class_weights.empty() ? 1.0 : l.class_weights[c]; };
      t.assign(p.t.begin(), p.t.end());
      double factor = 1;
      for (double& v : t)
        if (l.smoothing > 0) v = smoothed(v, static_cast<double>(t.size()));
      if (!l.class_weights.empty() && !inside) {
        factor = 0;
        for (std::size_t c = 0; c < t.size(); ++c) factor += t[c] * own(c);
      }
      if (inside)
        for (std::size_t c = 0; c < t.size(); ++c) t[c] *= own(c);
      const double loss = indices && p.label < 0 ? nan : host_loss(l, {p.x, t});
      sum.loss += of_sample * factor * loss;
      sum.correct += static_cast<std::int64_t>(best(p.x)) == p.label;
      ++sum.rows;
      return;
    }
    double loss = 0, weight = 1;
    if (row.over == LossOver::elements) {
      for (std::size_t i = 0; i < p.x.size(); ++i) {
        const double label = l.smoothing > 0 ? smoothed(p.t[i], 2) : p.t[i];
        loss += host_loss(l, {p.x.subspan(i, 1), std::span(&label, 1)});
      }
      if (!l.class_weights.empty()) weight = l.class_weights[0] + p.t[0] * (l.class_weights[1] - l.class_weights[0]);
    } else {
      loss = host_loss(l, {p.x, p.t});
    }
    sum.loss += of_sample * weight * loss;
    if (!yes_or_no) return;
    sum.correct += (p.x[0] > 0) == (p.t[0] > 0.5);
    ++sum.rows;
  });
  sum.samples += batch.samples;
}

}  // namespace tandem
