// CumSum(x) {axis, exclusive, reverse}, CumProd; CumProdBackward(dy, x) {the same}. Row-major.
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

// Floats are summed in double, integers as unsigned ones, in which arithmetic wraps.
template <class T>
using Running = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

struct Lines {
  Extent e;
  bool exclusive, reverse;
  int parts;

  // visit(place of the first element, step to the next) for each line.
  template <class Visit>
  void each(const Visit& visit) const {
    parallel(parts, [&](int k) {
      const Range r = part_of(e.outer * e.inner, k, parts);
      for (std::int64_t line = r.begin; line < r.end; ++line) {
        const std::int64_t first = line / e.inner * e.axis * e.inner + line % e.inner;
        visit(reverse ? first + (e.axis - 1) * e.inner : first, reverse ? -e.inner : e.inner);
      }
    });
  }
};

Lines lines_of(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Extent e = extent_of(x, normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis")));
  return {e, request.attributes->integer("exclusive", 0) != 0, request.attributes->integer("reverse", 0) != 0,
          threads_for(x.elements(), request.options.threads)};
}

}  // namespace

Descriptions describe_cumulative(const KernelRequest& request) {
  const Lines lines = lines_of(request);
  const bool sum = request.op == "CumSum";
  KernelDescription d = row_major_description(sum ? "native.cumulative_sum" : "native.cumulative_product", request, 0.2);
  if (size_of(request.inputs[0].dtype) < 4 || request.inputs[0].dtype == DType::boolean) return {};
  visit_number(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const T* const x = m.in<T>(0);
      T* const y = m.out<T>(0);
      lines.each([&](std::int64_t i, std::int64_t step) {
        auto running = static_cast<Running<T>>(sum ? 0 : 1);
        for (std::int64_t k = 0; k < lines.e.axis; ++k, i += step) {
          const auto value = static_cast<Running<T>>(x[i]), next = sum ? running + value : running * value;
          y[i] = static_cast<T>(lines.exclusive ? running : next);
          running = next;
        }
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_cumulative_product_backward(const KernelRequest& request) {
  const Lines lines = lines_of(request);
  const DType dtype = request.inputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  KernelDescription d = row_major_description("native.cumulative_product_backward", request, 0.2);
  visit_float(dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const T *const dy = m.in<T>(0), *const x = m.in<T>(1);
      T* const dx = m.out<T>(0);
      lines.each([&](std::int64_t i, std::int64_t step) {
        double before = 1, behind = 0;
        for (std::int64_t k = 0; k < lines.e.axis; ++k, i += step) {
          dx[i] = static_cast<T>(before);
          before *= static_cast<double>(x[i]);
        }
        for (std::int64_t k = 0; k < lines.e.axis; ++k) {
          i -= step;
          if (!lines.exclusive) behind += static_cast<double>(dy[i]);
          dx[i] = static_cast<T>(static_cast<double>(dx[i]) * behind);
          behind *= static_cast<double>(x[i]);
          if (lines.exclusive) behind += static_cast<double>(dy[i]);
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
