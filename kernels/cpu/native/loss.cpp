// Losses and CountCorrect, row-major; rows of bfloat16 are widened one at a time. Each row's part is stored and the parts are summed in
// order, in double, so that the result does not depend on threads.
#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/cpu/native/native.h"
#include "kernels/cpu/native/stored.h"

namespace tandem::native {
namespace {

constexpr std::int64_t loss_grain = 4096;  // scores that a thread is worth
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// The label that does not count. Both are set where there is none, too: compilers compare the label first.
struct IgnoredLabel {
  bool given = false;
  std::int64_t label = 0;
  bool is(std::int64_t other) const { return given && other == label; }
};

IgnoredLabel ignored_label(const Attributes& attributes) {
  if (!attributes.has("ignore_index")) return {};
  return {true, attributes.integer("ignore_index")};
}

template <class F>
void visit_label(DType dtype, F&& f) {
  if (dtype == DType::int64) f.template operator()<std::int64_t>();
  if (dtype == DType::int32) f.template operator()<std::int32_t>();
}

bool is_label(DType dtype) { return dtype == DType::int64 || dtype == DType::int32; }
bool computes(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }

double sum_of(const double* parts, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += parts[i];
  return sum;
}

// dlogits = scale·(softmax(x) − label). Returns the row's loss, not scaled.
template <class T>
double class_row(const vector::Reductions<T>& v, const T* x, T* dx, std::int64_t n, std::int64_t label, double scale) {
  if (label < 0 || label >= n) {
    std::fill_n(dx, n, static_cast<T>(nan));
    return nan;
  }
  const T chosen = x[label];
  T top, sum;
  v.exponentials(x, dx, n, &top, &sum);
  v.scale(dx, dx, n, static_cast<T>(scale / static_cast<double>(sum)));
  dx[label] -= static_cast<T>(scale);
  return std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(chosen);
}

// As above with a weight t for every class: loss = Σ t·(log Σe^x − x), dlogits = scale·(softmax(x)·Σt − t).
template <class T>
double dense_row(const vector::Reductions<T>& v, const T* x, T* dx, std::int64_t n, const T* t, double scale) {
  double weight = 0, dot = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    weight += static_cast<double>(t[i]);
    dot += t[i] == 0 ? 0 : static_cast<double>(t[i]) * static_cast<double>(x[i]);
  }
  T top, sum;
  v.exponentials(x, dx, n, &top, &sum);
  const T factor = static_cast<T>(scale * weight / static_cast<double>(sum)), share = static_cast<T>(scale);
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dx[i] * factor - share * t[i];
  return weight * (std::log(static_cast<double>(sum)) + static_cast<double>(top)) - dot;
}

// A row of T for each part of the work, behind `at` bytes of the workspace.
template <class T>
T* wide_row(const Memory& m, std::int64_t at, int part, std::int64_t classes) {
  return reinterpret_cast<T*>(m.workspace + at) + part * classes;
}

template <class Stored, class T>
std::function<std::unique_ptr<Kernel>()> softmax_cross_entropy(const KernelRequest& request, std::int64_t rows, std::int64_t classes) {
  constexpr bool wide = std::is_same_v<Stored, T>;
  const double scale = static_cast<double>(request.attributes->real("scale", 1.0F));
  const auto ignored = ignored_label(*request.attributes);
  const int parts = threads_for(rows * classes, request.options.threads, loss_grain);
  const vector::Table& table = vector_table();
  const vector::Reductions<T>& v = *table.of<T>().reductions;
  const auto kernel = [=, &table](auto row_loss) {  // (memory, row, x, dx) -> its loss; x and dx may be one
    return make_kernel([=, &table](const Memory& m) {
      double* const losses = reinterpret_cast<double*>(m.workspace);
      parallel(parts, [&](int k) {
        const Range r = part_of(rows, k, parts);
        for (std::int64_t row = r.begin; row < r.end; ++row) {
          const Stored* const x = m.in<Stored>(0) + row * classes;
          Stored* const dx = m.out<Stored>(1) + row * classes;
          if constexpr (wide) {
            losses[row] = row_loss(m, row, x, dx);
          } else {
            T* const both = wide_row<T>(m, rows * static_cast<std::int64_t>(sizeof(double)), k, classes);
            widen(table, both, x, classes);
            losses[row] = row_loss(m, row, both, both);
            narrow(table, dx, both, classes);
          }
        }
      });
      *m.out<T>(0) = static_cast<T>(scale * sum_of(losses, rows));
    });
  };
  std::function<std::unique_ptr<Kernel>()> make;
  if (request.inputs[1].dtype == dtype_of<T>() && request.inputs[1].shape.elements() == rows * classes)
    make = kernel([=, &v](const Memory& m, std::int64_t row, const T* x, T* dx) {
      return dense_row<T>(v, x, dx, classes, m.in<T>(1) + row * classes, scale);
    });
  visit_label(request.inputs[1].dtype, [&]<class L>() {
    make = kernel([=, &v](const Memory& m, std::int64_t row, const T* x, T* dx) {
      const std::int64_t label = m.in<L>(1)[row];
      if (!ignored.is(label)) return class_row<T>(v, x, dx, classes, label, scale);
      std::fill_n(dx, classes, T(0));
      return 0.0;
    });
  });
  return make;
}

// Labels [N,...], classes on axis 1 of [N,C,...].
struct LikelihoodShape {
  std::int64_t batch = 1, classes = 1, places = 1;
  std::int64_t labels() const { return batch * places; }
  std::int64_t at(std::int64_t i, std::int64_t label) const { return (i / places * classes + label) * places + i % places; }
};
LikelihoodShape likelihood_shape(const Shape& s) {
  LikelihoodShape l{s[0], s[1], 1};
  for (int axis = 2; axis < s.rank(); ++axis) l.places *= s[axis];
  return l;
}

// The weight of label i: 0 where it is ignored, NaN where it is no class.
template <class T, class L>
double label_weight(const Memory& m, int labels, int weights, std::int64_t i, std::int64_t classes, IgnoredLabel ignored) {
  const std::int64_t label = m.in<L>(labels)[i];
  if (ignored.is(label)) return 0;
  if (label < 0 || label >= classes) return nan;
  return weights >= 0 ? static_cast<double>(m.in<T>(weights)[label]) : 1.0;
}

int weights_input(const KernelRequest& request) { return request.inputs.size() > 2 && request.inputs[2].present() ? 2 : -1; }

KernelDescription plain(std::string kernel, const KernelRequest& request) {
  return {.kernel = std::move(kernel), .inputs = row_major(request.inputs), .outputs = row_major(request.outputs), .efficiency = 0.3};
}

}  // namespace

