// Det and DetBackward, row-major.
#include "kernels/cuda/bodies/det.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

template <bool gradient>
Descriptions describe(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = row_major_description(request, kernel);
  const Shape& x = d.inputs[0].shape;
  const DType dtype = d.inputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const std::int64_t n = x[x.rank() - 1];
  std::int64_t count = 1;
  for (int i = 0; i < x.rank() - 2; ++i) count *= x[i];
  d.workspace = count * (n * n + 3 * n) * static_cast<std::int64_t>(sizeof(double));
  d.efficiency = 0.05;
  visit_float(dtype, [&]<class T>() {
    d.make = launches([=](const Buffers& b) {
      return launches_over(
          DetBody<T, gradient>{b.in<T>(0), gradient ? b.in<T>(1) : nullptr, b.out<T>(0), reinterpret_cast<double*>(b.workspace), count, n},
          count);
    });
  });
  return {d};
}

}  // namespace

Descriptions describe_det(const KernelRequest& request, Libraries*) { return describe<false>(request, "native.det"); }
Descriptions describe_det_backward(const KernelRequest& request, Libraries*) { return describe<true>(request, "native.det_backward"); }

}  // namespace tandem::cuda
