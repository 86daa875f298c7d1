// LookUp(x, table) {axis} → y, each in row-major or channels-last order, y in the plan's: what reads images next wants them so.
#include "kernels/cuda/bodies/look_up.h"

#include <algorithm>

#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {
namespace {

enum Walked : std::size_t { of_y, of_x, of_table };

// Along each axis what a step moves in y, x and the table.
std::vector<LoopDim> loops_of(const KernelDescription& d, int axis) {
  const std::vector<std::int64_t> y = strides_of(d.outputs[0]), x = strides_of(d.inputs[0]);
  const std::int64_t row = d.inputs[1].shape[0] > 1 ? look_up_bytes : 0;
  std::vector<LoopDim> dims;
  for (int i = 0; i < d.outputs[0].shape.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    dims.push_back({d.outputs[0].shape[i], {y[at], x[at], i == axis ? row : 0}});
  }
  return ordered(std::move(dims));
}

LookUpLoops made_of(const std::vector<LoopDim>& dims) {
  LookUpLoops loops{.sizes = {divider(1), divider(1), divider(1)}};
  for (std::size_t i = 0, to = std::size(loops.sizes) - dims.size(); i < dims.size(); ++i, ++to) {
    loops.sizes[to] = divider(dims[i].size);
    loops.x[to] = static_cast<std::int32_t>(dims[i].strides[of_x]);
    loops.table[to] = static_cast<std::int32_t>(dims[i].strides[of_table]);
  }
  for (std::size_t d = 0; d < 2; ++d) {
    const auto size = static_cast<std::int32_t>(loops.sizes[d + 1].divisor);
    loops.x_carry[d] = loops.x[d] - size * loops.x[d + 1];
    loops.table_carry[d] = loops.table[d] - size * loops.table[d + 1];
  }
  return loops;
}

}  // namespace

Descriptions describe_look_up(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.look_up", Layout::row_major(request.inputs[0].shape.rank()));
  d.inputs[1].layout = Layout::row_major(2);
  const int axis = static_cast<int>(request.attributes->integer("axis")), rank = d.outputs[0].shape.rank();
  const bool open = !request.outputs[0].layout.plain() || request.outputs[0].layout.any();
  if (open)
    d.outputs[0].layout = axis != 1 || rank < 3                                           ? d.inputs[0].layout
                          : request.options.preference == LayoutPreference::channels_last ? Layout::channels_last(rank)
                                                                                          : Layout::row_major(rank);
  const std::size_t size = size_of(d.outputs[0].dtype);
  if (!fit_index(d) || (size != 2 && size != 4)) return {};
  std::vector<LoopDim> dims = loops_of(d, axis);
  if (dims.size() > std::size(LookUpLoops{}.sizes)) {
    for (Operand* o : {&d.inputs[0], &d.outputs[0]}) o->layout = Layout::row_major(rank);
    dims = loops_of(d, axis);
  }
  const bool straight = std::ranges::all_of(dims, [](const LoopDim& dim) { return dim.strides[of_x] == dim.strides[of_y]; });
  const auto rows = static_cast<int>(d.inputs[1].shape[0]);
  d.efficiency = 0.8;
  const auto make = [&]<class T, bool as_it_lies, bool shared>() {
    d.make = launches([rows, elements = d.outputs[0].shape.elements(), loops = made_of(dims)](const Buffers& b) {
      using Body = LookUpBody<T, as_it_lies, shared>;
      return launches_over(Body{b.in<std::uint8_t>(0), b.in<T>(1), b.out<T>(0), rows, elements, loops}, ceil_div(elements, Body::width));
    });
  };
  const auto of_size = [&]<class T>() {
    if (rows > most_shared_rows) return straight ? make.template operator()<T, true, false>() : make.template operator()<T, false, false>();
    straight ? make.template operator()<T, true, true>() : make.template operator()<T, false, true>();
  };
  size == 2 ? of_size.template operator()<std::uint16_t>() : of_size.template operator()<std::uint32_t>();
  return {d};
}

}  // namespace tandem::cuda