Descriptions describe_softmax_cross_entropy_training(const KernelRequest& request) {
  const Operand& logits = request.inputs[0];
  if (logits.shape.rank() < 1 || request.outputs[0].dtype != (logits.dtype == DType::bfloat16 ? DType::float32 : logits.dtype) ||
      request.outputs[1].dtype != logits.dtype)
    return {};
  const std::int64_t classes = logits.shape[logits.shape.rank() - 1];
  const std::int64_t rows = classes == 0 ? 0 : logits.shape.elements() / classes;
  KernelDescription d = plain("native.softmax_cross_entropy", request);
  d.workspace = rows * static_cast<std::int64_t>(sizeof(double));
  if (logits.dtype == DType::bfloat16)
    d.workspace += threads_for(rows * classes, request.options.threads, loss_grain) * classes * static_cast<std::int64_t>(sizeof(float));
  d.in_place = {{1, 0}};
  visit_stored(logits.dtype, [&]<class Stored, class T>() { d.make = softmax_cross_entropy<Stored, T>(request, rows, classes); });
  return d.make ? Descriptions{d} : Descriptions{};
}

// −Σ w[label]·logp[label], over Σ w[label] for the mean, or one by one.
Descriptions describe_negative_log_likelihood(const KernelRequest& request) {
  if (!computes(request.inputs[0].dtype) || !is_label(request.inputs[1].dtype)) return {};
  const LikelihoodShape s = likelihood_shape(request.inputs[0].shape);
  const std::string reduction = request.attributes->text("reduction", "mean");
  const auto ignored = ignored_label(*request.attributes);
  const int weights = weights_input(request);
  KernelDescription d = plain("native.negative_log_likelihood", request);
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    visit_label(request.inputs[1].dtype, [&]<class L>() {
      d.make = make_kernel([=](const Memory& m) {
        double loss = 0, total = 0;
        for (std::int64_t i = 0; i < s.labels(); ++i) {
          const double weight = label_weight<T, L>(m, 1, weights, i, s.classes, ignored);
          const double part = weight == 0 || weight != weight ? weight : -weight * static_cast<double>(m.in<T>(0)[s.at(i, m.in<L>(1)[i])]);
          if (reduction == "none") m.out<T>(0)[i] = static_cast<T>(part);
          loss += part;
          total += weight;
        }
        if (reduction != "none") *m.out<T>(0) = static_cast<T>(reduction == "mean" ? loss / total : loss);
      });
    });
  });
  return {d};
}

