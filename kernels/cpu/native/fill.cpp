// Fill() {value} → y: every element is the value; a blocked layout's padding stays zero.
#include "graph/half.h"
#include "graph/small_types.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

Descriptions describe_fill(const KernelRequest& request) {
  const Operand y = with_layout(request.outputs[0], layout_or_row_major(request.outputs[0]));
  if (y.layout.opaque()) return {};
  double value = 0;
  if (const AttributeValue* given = request.attributes->find("value")) {
    if (const auto* f = std::get_if<float>(given)) value = *f;
    else if (const auto* i = std::get_if<std::int64_t>(given)) value = static_cast<double>(*i);
    else if (const auto* t = std::get_if<Tensor>(given)) value = t->to_doubles().at(0);
    else return {};
  }
  KernelDescription d{.kernel = "native.fill", .inputs = {}, .outputs = {y}, .efficiency = 0.5};
  visit_storable(is_small(y.dtype) ? DType::uint8 : y.dtype, [&]<class T>() {
    const T element = number_as<T>(is_small(y.dtype) ? element_of(value, y.dtype) : value);
    const std::int64_t n = physical_elements(y.shape, y.layout);
    const int parts = threads_for(n, request.options.threads);
    d.make = [=] {
      const PaddingZero padding(y);
      return make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(n, k, parts);
          std::fill(m.out<T>(0) + r.begin, m.out<T>(0) + r.end, element);
        });
        if (padding.needed()) padding.run(m.outputs[0]);
      })();
    };
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
