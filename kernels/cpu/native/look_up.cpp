// LookUp(x, table) {axis} → y, x in row-major or channels-last order. y lies row-major, as an input of numbers does: what reads it is
// planned as for that, and gives the same bits.
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t bytes = 256;

// How elements lie by what is outside of the channels, the channels, and what is inside of them.
struct Strides {
  std::int64_t outer, channel, inner;
};
Strides strides_in(const Layout& layout, const Extent& e) {
  const bool last = !layout.is_row_major();
  return {e.axis * e.inner, last ? 1 : e.inner, last ? e.axis : 1};
}

// One channel's elements. The usual steps are the compiler's to see.
template <class T>
void look_up(const std::uint8_t* x, std::int64_t step, const T* table, T* y, std::int64_t out, std::int64_t count) {
  const auto along = [&](auto s, auto o) {
    for (std::int64_t i = 0; i < count; ++i) y[i * o] = table[x[i * s]];
  };
  const std::integral_constant<std::int64_t, 1> one;
  const std::integral_constant<std::int64_t, 3> three;
  if (step == 1 && out == 1) return along(one, one);
  if (step == 3 && out == 1) return along(three, one);
  if (step == 3 && out == 3) return along(three, three);
  along(step, out);
}

}  // namespace

Descriptions describe_look_up(const KernelRequest& request) {
  constexpr std::int64_t block = 4096;  // elements of a channel, whose bytes the others find in the cache
  const Shape& shape = request.inputs[0].shape;
  const int rank = shape.rank(), axis = static_cast<int>(request.attributes->integer("axis"));
  KernelDescription d = row_major_description("native.look_up", request, 0.3);
  if (axis == 1 && rank > 2 && request.inputs[0].layout == Layout::channels_last(rank)) d.inputs[0].layout = request.inputs[0].layout;
  const std::int64_t rows = request.inputs[1].shape[0];
  Extent e = extent_of(shape, axis);
  if (rows == 1 && d.inputs[0].layout.is_row_major()) e = {.inner = shape.elements()};
  Strides from = strides_in(d.inputs[0].layout, e), to = strides_in(d.outputs[0].layout, e);
  if (e.inner == 1) {  // the channels are innermost
    e = {.outer = 1, .axis = e.axis, .inner = e.outer};
    from = to = {shape.elements(), 1, e.axis};
  }
  const std::int64_t blocks = (e.inner + block - 1) / block;
  const int parts = threads_for(shape.elements(), request.options.threads);
  visit_size(size_of(d.outputs[0].dtype), [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      parallel(parts, [&](int part) {
        const Range r = part_of(e.outer * blocks, part, parts);
        for (std::int64_t i = r.begin; i < r.end; ++i) {
          const std::int64_t outer = i / blocks, begin = i % blocks * block, count = std::min(block, e.inner - begin);
          for (std::int64_t c = 0; c < e.axis; ++c)
            look_up(m.in<std::uint8_t>(0) + outer * from.outer + c * from.channel + begin * from.inner, from.inner,
                    m.in<T>(1) + (rows > 1 ? c : 0) * bytes, m.out<T>(0) + outer * to.outer + c * to.channel + begin * to.inner, to.inner,
                    count);
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
