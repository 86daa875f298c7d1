// Softmax: exp(x − max)/Σ exp(x − max) along one axis; LogSoftmax: x − max − log Σ exp(x − max).
#include <cmath>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

// A row whose elements lie side by side.
template <class T>
void softmax_row(const vector::Reductions<T>& v, const T* x, T* y, std::int64_t n, bool log) {
  T top, sum;
  v.exponentials(x, y, n, &top, &sum);
  const T log_sum = log ? std::log(sum) : T(0);
  if (log)
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - top - log_sum;
  else
    for (std::int64_t i = 0; i < n; ++i) y[i] /= sum;
}

}  // namespace

Descriptions describe_softmax(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  if (!is_real(x) || x.shape.rank() == 0) return {};
  const bool log = request.op == "LogSoftmax";
  const int axis = normalize_axis(request.attributes->integer("axis", -1), x.shape.rank(), request.op);
  const std::int64_t size = x.shape[axis], inner = product(Ints(x.shape.begin() + axis + 1, x.shape.end()));
  const std::int64_t lines = size == 0 ? 0 : x.shape.elements() / size;
  const int threads = request.options.threads;
  KernelDescription d = dense_description(request, log ? "native.log_softmax" : "native.softmax");
  visit_float(x.dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const int parts = threads_for(lines * size, threads, 1024);
      parallel(parts, [&](int part) {
        const Range range = part_of(lines, part, parts);
        for (std::int64_t line = range.begin; line < range.end; ++line) {
          const std::int64_t first = line / inner * inner * size + line % inner;
          const T* const in = m.in<T>(0) + first;
          T* const out = m.out<T>(0) + first;
          if (inner == 1) {
            softmax_row(*vector_table().of<T>().reductions, in, out, size, log);
            continue;
          }
          T largest = in[0];
          for (std::int64_t i = 1; i < size; ++i) largest = std::max(largest, in[i * inner]);
          T sum = 0;
          for (std::int64_t i = 0; i < size; ++i) {
            const T e = std::exp(in[i * inner] - largest);
            sum += e;
            if (!log) out[i * inner] = e;
          }
          const T log_sum = std::log(sum);
          for (std::int64_t i = 0; i < size; ++i) out[i * inner] = log ? in[i * inner] - largest - log_sum : out[i * inner] / sum;
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
