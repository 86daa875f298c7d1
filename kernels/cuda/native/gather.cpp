// Gather picks slices of x by indices, and its gradient adds them up where they came from. Row-major.
#include <limits>

#include "kernels/cuda/bodies/gather.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {
namespace {

struct Split {
  std::int64_t outer = 1, axis = 1, inner = 1, count = 1;
};
Split split_of(const Shape& x, std::int64_t axis, const Shape& indices) {
  const int a = normalize_axis(axis, x.rank(), "axis");
  Split s;
  for (int d = 0; d < x.rank(); ++d) (d < a ? s.outer : d == a ? s.axis : s.inner) *= x[d];
  s.count = indices.elements();
  return s;
}

bool index_type(DType t) { return t == DType::int32 || t == DType::int64; }

}  // namespace

Descriptions describe_gather(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.gather");
  const DType dtype = d.inputs[0].dtype;
  if (!index_type(d.inputs[1].dtype) || size_of(dtype) == 0) return {};
  const Split s = split_of(d.inputs[0].shape, request.attributes->integer("axis", 0), d.inputs[1].shape);
  const std::uint64_t invalid = is_float(dtype) ? pattern_of(dtype, std::numeric_limits<double>::quiet_NaN()) : 0;
  visit_bytes(size_of(dtype), [&]<class Unit>() {
    d.make = launches([=, wide = d.inputs[1].dtype == DType::int64](const Buffers& b) -> Launches {
      const GatherBody<Unit> body{b.in<Unit>(0), b.inputs[1], b.out<Unit>(0), static_cast<Unit>(invalid), wide, s.axis, s.count, s.inner, s.outer * s.count * s.inner};
      return [body, blocks = blocks_for(body.elements, GatherBody<Unit>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

Descriptions describe_gather_backward(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.gather_backward");
  const DType dtype = d.inputs[0].dtype;
  if (!index_type(d.inputs[1].dtype) || !is_storage_float(dtype)) return {};
  const Split s = split_of(d.outputs[0].shape, request.attributes->integer("axis", 0), d.inputs[1].shape);
  d.workspace = align_up(2 * s.count * static_cast<std::int64_t>(sizeof(std::int32_t)));
  visit_storage(dtype, [&]<class T>() {
    d.make = launches([=, wide = d.inputs[1].dtype == DType::int64](const Buffers& b) -> Launches {
      auto* const chain = reinterpret_cast<std::int32_t*>(b.workspace);
      const GatherChainBody link{b.inputs[1], chain, wide, s.axis, s.count};
      const GatherBackwardBody<T> add{b.in<T>(0), b.inputs[1], chain, b.out<T>(0), wide, s.axis, s.count, s.inner, s.outer * s.count * s.inner};
      return [link, add, zero = fill_launches(b.outputs[0], s.outer * s.axis * s.inner, sizeof(T), 0), chains = blocks_for(s.count, GatherChainBody::threads),
              blocks = blocks_for(add.elements, GatherBackwardBody<T>::threads)](void* stream) {
        zero(stream);
        launch(link, chains, stream);
        launch(add, blocks, stream);
      };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
