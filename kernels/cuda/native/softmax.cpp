// Softmax and LogSoftmax along one axis, a line of elements at a time.
#include "kernels/cuda/bodies/softmax.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/lines.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t longest_thread_line = 64;  // longer contiguous lines take a block each

}  // namespace

Descriptions describe_softmax(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, request.op == "LogSoftmax" ? "native.log_softmax" : "native.softmax", layout_of(request, rank));
  d.outputs[0].layout = d.inputs[0].layout;
  if (!is_storage_float(d.inputs[0].dtype) || rank == 0 || !fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", -1), rank, "axis");
  const Lines r = lines_of(d.inputs[0], axis);
  const auto nest = nest_of<1>(r.others, {1});
  if (!nest) return {};
  const bool logarithm = request.op == "LogSoftmax";
  const std::int64_t count = trips(r.others);
  d.in_place = {{0, 0}};
  d.efficiency = 0.5;
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches([=, length = r.length, stride = r.stride](const Buffers& b) {
      if (length > longest_thread_line && stride == 1) return launches_of(SoftmaxBody<T>{b.in<T>(0), b.out<T>(0), length, stride, *nest, logarithm}, count);
      return launches_of(SoftmaxThreadBody<T>{b.in<T>(0), b.out<T>(0), length, stride, static_cast<std::uint32_t>(count), *nest, logarithm}, blocks_for(count, SoftmaxThreadBody<T>::threads));
    });
  });
  return {d};
}

}  // namespace tandem::cuda
