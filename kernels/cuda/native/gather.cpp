// Gather and GatherElements, and their gradients, row-major.
#include <algorithm>
#include <limits>

#include "kernels/cuda/bodies/gather.h"
#include "kernels/cuda/bodies/scatter.h"
#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/copy.h"
#include "kernels/cuda/native/sorted_places.h"

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
    visit_width<Unit>(s.inner, [&]<int width>() {
      d.make = launches([=, wide = d.inputs[1].dtype == DType::int64](const Buffers& b) {
        using Body = GatherBody<Unit, width>;
        const Body body{b.in<Unit>(0),
                        {b.inputs[1], wide, s.axis},
                        b.out<Unit>(0),
                        static_cast<Unit>(invalid),
                        s.count,
                        s.inner / width,
                        s.outer * s.count * s.inner / width};
        return launches_over(body, body.packs);
      });
    });
  });
  return {d};
}

Descriptions describe_gather_backward(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.gather_backward");
  const DType dtype = d.inputs[0].dtype;
  if (!index_type(d.inputs[1].dtype) || !is_storage_float(dtype)) return {};
  const Split s = split_of(d.outputs[0].shape, request.attributes->integer("axis", 0), d.inputs[1].shape);
  if (!can_be_sorted(s.count, s.axis)) return {};
  const std::int64_t pieces = ceil_div(s.count, gather_piece);
  visit_storage(dtype, [&]<class T>() {
    d.workspace = bytes_of_keys(s.count) + align_up(s.outer * pieces * 2 * s.inner * static_cast<std::int64_t>(sizeof(Compute<T>)));
    visit_width<T>(s.inner, [&]<int width>() {
      d.make = launches([=, wide = d.inputs[1].dtype == DType::int64](const Buffers& b) -> Launches {
        const Launches zero = fill_launches(b.outputs[0], s.outer * s.axis * s.inner, sizeof(T), 0);
        if (s.count == 0) return zero;
        auto* const keys = reinterpret_cast<std::uint64_t*>(b.workspace);
        const GatherSums<T> sums{b.in<T>(0),
                                 keys,
                                 b.out<T>(0),
                                 reinterpret_cast<Compute<T>*>(b.workspace + bytes_of_keys(s.count)),
                                 s.axis,
                                 s.count,
                                 s.inner / width,
                                 pieces,
                                 s.outer * pieces * (s.inner / width)};
        return in_turn({zero, sorted_keys(keys, IndexRows{b.inputs[1], wide, s.axis}, s.count),
                        launches_over(GatherPiecesBody<T, width>{sums}, sums.items),
                        launches_over(GatherSpansBody<T, width>{sums}, sums.items)});
      });
    });
  });
  return {d};
}

namespace {

// The same of GatherElements, whose indices have x's axes; nothing where other axes than the picked one differ.
std::optional<Split> split_of_elements(const Shape& x, std::int64_t axis, const Shape& indices) {
  Shape line = indices;
  if (indices.rank() != x.rank()) return std::nullopt;
  const int a = normalize_axis(axis, x.rank(), "axis");
  line[a] = x[a];
  if (line != x) return std::nullopt;
  return split_of(x, axis, Shape{indices[a]});
}

}  // namespace

Descriptions describe_gather_elements(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.gather_elements");
  const DType dtype = d.inputs[0].dtype;
  const auto split = split_of_elements(d.inputs[0].shape, request.attributes->integer("axis", 0), d.inputs[1].shape);
  if (!split || !index_type(d.inputs[1].dtype) || size_of(dtype) == 0) return {};
  const std::uint64_t invalid = is_float(dtype) ? pattern_of(dtype, std::numeric_limits<double>::quiet_NaN()) : 0;
  visit_bytes(size_of(dtype), [&]<class Unit>() {
    d.make = launches([s = *split, invalid, wide = d.inputs[1].dtype == DType::int64](const Buffers& b) -> Launches {
      const GatherElementsBody<Unit> body{b.in<Unit>(0), {b.inputs[1], wide, s.axis}, b.out<Unit>(0),
                                          static_cast<Unit>(invalid), s.count, s.inner, s.outer * s.count * s.inner};
      return [body, blocks = blocks_for(body.elements, GatherElementsBody<Unit>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

// Indices are sorted where there are many along a line, by the elements that they pick.
Descriptions describe_gather_elements_backward(const KernelRequest& request, Libraries*) {
  constexpr std::int64_t few = 32;
  KernelDescription d = row_major_description(request, "native.gather_elements_backward");
  const DType dtype = d.inputs[0].dtype;
  const Shape &x = d.outputs[0].shape, &indices = d.inputs[1].shape;
  const auto split = split_of_elements(x, request.attributes->integer("axis", 0), indices);
  if (!split || !index_type(d.inputs[1].dtype) || !is_storage_float(dtype)) return {};
  const std::int64_t elements = indices.elements();
  const bool sorts = split->count > few && x.rank() <= max_dims && can_be_sorted(elements, x.elements());
  if (sorts) d.workspace = bytes_of_keys(elements);
  visit_storage(dtype, [&]<class T>() {
    d.make = launches([=, s = *split, axis = normalize_axis(request.attributes->integer("axis", 0), x.rank(), "axis"),
                       wide = d.inputs[1].dtype == DType::int64](const Buffers& b) -> Launches {
      const Launches zero = fill_launches(b.outputs[0], s.outer * s.axis * s.inner, sizeof(T), 0);
      if (!sorts)
        return in_turn({zero, launches_over(GatherElementsBackwardBody<T>{b.in<T>(0), {b.inputs[1], wide, s.axis}, b.out<T>(0), s.count,
                                                                          s.inner, elements},
                                            elements)});
      auto* const keys = reinterpret_cast<std::uint64_t*>(b.workspace);
      ElementRows rows{b.inputs[1], wide, x.rank(), axis, {}, {}};
      std::copy(x.begin(), x.end(), rows.x);
      std::copy(indices.begin(), indices.end(), rows.u);
      return in_turn({zero, sorted_keys(keys, rows, elements),
                      launches_over(ScatterRowsBody<T>{b.in<T>(0), b.out<T>(0), keys, ScatterReduction::add, elements, 1}, elements)});
    });
  });
  return {d};
}

}  // namespace tandem::cuda
