// y = x·wᵀ + b over x[N, K], w[O, K]; dx = dy·w; dw = dyᵀ·x, db = Σ dy.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/gemm.h"

namespace tandem::native {
namespace {

// a[rows×inner]·b[inner×columns], the rows split over the threads.
template <class T>
void split_gemm(int threads, std::int64_t rows, std::int64_t columns, std::int64_t inner, Matrix<T> a, Matrix<T> b, T* c) {
  const int parts = threads_for(rows * columns * inner, threads);
  parallel(parts, [&](int part) {
    const Range r = part_of(rows, part, parts);
    gemm<T>(r.end - r.begin, columns, inner, {a.data + r.begin * a.row, a.row, a.column}, b, c + r.begin * columns, columns, false);
  });
}

struct Sizes {
  std::int64_t n, k, o;
};

Sizes sizes_of(const Shape& x, const Shape& w) { return {x[0], w[0] == 0 ? 0 : w.elements() / w[0], w[0]}; }

}  // namespace

Descriptions describe_inner_product(const KernelRequest& request) {
  if (!is_real(request.inputs[0])) return {};
  KernelDescription d = dense_description(request, "native.inner_product");
  const Sizes s = sizes_of(request.inputs[0].shape, request.inputs[1].shape);
  const bool bias = operand_at(request.inputs, 2).present(), relu = has_relu(*request.attributes);
  const int threads = request.options.threads;
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      T* const y = m.out<T>(0);
      split_gemm<T>(threads, s.n, s.o, s.k, {m.in<T>(0), s.k, 1}, {m.in<T>(1), 1, s.k}, y);
      if (!bias && !relu) return;
      for (std::int64_t n = 0; n < s.n; ++n)
        for (std::int64_t o = 0; o < s.o; ++o) {
          const T v = y[n * s.o + o] + (bias ? m.in<T>(2)[o] : T(0));
          y[n * s.o + o] = relu && !(v > 0) ? T(0) : v;
        }
    });
  });
  return {d};
}

Descriptions describe_inner_product_backward_data(const KernelRequest& request) {
  if (!is_real(request.inputs[0])) return {};
  KernelDescription d = dense_description(request, "native.inner_product_backward_data");
  const Sizes s = sizes_of(request.outputs[0].shape, request.inputs[1].shape);
  const int threads = request.options.threads;
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      split_gemm<T>(threads, s.n, s.k, s.o, {m.in<T>(0), s.o, 1}, {m.in<T>(1), s.k, 1}, m.out<T>(0));
    });
  });
  return {d};
}

Descriptions describe_inner_product_backward_weights(const KernelRequest& request) {
  if (!is_real(request.inputs[0])) return {};
  KernelDescription d = dense_description(request, "native.inner_product_backward_weights");
  const Sizes s = sizes_of(request.inputs[0].shape, request.outputs[0].shape);
  const bool bias = operand_at(request.outputs, 1).present();
  const int threads = request.options.threads;
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const T* const dy = m.in<T>(1);
      split_gemm<T>(threads, s.o, s.k, s.n, {dy, 1, s.o}, {m.in<T>(0), s.k, 1}, m.out<T>(0));
      if (!bias) return;
      T* const db = m.out<T>(1);
      std::fill_n(db, s.o, T(0));
      for (std::int64_t n = 0; n < s.n; ++n)
        for (std::int64_t o = 0; o < s.o; ++o) db[o] += dy[n * s.o + o];
    });
  });
  return {d};
}

}  // namespace tandem::native
