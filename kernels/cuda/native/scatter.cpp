// GatherND, ScatterND and ScatterElements, row-major.
#include "kernels/cuda/bodies/scatter.h"

#include <limits>

#include "graph/operators/index_rows.h"
#include "kernels/cuda/native/copy.h"
#include "kernels/cuda/native/sorted_places.h"

namespace tandem::cuda {
namespace {

struct Rows {
  std::int64_t rows, inner, count;
};

IndexedRows rows_of(const KernelRequest& request) {
  return indexed_rows(request.inputs[0].shape, request.inputs[1].shape, static_cast<int>(request.attributes->integer("batch_dims", 0)));
}

bool readable(const IndexedRows& r, const KernelRequest& request) {
  return r.within.rank() <= max_dims && request.inputs[1].dtype == DType::int64 && size_of(request.inputs[0].dtype) != 0;
}

TupleRows tuples_at(const IndexedRows& r, const std::byte* indices) {
  TupleRows t{reinterpret_cast<const std::int64_t*>(indices),
              r.within.rank(),
              {},
              std::max<std::int64_t>(1, r.count / std::max<std::int64_t>(1, r.parts)),
              r.rows};
  for (int d = 0; d < r.within.rank(); ++d) t.sizes[d] = r.within[d];
  return t;
}

std::optional<ScatterReduction> reduction_of(const Attributes& a) {
  const std::string given = a.text("reduction", "none");
  const char* const names[] = {"none", "add", "mul", "max", "min"};
  for (int i = 0; i < 5; ++i)
    if (given == names[i]) return static_cast<ScatterReduction>(i);
  return std::nullopt;
}

template <class T, class RowsAt>
void make_scatter(KernelDescription& d, const Rows& r, ScatterReduction reduction, const CopyLauncher& copy, const RowsAt& rows_at) {
  d.make = launches([=](const Buffers& b) -> Launches {
    auto* const keys = reinterpret_cast<std::uint64_t*>(b.workspace);
    const ScatterRowsBody<T> write{b.in<T>(2), b.out<T>(0), keys, reduction, r.count, r.inner};
    std::vector<Launches> all;
    if (b.inputs[0] != b.outputs[0]) all.push_back(copy(b.inputs[0], b.outputs[0]));
    if (r.count * r.inner > 0) {
      all.push_back(sorted_keys(keys, rows_at(b.inputs[1]), r.count));
      all.push_back(launches_over(write, r.count * r.inner));
    }
    return in_turn(std::move(all));
  });
}

template <class RowsAt>
Descriptions describe_scatter(const KernelRequest& request, const char* name, const Rows& r, const RowsAt& rows_at) {
  KernelDescription d = row_major_description(request, name);
  const Operand& x = d.inputs[0];
  const auto reduction = reduction_of(*request.attributes);
  const auto strides = strides_of(x);
  const auto copy = plan_copy(copy_along(x.shape, x.dtype, strides, strides));
  if (!reduction || !copy || !can_be_sorted(r.count, r.rows)) return {};
  d.workspace = bytes_of_keys(r.count);
  d.in_place = {{0, 0}};
  const auto make = [&]<class T>() { make_scatter<T>(d, r, *reduction, *copy, rows_at); };
  if (*reduction == ScatterReduction::none)
    visit_bytes(size_of(x.dtype), make);
  else if (is_storage_float(x.dtype))
    visit_storage(x.dtype, make);
  else if (x.dtype == DType::int32)
    make.template operator()<std::int32_t>();
  else if (x.dtype == DType::int64)
    make.template operator()<std::int64_t>();
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace

Descriptions describe_gather_nd(const KernelRequest& request, Libraries*) {
  const IndexedRows r = rows_of(request);
  if (!readable(r, request)) return {};
  KernelDescription d = row_major_description(request, "native.gather_nd");
  const DType dtype = d.inputs[0].dtype;
  const std::uint64_t invalid = is_float(dtype) ? pattern_of(dtype, std::numeric_limits<double>::quiet_NaN()) : 0;
  visit_bytes(size_of(dtype), [&]<class Unit>() {
    d.make = launches([=](const Buffers& b) {
      return launches_over(GatherNDBody<Unit>{b.in<Unit>(0), b.out<Unit>(0), static_cast<Unit>(invalid), tuples_at(r, b.inputs[1]), r.inner,
                                              r.count * r.inner},
                           r.count * r.inner);
    });
  });
  return {d};
}

Descriptions describe_scatter_nd(const KernelRequest& request, Libraries*) {
  const IndexedRows r = rows_of(request);
  if (!readable(r, request)) return {};
  return describe_scatter(request, "native.scatter_nd", {r.rows, r.inner, r.count},
                          [r](const std::byte* indices) { return tuples_at(r, indices); });
}

Descriptions describe_scatter_elements(const KernelRequest& request, Libraries*) {
  const Shape &x = request.inputs[0].shape, &u = request.inputs[1].shape;
  const DType index = request.inputs[1].dtype;
  if (x.rank() > max_dims || (index != DType::int32 && index != DType::int64) || size_of(request.inputs[0].dtype) == 0) return {};
  ElementRows to{nullptr, index == DType::int64, x.rank(), normalize_axis(request.attributes->integer("axis", 0), x.rank(), "axis"), {},
                 {}};
  for (int d = 0; d < x.rank(); ++d) {
    to.x[d] = x[d];
    to.u[d] = u[d];
  }
  return describe_scatter(request, "native.scatter_elements", {x.elements(), 1, u.elements()}, [to](const std::byte* indices) {
    ElementRows at = to;
    at.indices = indices;
    return at;
  });
}

}  // namespace tandem::cuda
