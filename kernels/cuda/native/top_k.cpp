// TopK(x) {axis, k, largest} → values, indices. Row-major.
#include "kernels/cuda/bodies/top_k.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {

Descriptions describe_top_k(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.top_k");
  const Shape& x = d.inputs[0].shape;
  const int axis = normalize_axis(request.attributes->integer("axis", -1), x.rank(), "axis");
  const std::int64_t k = request.attributes->integer("k"), length = x[axis];
  const bool largest = request.attributes->integer("largest", 1) != 0;
  std::int64_t inner = 1, count = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) count *= x[i];
    if (i > axis) inner *= x[i];
  }
  if (k > length || d.outputs[1].dtype != DType::int64) return {};
  const auto make = [&]<class T>() {
    d.make = launches([=](const Buffers& b) {
      return launches_over(TopKBody<T>{b.in<T>(0), b.out<T>(0), b.out<std::int64_t>(1), length, inner, k, count, largest}, count);
    });
  };
  const DType dtype = d.inputs[0].dtype;
  if (is_storage_float(dtype)) visit_storage(dtype, make);
  if (dtype == DType::int32) make.template operator()<std::int32_t>();
  if (dtype == DType::int64) make.template operator()<std::int64_t>();
  if (dtype == DType::uint64) make.template operator()<std::uint64_t>();
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::cuda
