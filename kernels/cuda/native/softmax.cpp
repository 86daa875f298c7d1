// Softmax and LogSoftmax along one axis, a line of elements at a time. Either of x and y may be of 16 bits where the other is float32.
#include "kernels/cuda/bodies/softmax.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/lines.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t longest_thread_line = 64;  // longer contiguous lines take a block each

// visit_pair(x, y, [&]<class T, class Y>() {...}) of the types that a kernel reads and writes; false: there is none.
template <class F>
bool visit_pair(DType x, DType y, F&& f) {
  if (x == y)
    visit_storage(x, [&]<class T>() { f.template operator()<T, T>(); });
  else if (x == DType::float32 && is_16_bit(y))
    y == DType::float16 ? f.template operator()<float, Half>() : f.template operator()<float, BFloat16>();
  else if (is_16_bit(x) && y == DType::float32)
    x == DType::float16 ? f.template operator()<Half, float>() : f.template operator()<BFloat16, float>();
  else
    return false;
  return true;
}

}  // namespace

Descriptions describe_softmax(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d =
      description_of(request, request.op == "LogSoftmax" ? "native.log_softmax" : "native.softmax", layout_of(request, rank));
  d.outputs[0].layout = d.inputs[0].layout;
  if (!is_storage_float(d.inputs[0].dtype) || rank == 0 || !fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", -1), rank, "axis");
  const Lines r = lines_of(d.inputs[0], axis);
  const auto nest = nest_of<1>(r.others, {1});
  if (!nest) return {};
  const bool logarithm = request.op == "LogSoftmax";
  const std::int64_t count = trips(r.others);
  if (d.inputs[0].dtype == d.outputs[0].dtype) d.in_place = {{0, 0}};
  d.efficiency = 0.5;
  const bool known = visit_pair(d.inputs[0].dtype, d.outputs[0].dtype, [&]<class T, class Y>() {
    d.make = launches([=, length = r.length, stride = r.stride](const Buffers& b) {
      using Line = SoftmaxThreadBody<T, Y>;
      if (length > longest_thread_line && stride == 1)
        return launches_of(SoftmaxBody<T, Y>{b.in<T>(0), b.out<Y>(0), length, stride, *nest, logarithm}, count);
      return launches_of(Line{b.in<T>(0), b.out<Y>(0), length, stride, static_cast<std::uint32_t>(count), *nest, logarithm},
                         blocks_for(count, Line::threads));
    });
  });
  return known ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::cuda
