// ArgMax, ArgMin {axis, select_last_index}. Row-major.
#include <algorithm>
#include <optional>

#include "graph/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"
#include "kernels/cpu/native/vector/vector.h"

namespace tandem::native {
namespace {

// Where the first of a row's largest lies; absent where one is NaN. The largest is looked for by a vector kernel, then by whole blocks.
template <class T>
std::optional<std::int64_t> first_of_largest(const vector::Reductions<T>& v, const T* x, std::int64_t n) {
  constexpr std::int64_t block = 64;
  const T top = v.row[vector::reduce_max](x, n, x[0]);
  if (top != top) return std::nullopt;
  std::int64_t i = 0;
  for (; i + block <= n; i += block) {
    int found = 0;
    for (std::int64_t k = 0; k < block; ++k) found |= x[i + k] == top;
    if (found) break;
  }
  return std::find(x + i, x + n, top) - x;
}

}  // namespace

// The first (or last) of the largest; NaN counts as largest.
Descriptions describe_arg_max(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Extent e = extent_of(x, normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis")));
  const bool last = request.attributes->integer("select_last_index", 0) != 0, smallest = request.op == "ArgMin";
  const int parts = threads_for(e.outer * e.axis * e.inner, request.options.threads);
  KernelDescription d = row_major_description(smallest ? "native.arg_min" : "native.arg_max", request, 0.2);
  if (size_of(request.inputs[0].dtype) == 0 || request.outputs[0].dtype != DType::int64) return {};
  visit_storable(request.inputs[0].dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(e.outer * e.inner, k, parts);
          for (std::int64_t row = r.begin; row < r.end; ++row) {
            const T* const values = m.in<T>(0) + row / e.inner * e.axis * e.inner + row % e.inner;
            if constexpr (std::is_floating_point_v<T>)
              if (e.inner == 1 && !last && !smallest)
                if (const auto first = first_of_largest(*vector_table().of<T>().reductions, values, e.axis)) {
                  m.out<std::int64_t>(0)[row] = *first;
                  continue;
                }
            std::int64_t best = 0;
            for (std::int64_t i = 1; i < e.axis; ++i) {
              const T now = values[i * e.inner], then = values[best * e.inner];
              const bool better = smallest ? now < then : now > then;
              if (better || (now != now && then == then) || (last && now == then)) best = i;
            }
            m.out<std::int64_t>(0)[row] = best;
          }
        });
      });
    }
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
