// What a model gives besides outputs and losses: probabilities, classes, gradients; and the weights of classes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/option.h"
#include "base/spec.h"
#include "planner/compile.h"
#include "trainer/loss_measures.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// The first loss that has classes, or yes and no.
const Labels& classifying(const Losses& losses, const std::string& model) {
  for (const Labels& l : losses)
    if (l.axis >= 0 || loss_row(l.loss).labels == LabelKind::binary) return l;
  fail(ExitCode::usage, "model '", model, "': its loss has no classes; ", option("loss"),
       " softmax-cross-entropy or binary-cross-entropy does");
}

// Runs of `length` numbers, `stride` apart, along which the classes stand.
struct Runs {
  std::int64_t outer, length, stride;
};
Runs runs_of(const Labels& l, const Shape& all) {
  Runs r{all[0], 1, 1};
  if (l.axis < 0) return {1, 1, 1};
  const Shape& s = l.scores;
  r.length = s[l.axis];
  for (int i = l.axis + 1; i < s.rank(); ++i) r.stride *= s[i];
  r.outer = r.length * r.stride == 0 ? 0 : all.elements() / (r.length * r.stride);
  return r;
}

void softmax(float* x, std::int64_t length, std::int64_t stride) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < length; ++c) top = std::max(top, static_cast<double>(x[c * stride]));
  for (std::int64_t c = 0; c < length; ++c) sum += std::exp(static_cast<double>(x[c * stride]) - top);
  for (std::int64_t c = 0; c < length; ++c) x[c * stride] = static_cast<float>(std::exp(static_cast<double>(x[c * stride]) - top) / sum);
}

}  // namespace

Tensor Model::predict_proba(const Dataset& data, const EvaluateOptions& o) {
  const Labels& l = classifying(compiled_->losses, compiled_->source.file().name());
  std::vector<NamedTensor> outputs = predict(data, o);
  const auto on = std::find_if(outputs.begin(), outputs.end(), [&](const NamedTensor& t) { return t.name == l.value; });
  if (on == outputs.end()) fail(ExitCode::usage, "predict gives no '", l.value, "', which gives the classes");
  Tensor t = on->tensor.cast(DType::float32);
  const auto values = t.write<float>();
  if (l.kind == OutputKind::log_softmax)
    for (float& v : values) v = std::exp(v);
  if (l.kind != OutputKind::plain) return t;
  if (l.axis < 0)
    for (float& v : values) v = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(v))));
  const Runs r = runs_of(l, t.shape());
  for (std::int64_t o2 = 0; o2 < r.outer && l.axis >= 0; ++o2)
    for (std::int64_t i = 0; i < r.stride; ++i) softmax(values.data() + o2 * r.length * r.stride + i, r.length, r.stride);
  return t;
}

Tensor Model::predict_classes(const Dataset& data, const EvaluateOptions& o) {
  const Labels& l = classifying(compiled_->losses, compiled_->source.file().name());
  const Tensor p = predict_proba(data, o);
  const auto values = p.values<float>();
  if (l.axis < 0) {
    Tensor classes(TensorType{DType::int64, p.shape()});
    std::transform(values.begin(), values.end(), classes.write<std::int64_t>().begin(), [](float v) { return std::int64_t{v > 0.5F}; });
    return classes;
  }
  Shape shape = l.scores;
  shape.dims.erase(shape.dims.begin() + l.axis);
  if (l.positions() == 1) shape = {};
  shape.dims.insert(shape.dims.begin(), data.size());
  Tensor classes(TensorType{DType::int64, shape});
  const auto to = classes.write<std::int64_t>();
  const Runs r = runs_of(l, p.shape());
  for (std::int64_t n = 0; n < r.outer; ++n)
    for (std::int64_t i = 0; i < r.stride; ++i) {
      const float* x = values.data() + n * r.length * r.stride + i;
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < r.length; ++c)
        if (x[c * r.stride] > x[best * r.stride]) best = c;
      to[static_cast<std::size_t>(n * r.stride + i)] = best;
    }
  return classes;
}

}  // namespace tandem
