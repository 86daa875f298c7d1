// ArgMax and ArgMin {axis, select_last_index}: where the largest or least element of each line lies. A warp or a block takes a line; a
// thread where lines lie side by side, and are enough for that.
#include "kernels/cuda/bodies/arg_max.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/lines.h"

namespace tandem::cuda {

Descriptions describe_arg_max(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  const bool largest = request.op == "ArgMax";
  KernelDescription d = description_of(request, largest ? "native.arg_max" : "native.arg_min", layout_of(request, rank));
  d.inputs[0].layout = Layout::row_major(rank);
  d.outputs[0].layout = Layout::row_major(d.outputs[0].shape.rank());
  if (rank == 0 || d.outputs[0].dtype != DType::int64 || !fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", 0), rank, "axis");
  const Lines r = lines_of(d.inputs[0], axis);
  const auto nest = nest_of<1>(r.others, {1});
  if (!nest) return {};
  const std::int64_t count = trips(r.others);
  const bool last = request.attributes->integer("select_last_index", 0) != 0;
  constexpr std::int64_t long_line = 1024, many_lines = 1 << 14;
  const auto make = [&]<class T>() {
    const auto by_line = [&]<int threads, int width>() {
      using Body = ArgLineBody<T, threads, width>;
      d.make = launches([=, packs = static_cast<std::int32_t>(r.length / width), stride = r.stride](const Buffers& b) {
        return launches_of(Body{b.in<T>(0), b.out<std::int64_t>(0), packs, stride, static_cast<std::uint32_t>(count), *nest, largest, last},
                           blocks_for(count, Body::lines_of_block));
      });
    };
    const auto by_lines = [&]<int width>() {
      r.length > long_line ? by_line.template operator()<256, width>() : by_line.template operator()<32, width>();
    };
    if (r.stride == 1 && r.length % full_pack<T> == 0) {
      by_lines.template operator()<full_pack<T>>();
    } else if (r.stride == 1 || count < many_lines) {
      by_lines.template operator()<1>();
    } else {
      d.make = launches([=, length = static_cast<std::int32_t>(r.length), stride = r.stride](const Buffers& b) {
        return launches_over(
            ArgBody<T>{b.in<T>(0), b.out<std::int64_t>(0), length, stride, static_cast<std::uint32_t>(count), *nest, largest, last}, count);
      });
    }
  };
  const DType dtype = d.inputs[0].dtype;
  if (dtype == DType::int32) make.template operator()<std::int32_t>();
  if (dtype == DType::int64) make.template operator()<std::int64_t>();
  if (is_float(dtype)) visit_storage(dtype, make);
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::cuda
