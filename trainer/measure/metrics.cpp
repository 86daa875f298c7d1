#include "trainer/measure/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem {
namespace {

// Where the numbers of a sample's places stand.
struct Rows {
  std::int64_t length, stride, per_sample;
  std::int64_t start(std::int64_t sample, std::int64_t row) const {
    return (sample * per_sample + row / stride * stride) * length + row % stride;
  }
};

Rows rows_of(const Labels& form) {
  const LossRow& row = loss_row(form.loss);
  if (form.axis >= 0) {
    Rows r{form.scores[form.axis], 1, form.positions()};
    for (int i = form.axis + 1; i < form.scores.rank(); ++i) r.stride *= form.scores[i];
    return r;
  }
  const std::int64_t all = form.scores.elements();
  if (row.over != LossOver::last) return {all, 1, 1};
  const std::int64_t last = form.scores[form.scores.rank() - 1];
  return {last, 1, last == 0 ? 0 : all / last};
}

// What the model made of scores, as scores again: the losses take them.
void undo(OutputKind kind, double least, std::vector<double>& x) {
  if (kind != OutputKind::softmax && kind != OutputKind::sigmoid) return;
  for (double& v : x) v = std::log(std::max(v, least)) - (kind == OutputKind::sigmoid ? std::log(std::max(1 - v, least)) : 0);
}

std::size_t best(std::span<const double> v) { return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin()); }

}  // namespace

void each_place(const Labels& form, const Measured& batch, const std::function<void(const Place&)>& each) {
  const Rows r = rows_of(form);
  const bool classes = form.axis >= 0, indices = form.sample && form.sample->dtype == DType::int64;
  std::vector<double> x(static_cast<std::size_t>(r.length)), t(x.size());
  visit_float(batch.dtype, [&]<class T>() {
    const T* const values = reinterpret_cast<const T*>(batch.values);
    const auto* index = indices ? reinterpret_cast<const std::int64_t*>(batch.given) : nullptr;
    const T* dense = indices ? nullptr : reinterpret_cast<const T*>(batch.given);
    for (std::int64_t n = 0; n < batch.samples; ++n)
      for (std::int64_t row = 0; row < r.per_sample; ++row) {
        const std::int64_t at = r.start(n, row);
        for (std::int64_t c = 0; c < r.length; ++c) {
          x[static_cast<std::size_t>(c)] = static_cast<double>(values[at + c * r.stride]);
          if (dense) t[static_cast<std::size_t>(c)] = static_cast<double>(dense[at + c * r.stride]);
        }
        undo(form.kind, static_cast<double>(std::numeric_limits<T>::min()), x);
        Place place{n, x, t};
        if (index) {
          const std::int64_t label = index[n * r.per_sample + row];
          place.ignored = form.ignore && label == *form.ignore;
          const bool inside = label >= 0 && label < (classes ? r.length : 2);
          place.label = inside ? label : -1;
          std::fill(t.begin(), t.end(), 0.0);
          if (classes && inside) t[static_cast<std::size_t>(label)] = 1;
          if (!classes) t[0] = static_cast<double>(label);
        } else if (classes) {
          place.label = static_cast<std::int64_t>(best(t));
        }
        each(place);
      }
  });
}

void each_class(const Labels& form, const Measured& batch, const std::function<void(std::int64_t, std::int64_t)>& each) {
  const Rows r = rows_of(form);
  const std::int64_t places = batch.samples * r.per_sample;
  if (form.sample->dtype == DType::int64) {
    const auto* const labels = reinterpret_cast<const std::int64_t*>(batch.given);
    for (std::int64_t i = 0; i < places; ++i)
      if (labels[i] >= 0 && labels[i] < r.length && !(form.ignore && labels[i] == *form.ignore)) each(i, labels[i]);
    return;
  }
  visit_float(form.sample->dtype, [&]<class T>() {
    const T* const dense = reinterpret_cast<const T*>(batch.given);
    for (std::int64_t i = 0; i < places; ++i) {
      const T* const t = dense + r.start(i / r.per_sample, i % r.per_sample);
      std::int64_t most = 0;
      for (std::int64_t c = 1; c < r.length; ++c)
        if (static_cast<double>(t[c * r.stride]) > static_cast<double>(t[most * r.stride])) most = c;
      each(i, most);
    }
  });
}

namespace {

// Places of a sample that have a loss each.
std::int64_t places_of(const Labels& form) {
  return form.own() || form.of_file()                     ? 1
         : loss_row(form.loss).over == LossOver::elements ? form.scores.elements()
                                                          : rows_of(form).per_sample;
}

bool has_class_indices(const Labels& form) { return form.sample && form.sample->dtype == DType::int64 && form.classes > 0; }

std::span<const std::int64_t> indices_of(const Labels& form, const std::byte* given, std::int64_t first, std::int64_t samples) {
  const std::int64_t places = places_of(form);
  return {reinterpret_cast<const std::int64_t*>(given) + first * places, static_cast<std::size_t>(samples * places)};
}

// Of all places of a sample, by their labels.
double counted(const Labels& form, const std::byte* given, std::int64_t sample) {
  const std::int64_t places = places_of(form);
  if (form.axis < 0 && !form.class_weights.empty()) {  // yes or no
    const auto of = [&](double yes) { return form.class_weights[0] + yes * (form.class_weights[1] - form.class_weights[0]); };
    return visit_number(form.sample->dtype, [&]<class T>() { return of(static_cast<double>(reinterpret_cast<const T*>(given)[sample])); });
  }
  if (form.axis < 0 || !has_class_indices(form) || (form.class_weights.empty() && !form.ignore)) return static_cast<double>(places);
  double sum = 0;
  for (const std::int64_t label : indices_of(form, given, sample, 1)) {
    if (form.ignore && label == *form.ignore) continue;
    const bool known = label >= 0 && label < form.classes;
    sum += form.class_weights.empty() ? 1 : known ? form.class_weights[static_cast<std::size_t>(label)] : 0;
  }
  return sum;
}

}  // namespace

bool names_classes(const Labels& form, const Measured& batch) {
  if (form.axis < 0 || !has_class_indices(form)) return true;
  const auto labels = indices_of(form, batch.given, 0, batch.samples);
  return std::all_of(labels.begin(), labels.end(),
                     [&](std::int64_t label) { return (label >= 0 && label < form.classes) || (form.ignore && label == *form.ignore); });
}

double loss_weight(const Labels& form, const std::byte* given, const float* weights, std::int64_t samples) {
  double sum = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    sum += (weights && !(form.by_sample && form.weighs_itself) ? static_cast<double>(weights[n]) : 1.0) * counted(form, given, n);
  return sum;
}

bool weight_depends_on_data(const Labels& form) { return form.weighted || !form.class_weights.empty() || (form.ignore && form.axis >= 0); }

}  // namespace tandem
