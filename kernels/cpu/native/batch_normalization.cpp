// y = scale·(x − mean)/√(variance + epsilon) + bias per channel, + addend where there is one, then Relu where it is fused.
// Statistics are the batch's own, where Σ x and Σ x² are given from these: variance = Σ x²/M − mean².
// Backward, with x̂ the normalised x and M elements a channel (dy masked first where Relu is fused, by y where that is given):
//   dbias = Σ dy, dscale = Σ dy·x̂, dx = scale/√(variance + ε)·(dy − dbias/M − x̂·dscale/M), daddend = dy
#include <cmath>

#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

struct Problem {
  std::int64_t samples, channels, plane;
  double epsilon;
  bool relu;
  int threads;
  double elements() const { return static_cast<double>(std::max<std::int64_t>(samples * plane, 1)); }  // of a channel
};

Problem problem_of(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  return {
      x[0], x[1], product(spatial(x)), request.attributes->real("epsilon", 1e-5f), has_relu(*request.attributes), request.options.threads};
}

bool supported(const KernelRequest& request) {
  return is_real(request.inputs[0]) && request.inputs[0].shape.rank() >= 2 && request.attributes->text("activation", "Relu") == "Relu";
}

// Calls body(channel), split over the threads.
template <class Body>
void for_each_channel(const Problem& p, const Body& body) {
  const int parts = static_cast<int>(std::clamp<std::int64_t>(p.channels, 1, std::max(1, p.threads)));
  parallel(parts, [&](int part) {
    const Range range = part_of(p.channels, part, parts);
    for (std::int64_t c = range.begin; c < range.end; ++c) body(c);
  });
}

// Calls body(i) for every element of a channel.
template <class Body>
void for_each_element(const Problem& p, std::int64_t channel, const Body& body) {
  for (std::int64_t n = 0; n < p.samples; ++n)
    for (std::int64_t i = (n * p.channels + channel) * p.plane, end = i + p.plane; i < end; ++i) body(i);
}

template <class T>
void normalize(const Problem& p, std::int64_t c, const T* x, T scale, T bias, double mean, double variance, const T* addend, T* y) {
  const T factor = static_cast<T>(scale / std::sqrt(variance + p.epsilon)), center = static_cast<T>(mean);
  for_each_element(p, c, [&](std::int64_t i) {
    const T v = (x[i] - center) * factor + bias + (addend ? addend[i] : T(0));
    y[i] = p.relu && v < 0 ? T(0) : v;
  });
}

}  // namespace

Descriptions describe_batch_normalization(const KernelRequest& request) {
  if (!supported(request)) return {};
  const Problem p = problem_of(request);
  KernelDescription d = dense_description(request, "native.batch_normalization");
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_channel(p, [&](std::int64_t c) {
        normalize(p, c, m.in<T>(0), m.in<T>(1)[c], m.in<T>(2)[c], m.in<T>(3)[c], m.in<T>(4)[c], static_cast<const T*>(nullptr),
                  m.out<T>(0));
      });
    });
  });
  return {d};
}

Descriptions describe_batch_normalization_training(const KernelRequest& request) {
  if (!supported(request) || !request.outputs[2].present()) return {};
  const Problem p = problem_of(request);
  KernelDescription d = dense_description(request, "native.batch_normalization_training");
  d.outputs[3] = {DType::uint8, Shape{0}, Layout::opaque("native")};
  const bool adds = operand_at(request.inputs, 3).present(), summed = operand_at(request.inputs, 4).present();
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const T *const x = m.in<T>(0), *const addend = adds ? m.in<T>(3) : nullptr;
      for_each_channel(p, [&](std::int64_t c) {
        const double count = p.elements();
        double mean = 0, variance = 0;
        if (summed) {
          mean = m.in<T>(4)[c] / count;
          variance = std::max(0.0, m.in<T>(5)[c] / count - mean * mean);
        } else {
          for_each_element(p, c, [&](std::int64_t i) { mean += x[i]; });
          mean /= count;
          for_each_element(p, c, [&](std::int64_t i) { variance += (x[i] - mean) * (x[i] - mean); });
          variance /= count;
        }
        m.out<T>(1)[c] = static_cast<T>(mean);
        m.out<T>(2)[c] = static_cast<T>(variance);
        normalize(p, c, x, m.in<T>(1)[c], m.in<T>(2)[c], mean, variance, addend, m.out<T>(0));
      });
    });
  });
  return {d};
}

