// Local response normalisation: s_c = bias + alpha/size·Σ x², summed over the `size` channels around c (for an even size
// one more behind than before); y = x·s^−beta.
// Backward: dx_i = dy_i·s_i^−beta − 2·alpha·beta/size·x_i·Σ dy_c·y_c/s_c over all c around which i lies.
#include <cmath>

#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

struct Problem {
  std::int64_t samples, channels, plane, before, behind;  // channels before and behind c that its sum takes in
  double alpha_share, beta, bias;
  int threads;
};

Problem problem_of(const KernelRequest& request) {
  const Attributes& a = *request.attributes;
  const Shape& x = request.inputs[0].shape;
  const std::int64_t size = a.integer("size");
  return {x[0],
          x[1],
          product(spatial(x)),
          (size - 1) / 2,
          size / 2,
          a.real("alpha", 1e-4f) / static_cast<double>(size),
          a.real("beta", 0.75f),
          a.real("bias", 1.f),
          request.options.threads};
}

// Calls body(x's offset of channel 0) for every place of every sample, split over the threads.
template <class Body>
void for_each_place(const Problem& p, const Body& body) {
  const std::int64_t places = p.samples * p.plane;
  const int parts = threads_for(places * p.channels, p.threads);
  parallel(parts, [&](int part) {
    const Range range = part_of(places, part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i) body((i / p.plane) * p.channels * p.plane + i % p.plane);
  });
}

template <class T>
double sum_at(const Problem& p, const T* x, std::int64_t channel) {
  double squares = 0;
  for (std::int64_t c = std::max<std::int64_t>(0, channel - p.before); c <= std::min(p.channels - 1, channel + p.behind); ++c)
    squares += static_cast<double>(x[c * p.plane]) * x[c * p.plane];
  return p.bias + p.alpha_share * squares;
}

}  // namespace

Descriptions describe_lrn(const KernelRequest& request) {
  if (!is_real(request.inputs[0]) || request.inputs[0].shape.rank() < 2) return {};
  const bool training = request.op == "LRNTraining";
  const Problem p = problem_of(request);
  KernelDescription d = dense_description(request, training ? "native.lrn_training" : "native.lrn");
  if (training) d.outputs[1] = {DType::uint8, Shape{0}, Layout::opaque("native")};
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_place(p, [&](std::int64_t at) {
        const T* const x = m.in<T>(0) + at;
        for (std::int64_t c = 0; c < p.channels; ++c)
          m.out<T>(0)[at + c * p.plane] = static_cast<T>(x[c * p.plane] * std::pow(sum_at(p, x, c), -p.beta));
      });
    });
  });
  return {d};
}

Descriptions describe_lrn_backward(const KernelRequest& request) {
  if (!is_real(request.inputs[0]) || request.inputs[3].layout != Layout::opaque("native")) return {};
  const Problem p = problem_of(request);
  KernelDescription d = dense_description(request, "native.lrn_backward");
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_place(p, [&](std::int64_t at) {
        const T *const x = m.in<T>(0) + at, *const y = m.in<T>(1) + at, *const dy = m.in<T>(2) + at;
        for (std::int64_t i = 0; i < p.channels; ++i) {
          double others = 0;
          for (std::int64_t c = std::max<std::int64_t>(0, i - p.behind); c <= std::min(p.channels - 1, i + p.before); ++c)
            others += dy[c * p.plane] * y[c * p.plane] / sum_at(p, x, c);
          m.out<T>(0)[at + i * p.plane] = static_cast<T>(dy[i * p.plane] * std::pow(sum_at(p, x, i), -p.beta) -
                                                         2 * p.alpha_share * p.beta * x[i * p.plane] * others);
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
