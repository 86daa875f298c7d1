// Det(x[...,n,n]) → y and DetBackward(x, dy) → dx = dy · adjᵀ(x), row-major, by elimination with the largest pivot of all that is left:
// P x Q = L U. The adjugate needs no division by the last pivot, so that it is exact where x has no inverse, too:
//   adj(x) = s · Q adj(U) L⁻¹ P with s = det P · det Q, and for U = [V v; 0 p]: adj(U) = det V · [p V⁻¹, −V⁻¹ v; 0, 1]
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/elimination.h"

namespace tandem::native {
namespace {

// dx = factor · adjᵀ; `w` has room for n numbers.
template <class T>
void adjugate(const Elimination& e, double factor, double* w, T* dx) {
  const std::int64_t n = e.n, last = n - 1;
  const double before = e.product(last) * factor, end = n > 0 ? e.lu[last * n + last] : 0;
  for (std::int64_t column = 0; column < n; ++column) {  // of L⁻¹: w = adj(U) L⁻¹ 1_column
    std::fill_n(w, n, 0.0);
    w[column] = 1;
    for (std::int64_t i = column + 1; i < n; ++i)
      for (std::int64_t j = column; j < i; ++j) w[i] -= e.lu[i * n + j] * w[j];
    // V⁻¹ (p · u − v · u_last) for the upper part u, times det V; where V has no inverse det V is 0, and so is all.
    for (std::int64_t i = 0; i < last; ++i) w[i] = before == 0 ? 0 : end * w[i] - e.lu[i * n + last] * w[last];
    for (std::int64_t i = last; i-- > 0;) {
      for (std::int64_t j = i + 1; j < last; ++j) w[i] -= e.lu[i * n + j] * w[j];
      if (before != 0) w[i] /= e.lu[i * n + i];
    }
    // adj = Q (…) P: row columns[i], column rows[column]; dx is its transpose.
    for (std::int64_t i = 0; i < n; ++i)
      dx[static_cast<std::int64_t>(e.rows[column]) * n + static_cast<std::int64_t>(e.columns[i])] = static_cast<T>(before * w[i]);
  }
}

struct Matrices {
  std::int64_t count, n;
  int parts;
  explicit Matrices(const KernelRequest& request) : n(request.inputs[0].shape[request.inputs[0].shape.rank() - 1]) {
    const Shape& x = request.inputs[0].shape;
    count = 1;
    for (int i = 0; i < x.rank() - 2; ++i) count *= x[i];
    parts =
        static_cast<int>(std::min<std::int64_t>(threads_for(count * n * n * n, request.options.threads), std::max<std::int64_t>(1, count)));
  }
  std::int64_t room() const { return n * n + 3 * n; }  // doubles of a part
};

template <class Each>
Descriptions describe(const KernelRequest& request, const char* kernel, const Each& each) {
  if (!is_real(request.inputs[0])) return {};
  const Matrices all(request);
  KernelDescription d = row_major_description(kernel, request, 0.3);
  d.workspace = all.parts * all.room() * static_cast<std::int64_t>(sizeof(double));
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      parallel(all.parts, [&](int k) {
        double* const room = reinterpret_cast<double*>(m.workspace) + k * all.room();
        const Range r = part_of(all.count, k, all.parts);
        for (std::int64_t i = r.begin; i < r.end; ++i) {
          Elimination e{all.n, room, room + all.n * all.n, room + all.n * all.n + all.n};
          e.run(m.in<T>(0) + i * all.n * all.n);
          each.template operator()<T>(m, e, i, room + all.n * all.n + 2 * all.n);
        }
      });
    });
  });
  return {d};
}

}  // namespace

Descriptions describe_det(const KernelRequest& request) {
  return describe(request, "native.det", []<class T>(const Memory& m, const Elimination& e, std::int64_t i, double*) {
    m.out<T>(0)[i] = static_cast<T>(e.product(e.n));
  });
}

Descriptions describe_det_backward(const KernelRequest& request) {
  return describe(request, "native.det_backward", []<class T>(const Memory& m, const Elimination& e, std::int64_t i, double* room) {
    adjugate(e, static_cast<double>(m.in<T>(1)[i]), room, m.out<T>(0) + i * e.n * e.n);
  });
}

}  // namespace tandem::native