// factor = scale/√(variance + epsilon), shift = bias − mean·factor
Descriptions describe_batch_normalization_factors(const KernelRequest& request) {
  for (const Operand& o : request.inputs)
    if (!is_real(o)) return {};
  if (request.outputs[3].dtype != request.inputs[0].dtype) return {};
  const double count = static_cast<double>(std::max<std::int64_t>(1, request.attributes->integer("count"))),
               epsilon = request.attributes->real("epsilon", 1e-5f);
  const std::int64_t channels = request.inputs[0].shape[0];
  KernelDescription d = dense_description(request, "native.batch_normalization_factors");
  d.outputs[2] = {DType::uint8, Shape{0}, Layout::opaque("native")};
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const double mean = m.in<T>(0)[c] / count, variance = std::max(0.0, m.in<T>(1)[c] / count - mean * mean);
        const double factor = m.in<T>(2)[c] / std::sqrt(variance + epsilon);
        m.out<T>(0)[c] = static_cast<T>(mean);
        m.out<T>(1)[c] = static_cast<T>(variance);
        m.out<T>(3)[c] = static_cast<T>(factor);
        m.out<T>(4)[c] = static_cast<T>(m.in<T>(3)[c] - mean * factor);
      }
    });
  });
  return {d};
}

Descriptions describe_batch_normalization_backward(const KernelRequest& request) {
  if (!supported(request) || request.inputs[6].layout != Layout::opaque("native") || !request.inputs[5].present()) return {};
  const Problem p = problem_of(request);
  KernelDescription d = dense_description(request, "native.batch_normalization_backward");
  const bool has_y = operand_at(request.inputs, 7).present(), sums = operand_at(request.inputs, 8).present(),
             adds = operand_at(request.outputs, 3).present();
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const T *const x = m.in<T>(0), *const dy = m.in<T>(1), *const y = has_y ? m.in<T>(7) : nullptr,
                     *const other = sums ? m.in<T>(8) : nullptr;
      T *const dx = m.out<T>(0), *const daddend = adds ? m.out<T>(3) : nullptr;
      for_each_channel(p, [&](std::int64_t c) {
        const double scale = m.in<T>(2)[c], bias = m.in<T>(3)[c], mean = m.in<T>(4)[c];
        const double inverse = 1 / std::sqrt(m.in<T>(5)[c] + p.epsilon), count = p.elements();
        const auto normal = [&](std::int64_t i) { return (x[i] - mean) * inverse; };
        const auto open = [&](std::int64_t i) { return y ? y[i] > 0 : scale * normal(i) + bias > 0; };
        const auto gradient = [&](std::int64_t i) {
          return p.relu && !open(i) ? 0.0 : static_cast<double>(other ? dy[i] + other[i] : dy[i]);
        };
        double dscale = 0, dbias = 0;
        for_each_element(p, c, [&](std::int64_t i) {
          dscale += gradient(i) * normal(i);
          dbias += gradient(i);
        });
        for_each_element(p, c, [&](std::int64_t i) {
          dx[i] = static_cast<T>(scale * inverse * (gradient(i) - dbias / count - normal(i) * dscale / count));
          if (daddend) daddend[i] = static_cast<T>(gradient(i));
        });
        m.out<T>(1)[c] = static_cast<T>(dscale);
        m.out<T>(2)[c] = static_cast<T>(dbias);
      });
    });
  });
  return {d};
}

// running' = momentum·running + (1 − momentum)·value, of an unbiased variance times n/(n − 1)
Descriptions describe_running_statistics(const KernelRequest& request) {
  if (request.attributes->has("tensors")) return {};  // several at once, which nothing offers
  const Operand& running = request.inputs[0];
  if (running.dtype != DType::float32 && running.dtype != DType::float64) return {};
  KernelDescription d{
      .kernel = "native.running_statistics", .inputs = request.inputs, .outputs = request.outputs, .efficiency = 0.2, .in_place = {{0, 0}}};
  const Layout layout = running.layout.any() ? layout_or_row_major(request.inputs[1]) : running.layout;
  for (std::size_t i = 0; i < 2; ++i) d.inputs[i].layout = layout;
  const bool may_skip = d.inputs.size() > 2 && d.inputs[2].present();
  if (may_skip) d.inputs[2] = row_major(d.inputs[2]);
  d.outputs[0].layout = layout;
  const std::int64_t n = physical_elements(running.shape, layout);
  const double momentum = static_cast<double>(request.attributes->real("momentum")), share = statistic_share(*request.attributes, 0);
  visit_float(running.dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const bool skip = may_skip && m.in<StepScalars>(2)->skip != 0;
      const T keep = skip ? T(1) : static_cast<T>(momentum), take = static_cast<T>(share);
      if (skip) return void(std::copy_n(m.in<T>(0), n, m.out<T>(0)));
      for (std::int64_t i = 0; i < n; ++i) m.out<T>(0)[i] = keep * m.in<T>(0)[i] + take * m.in<T>(1)[i];
    });
  });
  return {d};
}

}  // namespace tandem::native