Descriptions describe_negative_log_likelihood_backward(const KernelRequest& request) {
  if (!computes(request.inputs[0].dtype) || !is_label(request.inputs[1].dtype)) return {};
  const LikelihoodShape s = likelihood_shape(request.outputs[0].shape);
  const std::string reduction = request.attributes->text("reduction", "mean");
  const auto ignored = ignored_label(*request.attributes);
  const int weights = weights_input(request);
  const int parts = threads_for(s.labels() * s.classes, request.options.threads);
  KernelDescription d = plain("native.negative_log_likelihood_backward", request);
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    visit_label(request.inputs[1].dtype, [&]<class L>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(s.labels() * s.classes, k, parts);
          std::memset(m.out<T>(0) + r.begin, 0, static_cast<std::size_t>(r.end - r.begin) * sizeof(T));
        });
        double total = reduction == "mean" ? 0 : 1;
        if (reduction == "mean")
          for (std::int64_t i = 0; i < s.labels(); ++i) total += label_weight<T, L>(m, 1, weights, i, s.classes, ignored);
        for (std::int64_t i = 0; i < s.labels(); ++i) {
          const double weight = label_weight<T, L>(m, 1, weights, i, s.classes, ignored);
          if (weight == 0 || weight != weight) continue;
          const double dy = static_cast<double>(m.in<T>(0)[reduction == "none" ? i : 0]);
          m.out<T>(0)[s.at(i, m.in<L>(1)[i])] = static_cast<T>(-dy * weight / total);
        }
      });
    });
  });
  return {d};
}

Descriptions describe_count_correct(const KernelRequest& request) {
  const Operand &scores = request.inputs[0], &labels = request.inputs[1];
  if (request.outputs[0].dtype != DType::float32) return {};
  const std::int64_t classes = scores.shape[scores.shape.rank() - 1];
  const std::int64_t rows = classes == 0 ? 0 : scores.shape.elements() / classes;
  KernelDescription d = plain("native.count_correct", request);
  const int parts = threads_for(rows * classes, request.options.threads);
  if (scores.dtype == DType::bfloat16) d.workspace = parts * classes * static_cast<std::int64_t>(sizeof(float));
  const auto kernel = [&]<class Stored, class T>(auto label_of) {
    d.make = make_kernel([=](const Memory& m) {
      std::atomic<std::int64_t> correct = 0;
      const vector::Table& table = vector_table();
      const auto largest = table.of<T>().reductions->row[vector::reduce_max];
      parallel(parts, [&](int part) {
        const Range range = part_of(rows, part, parts);
        std::int64_t mine = 0;
        for (std::int64_t row = range.begin; row < range.end; ++row) {
          const std::int64_t label = label_of(m, row), behind = label + 1;
          if (label < 0 || label >= classes) continue;
          const T* x;
          if constexpr (std::is_same_v<Stored, T>) {
            x = m.in<T>(0) + row * classes;
          } else {
            T* const wide = wide_row<T>(m, 0, part, classes);
            widen(table, wide, m.in<Stored>(0) + row * classes, classes);
            x = wide;
          }
          const T score = x[label];  // none before it is as large, none behind it larger, and none is NaN
          mine += score == score && (label == 0 || largest(x, label, x[0]) < score) &&
                  (behind == classes || largest(x + behind, classes - behind, x[behind]) <= score);
        }
        correct += mine;
      });
      *m.out<float>(0) = static_cast<float>(correct.load());
    });
  };
  visit_stored(scores.dtype, [&]<class Stored, class T>() {
    if (labels.dtype == dtype_of<T>() && labels.shape.elements() == rows * classes)
      kernel.template operator()<Stored, T>([=](const Memory& m, std::int64_t row) {
        const T* const t = m.in<T>(1) + row * classes;
        return std::max_element(t, t + classes) - t;
      });
    visit_label(labels.dtype, [&]<class L>() {
      kernel.template operator()<Stored, T>([](const Memory& m, std::int64_t row) { return static_cast<std::ptrdiff_t>(m.in<L>(1)[row]); });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
