// CumSum(x) {axis, exclusive, reverse}, CumProd; CumProdBackward(dy, x). Row-major.
#include "kernels/cuda/bodies/cumulative.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

CumulativeLines lines_of(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Attributes& a = *request.attributes;
  const int axis = normalize_axis(a.integer("axis", 0), x.rank(), "axis");
  CumulativeLines lines{x[axis], 1, 1, a.integer("exclusive", 0) != 0, a.integer("reverse", 0) != 0};
  for (int d = 0; d < x.rank(); ++d) {
    if (d != axis) lines.count *= x[d];
    if (d > axis) lines.inner *= x[d];
  }
  return lines;
}

}  // namespace

Descriptions describe_cumulative(const KernelRequest& request, Libraries*) {
  const bool sum = request.op == "CumSum";
  KernelDescription d = row_major_description(request, sum ? "native.cumulative_sum" : "native.cumulative_product");
  const CumulativeLines lines = lines_of(request);
  const auto make = [&]<class T>() {
    d.make = launches([=](const Buffers& b) { return launches_over(CumulativeBody<T>{b.in<T>(0), b.out<T>(0), lines, sum}, lines.count); });
  };
  const DType dtype = d.inputs[0].dtype;
  if (is_storage_float(dtype)) visit_storage(dtype, make);
  if (dtype == DType::int32 || dtype == DType::uint32) make.template operator()<std::uint32_t>();
  if (dtype == DType::int64 || dtype == DType::uint64) make.template operator()<std::uint64_t>();
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_cumulative_product_backward(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.cumulative_product_backward");
  const CumulativeLines lines = lines_of(request);
  const auto make = [&]<class T>() {
    d.make = launches([=](const Buffers& b) {
      return launches_over(CumulativeProductBackwardBody<T>{b.in<T>(0), b.in<T>(1), b.out<T>(0), lines}, lines.count);
    });
  };
  if (d.inputs[0].dtype == DType::float32) make.template operator()<float>();
  if (d.inputs[0].dtype == DType::float64) make.template operator()<double>();
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::cuda
