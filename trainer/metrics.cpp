#include "trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/operator.h"

namespace tandem {
namespace {

// Rows of classes in a tensor whose class axis may stand anywhere behind the batch.
struct Rows {
  std::int64_t classes, stride, per_sample;
  std::int64_t start(std::int64_t sample, std::int64_t row) const {
    return (sample * per_sample + row / stride * stride) * classes + row % stride;
  }
};

Rows rows_of(const Shape& s, int axis) {
  Rows r{s[axis], 1, 1};
  for (int i = axis + 1; i < s.rank(); ++i) r.stride *= s[i];
  for (int i = 1; i < s.rank(); ++i) r.per_sample *= i == axis ? 1 : s[i];
  return r;
}

template <class T>
void cross_entropy(Measure& sum, const Scores& scores, const Shape& shape, const T* x, const std::int64_t* indices, const T* dense,
                   std::int64_t samples) {
  const Rows r = rows_of(shape, scores.axis);
  std::vector<double> logp(static_cast<std::size_t>(r.classes));
  for (std::int64_t n = 0; n < samples; ++n) {
    double loss = 0;
    for (std::int64_t row = 0; row < r.per_sample; ++row) {
      const std::int64_t at = r.start(n, row);
      const auto value = [&](const T* from, std::int64_t c) { return static_cast<double>(from[at + c * r.stride]); };
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      std::int64_t best = 0;
      for (std::int64_t c = 0; c < r.classes; ++c)
        if (value(x, c) > largest) largest = value(x, c), best = c;
      for (std::int64_t c = 0; c < r.classes; ++c) total += std::exp(value(x, c) - largest);
      for (std::int64_t c = 0; c < r.classes; ++c) {
        const double v = value(x, c);
        logp[static_cast<std::size_t>(c)] = scores.kind == Scores::softmax
                                                ? std::log(std::max(v, static_cast<double>(std::numeric_limits<T>::min())))
                                            : scores.kind == Scores::log_softmax ? v
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

Scores scores_of(const Graph& graph) {
  if (graph.outputs.empty()) return {};
  ValueId v = graph.outputs[0];
  for (;;) {
    const NodeId producer = graph[v].producer;
    if (!producer.present()) return {};
    const Node& node = graph[producer];
    const std::string_view op = node.op->name;
    if (op == "Sigmoid") return {Scores::sigmoid, 1};
    if (op == "Softmax" || op == "LogSoftmax") {
      // A reshape behind it only adds or drops axes of one element: the classes are still those of the output's axis 1,
      // except where the softmax's own axis says otherwise.
      const int rank = graph[v].type.shape.rank();
      const bool same = graph[v].type.shape == graph[graph.outputs[0]].type.shape;
      const int axis = same ? normalize_axis(node.attributes.integer("axis", -1), rank, op) : 1;
      return {op == "Softmax" ? Scores::softmax : Scores::log_softmax, axis};
    }
    if (op != "Identity" && op != "Reshape" && op != "Flatten" && op != "Squeeze" && op != "Unsqueeze") return {};
    v = node.inputs[0];
  }
}

bool needs_dense_labels(std::string_view loss, const TensorType& output) {
  if (loss == "mse" || loss == "l1") return true;
  return loss == "binary-cross-entropy" && output.shape.rank() > 0 && output.shape.elements() != output.shape[0];
}

std::int64_t classes_of(const Shape& output, const Scores& scores, std::string_view loss) {
  if (loss == "binary-cross-entropy") return output.elements() == (output.rank() ? output[0] : 1) ? 2 : 0;
  return loss == "softmax-cross-entropy" && output.rank() > scores.axis ? output[scores.axis] : 0;
}

TensorType label_type(const TensorType& output, const Scores& scores, std::string_view loss, bool dense) {
  Shape sample(std::vector<std::int64_t>(output.shape.begin() + std::min(1, output.shape.rank()), output.shape.end()));
  if (dense || needs_dense_labels(loss, output)) return {output.dtype, sample};
  if (loss == "binary-cross-entropy" || sample.elements() == classes_of(output.shape, scores, loss)) return {DType::int64, {}};
  if (scores.axis >= 1 && scores.axis <= sample.rank()) sample.dims.erase(sample.dims.begin() + scores.axis - 1);
  return {DType::int64, sample};
}

void measure(Measure& sum, std::string_view loss, const Scores& scores, const TensorType& output, const std::byte* values,
             DType label_dtype, const std::byte* labels, std::int64_t samples) {
  visit_float(output.dtype, [&]<class T>() {
    const T* x = reinterpret_cast<const T*>(values);
    const auto* indices = label_dtype == DType::int64 ? reinterpret_cast<const std::int64_t*>(labels) : nullptr;
    const T* dense = indices ? nullptr : reinterpret_cast<const T*>(labels);
    if (loss == "softmax-cross-entropy") {
      cross_entropy(sum, scores, output.shape, x, indices, dense, samples);
    } else {
      const bool binary = loss == "binary-cross-entropy";
      const auto each = loss == "mse"                    ? squared
                        : loss == "l1"                   ? absolute
                        : scores.kind == Scores::sigmoid ? binary_probability
                                                         : binary_logit;
      const double threshold = scores.kind == Scores::sigmoid ? 0.5 : 0.0;
      const std::int64_t per_sample = output.shape.elements() / std::max<std::int64_t>(1, output.shape[0]);
      for (std::int64_t i = 0; i < samples * per_sample; ++i) {
        const double t = indices ? static_cast<double>(indices[i]) : static_cast<double>(dense[i]);
        const auto v = static_cast<double>(x[i]);
        sum.loss += each(v, t) / static_cast<double>(per_sample);
        if (binary && per_sample == 1) sum.correct += (v > threshold) == (t > 0.5), ++sum.rows;
      }
    }
  });
  sum.samples += samples;
}

}  // namespace tandem
