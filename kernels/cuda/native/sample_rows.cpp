// SampleRows and its gradients.
#include "kernels/cuda/bodies/sample_rows.h"

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {
namespace {

SampleSizes sizes_of(const Shape& x, const Shape& index) { return {x[1], index[1], index[2], x[2]}; }

}  // namespace

Descriptions describe_sample_rows(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.sample_rows");
  if (!is_storage_float(d.inputs[0].dtype)) return {};
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches(
        [s = sizes_of(d.inputs[0].shape, d.inputs[1].shape), elements = d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
          const SampleRowsBody<T> body{b.in<T>(0), b.in<std::int64_t>(1), b.in<Compute<T>>(2), b.out<T>(0), s, elements};
          return [body, blocks = blocks_for(elements, SampleRowsBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
        });
  });
  return {d};
}

Descriptions describe_sample_rows_backward_data(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.sample_rows_backward_data");
  if (!is_storage_float(d.inputs[0].dtype)) return {};
  const Shape& x = d.outputs[0].shape;
  d.efficiency = 0.1;
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    constexpr bool in_place = std::is_same_v<T, Compute<T>>;
    if (!in_place) d.workspace = align_up(x.elements() * static_cast<std::int64_t>(sizeof(Compute<T>)));
    d.make = launches([s = sizes_of(x, d.inputs[1].shape), lines = x[0] * x[2]](const Buffers& b) -> Launches {
      auto* const sums = in_place ? b.out<Compute<T>>(0) : reinterpret_cast<Compute<T>*>(b.workspace);
      const SampleRowsBackwardDataBody<T> body{b.in<T>(0), b.in<std::int64_t>(1), b.in<Compute<T>>(2), sums, b.out<T>(0), s, lines};
      return [body, blocks = blocks_for(lines, SampleRowsBackwardDataBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

Descriptions describe_sample_rows_backward_weights(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.sample_rows_backward_weights");
  if (!is_storage_float(d.inputs[0].dtype)) return {};
  d.efficiency = 0.2;
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches([s = sizes_of(d.inputs[0].shape, d.inputs[2].shape),
                       elements = d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
      const SampleRowsBackwardWeightsBody<T> body{b.in<T>(0), b.in<T>(1), b.in<std::int64_t>(2), b.out<Compute<T>>(0), s, elements};
      return
          [body, blocks = blocks_for(elements, SampleRowsBackwardWeightsBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
