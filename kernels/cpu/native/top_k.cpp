// TopK(x) {axis, k, largest} → values, indices. Row-major.
#include "graph/half.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

// Of equal elements the first comes first; NaN counts as largest.
Descriptions describe_top_k(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = normalize_axis(request.attributes->integer("axis", -1), x.rank(), concat(request.op, "'s axis"));
  const Extent e = extent_of(x, axis);
  const std::int64_t count = request.attributes->integer("k");
  const bool largest = request.attributes->integer("largest", 1) != 0;
  const int parts = threads_for(x.elements() * 4, request.options.threads);
  KernelDescription d = row_major_description("native.top_k", request, 0.1);
  d.workspace = parts * e.axis * static_cast<std::int64_t>(sizeof(std::int64_t));
  if (count > e.axis || request.outputs[1].dtype != DType::int64) return {};
  visit_storable(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      parallel(parts, [&](int k) {
        auto* const order = reinterpret_cast<std::int64_t*>(m.workspace) + k * e.axis;
        const Range r = part_of(e.outer * e.inner, k, parts);
        for (std::int64_t line = r.begin; line < r.end; ++line) {
          const T* const from = m.in<T>(0) + line / e.inner * e.axis * e.inner + line % e.inner;
          const std::int64_t to = line / e.inner * count * e.inner + line % e.inner;
          const auto number = [&](std::int64_t i) {
            if constexpr (std::is_arithmetic_v<T>)
              return from[i * e.inner];
            else
              return number_as<float>(from[i * e.inner]);
          };
          for (std::int64_t i = 0; i < e.axis; ++i) order[i] = i;
          std::partial_sort(order, order + count, order + e.axis, [&](std::int64_t i, std::int64_t j) {
            const auto a = number(i), b = number(j);
            const bool more = a > b || (a != a && b == b), less = b > a || (b != b && a == a);
            return more || less ? more == largest : i < j;
          });
          for (std::int64_t i = 0; i < count; ++i) {
            if (m.outputs[0]) m.out<T>(0)[to + i * e.inner] = from[order[i] * e.inner];
            if (m.outputs[1]) m.out<std::int64_t>(1)[to + i * e.inner] = order[i];
          }
        }
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
