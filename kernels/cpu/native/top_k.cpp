// TopK(x) {axis, k, largest} → values, indices. Row-major.
#include "graph/half.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t few = 32, block = 64;  // so few are held in order while a line is read, most of which is passed over by blocks

// From i on the first block with something that may come before `last`, the last of those held; behind all blocks else.
template <class T>
std::int64_t next_block(const T* x, std::int64_t i, std::int64_t end, T last, bool largest) {
  for (; i + block <= end; i += block) {
    int some = 0;
    if (largest)
      for (std::int64_t k = i; k < i + block; ++k) some |= !(x[k] <= last);  // NaN, too
    else
      for (std::int64_t k = i; k < i + block; ++k) some |= !(x[k] >= last);
    if (some) break;
  }
  return i;
}

}  // namespace

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
          const auto before = [&](std::int64_t i, std::int64_t j) {
            const auto a = number(i), b = number(j);
            const bool more = a > b || (a != a && b == b), less = b > a || (b != b && a == a);
            return more || less ? more == largest : i < j;
          };
          if (count > few) {
            for (std::int64_t i = 0; i < e.axis; ++i) order[i] = i;
            std::partial_sort(order, order + count, order + e.axis, before);
          } else if (count > 0) {
            for (std::int64_t i = 0, held = 0; i < e.axis; ++i) {
              if constexpr (std::is_arithmetic_v<T>)
                if (e.inner == 1 && held == count && i % block == 0) i = next_block(from, i, e.axis, from[order[count - 1]], largest);
              if (i == e.axis || (held == count && !before(i, order[count - 1]))) continue;
              std::int64_t at = held < count ? held++ : count - 1;
              for (; at > 0 && before(i, order[at - 1]); --at) order[at] = order[at - 1];
              order[at] = i;
            }
          }
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
