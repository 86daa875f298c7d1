// Dropout, which is its own gradient.
#include "kernels/cuda/native/dropout.h"

#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/nest.h"
#include "kernels/sample_runs.h"

namespace tandem::cuda {

Descriptions describe_dropout(const KernelRequest& request, Libraries*) {
  const SampleRuns runs(*request.attributes, request.inputs[0].shape);
  const int rank = request.inputs[0].shape.rank();
  // Samples that do not lie one behind the other are counted in row-major order alone.
  KernelDescription d = description_of(request, "native.dropout", runs.consecutive() ? layout_of(request, rank) : Layout::row_major(rank));
  const Operand& x = d.inputs[0];
  if (!is_storage_float(x.dtype) || !fit_index(d)) return {};
  const std::int64_t elements = x.shape.elements();
  d.outputs[0].layout = x.layout;
  d.in_place = {{0, 0}};
  d.efficiency = 0.6;
  std::vector<LoopDim> dims;
  const std::vector<std::int64_t> memory = strides_of(x), number = strides_of(x.shape, Layout::row_major(rank));
  for (std::size_t axis = 0; axis < memory.size(); ++axis) dims.push_back({x.shape.dims[axis], {memory[axis], number[axis]}});
  const auto nest = nest_of<1>(ordered(std::move(dims)), {1});
  if (!nest) return {};
  DropoutRule rule = dropout_rule(*request.attributes, runs.inside);
  rule.outside = runs.outside;
  rule.samples = runs.samples;
  rule.counted = runs.counted;
  rule.run = runs.run;
  rule.stride = runs.stride;
  rule.begin = runs.begin;
  const std::int64_t channels = rank > 1 ? x.shape[1] : 1,
                     positions = rank > 1 && x.shape[0] > 0 && channels > 0 ? elements / (x.shape[0] * channels) : 1;
  const bool by_channels = rank > 2 && runs.consecutive() && x.layout == Layout::channels_last(rank) && elements > 0 && positions % 4 == 0;
  visit_storage(x.dtype, [&]<class T>() {
    d.make = launches([=, row_major = x.layout.is_row_major(), numbers = *nest](const Buffers& b) -> Launches {
      DropoutRule bound = rule;
      bound.random = b.in<std::int64_t>(1);
      const auto with = [&]<bool runs>() -> Launches {
        const auto in_packs = [&]<int width>() {
          return launches_over(DropoutPacksBody<T, width, runs>{b.in<T>(0), b.out<T>(0), bound, elements / width}, elements / width);
        };
        const bool packs = row_major && rule.stride == 0;
        if (packs && sizeof(T) == 2 && rule.inside % 8 == 0) return in_packs.template operator()<8>();
        if (packs && rule.inside % 4 == 0) return in_packs.template operator()<4>();
        if constexpr (!runs)
          if (by_channels)
            return launches_over(DropoutChannelsBody<T>{b.in<T>(0), b.out<T>(0), bound, divider(channels), divider(positions / 4),
                                                        static_cast<std::uint32_t>(elements / 4)},
                                 elements / 4);
        return launches_over(DropoutBody<T, runs>{b.in<T>(0), b.out<T>(0), bound, elements, row_major, numbers}, elements);
      };
      return rule.outside == 1 && rule.stride == 0 ? with.template operator()<false>() : with.template operator()<true>();
    });
  });
  return {d};
}

}  // namespace tandem::cuda
