// Softmax: exp(x − max)/Σ exp(x − max) along one axis; LogSoftmax: x − max − log Σ exp(x − max).
#include <cmath>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

// A row whose elements lie side by side; y may be x.
template <class T>
void softmax_row(const vector::Reductions<T>& v, const T* x, T* y, std::int64_t n, bool log) {
  T top, sum;
  v.exponentials(x, log ? nullptr : y, n, &top, &sum);
  if (log)
    v.shift(x, y, n, top, std::log(sum));
  else
    v.scale(y, y, n, 1 / sum);
}

constexpr std::int64_t columns = 64;  // lines side by side that are computed at a time

}  // namespace

Descriptions describe_softmax(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  if (!is_real(x) || x.shape.rank() == 0) return {};
  const bool log = request.op == "LogSoftmax";
  const int axis = normalize_axis(request.attributes->integer("axis", -1), x.shape.rank(), request.op);
  const std::int64_t size = x.shape[axis], inner = product(Ints(x.shape.begin() + axis + 1, x.shape.end()));
  const std::int64_t lines = size == 0 ? 0 : x.shape.elements() / size;
  const std::int64_t blocks = (inner + columns - 1) / columns, groups = inner == 0 ? 0 : lines / inner * blocks;
  const int parts = threads_for(lines * size, request.options.threads, 1024);
  KernelDescription d = dense_description(request, log ? "native.log_softmax" : "native.softmax");
  if (inner == 1 || !log) d.in_place = {{0, 0}};
  visit_float(x.dtype, [&]<class T>() {
    const vector::Reductions<T>& v = *vector_table().of<T>().reductions;
    d.make = make_kernel([=, &v](const Memory& m) {
      parallel(parts, [&](int part) {
        if (inner == 1) {
          const Range range = part_of(lines, part, parts);
          for (std::int64_t line = range.begin; line < range.end; ++line)
            softmax_row(v, m.in<T>(0) + line * size, m.out<T>(0) + line * size, size, log);
          return;
        }
        const Range range = part_of(groups, part, parts);
        for (std::int64_t block = range.begin; block < range.end; ++block) {
          const std::int64_t first = block / blocks * size * inner + block % blocks * columns;
          v.softmax_of_columns(m.in<T>(0) + first, m.out<T>(0) + first, std::min(columns, inner - block % blocks * columns), size, inner,
                               log);
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
