// GatherND(x, indices) {batch_dims} → y; ScatterND(x, indices, updates) {batch_dims, reduction} → y and ScatterElements {axis,
// reduction}. Row-major.
#include "graph/operators/index_rows.h"
#include "kernels/cpu/native/indices.h"

namespace tandem::native {
namespace {

// y [rows, inner] = x, and row i of the updates [count, inner] at the row targets(i); -1: nowhere.
struct Rows {
  std::int64_t rows, inner, count;
  int threads;
  int parts(std::int64_t work) const { return threads_for(work, threads); }
};

// In the order of the updates: a part owns rows of y, or columns where these are few.
template <class T, class Combine>
void write_rows(const Rows& r, const Memory& m, const std::int64_t* targets, const Combine& combine) {
  const int parts = r.parts(r.rows * r.inner + r.count * r.inner);
  const bool by_rows = r.rows >= parts;
  parallel(parts, [&](int k) {
    const Range rows = by_rows ? part_of(r.rows, k, parts) : Range{0, r.rows};
    const Range columns = by_rows ? Range{0, r.inner} : part_of(r.inner, k, parts);
    const T *const x = m.in<T>(0), *const u = m.in<T>(2);
    T* const y = m.out<T>(0);
    if (x != y) {
      if (by_rows)
        std::copy(x + rows.begin * r.inner, x + rows.end * r.inner, y + rows.begin * r.inner);
      else
        for (std::int64_t row = 0; row < r.rows; ++row)
          std::copy(x + row * r.inner + columns.begin, x + row * r.inner + columns.end, y + row * r.inner + columns.begin);
    }
    for (std::int64_t i = 0; i < r.count; ++i) {
      if (targets[i] < rows.begin || targets[i] >= rows.end) continue;
      T* const to = y + targets[i] * r.inner;
      const T* const from = u + i * r.inner;
      for (std::int64_t j = columns.begin; j < columns.end; ++j) to[j] = combine(to[j], from[j]);
    }
  });
}

// Integers as unsigned ones, in which arithmetic wraps; booleans as numbers.
template <class T>
auto number(T v) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(v);
  else
    return v;
}

template <class T>
void reduce_rows(const Rows& r, const Memory& m, const std::int64_t* targets, std::string_view reduction) {
  if (reduction == "add") return write_rows<T>(r, m, targets, [](T y, T u) { return static_cast<T>(number(y) + number(u)); });
  if (reduction == "mul") return write_rows<T>(r, m, targets, [](T y, T u) { return static_cast<T>(number(y) * number(u)); });
  if (reduction == "max") return write_rows<T>(r, m, targets, [](T y, T u) { return u > y || u != u ? u : y; });
  if (reduction == "min") return write_rows<T>(r, m, targets, [](T y, T u) { return u < y || u != u ? u : y; });
}

// target(const Memory&, i) is the row of update i.
template <class Target>
Descriptions describe_rows(const KernelRequest& request, const char* name, const Rows& r, const Target& target) {
  KernelDescription d = row_major_description(name, request, 0.2);
  const DType dtype = request.inputs[0].dtype;
  d.workspace = r.count * static_cast<std::int64_t>(sizeof(std::int64_t));
  d.in_place = {{0, 0}};
  const auto targets = [=](const Memory& m) {
    auto* const to = reinterpret_cast<std::int64_t*>(m.workspace);
    const int parts = r.parts(r.count * 4);
    parallel(parts, [&](int k) {
      const Range range = part_of(r.count, k, parts);
      for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = target(m, i);
    });
    return to;
  };
  const std::string reduction = request.attributes->text("reduction", "none");
  if (size_of(dtype) == 0) return {};
  if (reduction == "none") {
    visit_size(size_of(dtype), [&]<class T>() {
      d.make = make_kernel([=](const Memory& m) { write_rows<T>(r, m, targets(m), [](T, T u) { return u; }); });
    });
  } else {
    visit_storable(dtype, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T>) d.make = make_kernel([=](const Memory& m) { reduce_rows<T>(r, m, targets(m), reduction); });
    });
  }
  return d.make ? Descriptions{d} : Descriptions{};
}

IndexedRows rows_of(const KernelRequest& request) {
  return indexed_rows(request.inputs[0].shape, request.inputs[1].shape, static_cast<int>(request.attributes->integer("batch_dims", 0)));
}
// Tuple i's row in all of x.
std::int64_t target(const IndexedRows& r, const std::int64_t* tuples, std::int64_t i) {
  const std::int64_t row = row_of(tuples + i * r.within.rank(), r.within);
  return row < 0 ? row : i / (r.count / r.parts) * (r.rows / r.parts) + row;
}

}  // namespace

Descriptions describe_gather_nd(const KernelRequest& request) {
  const IndexedRows r = rows_of(request);
  const int parts = threads_for(r.count * (r.inner + 4), request.options.threads);
  KernelDescription d = row_major_description("native.gather_nd", request, 0.2);
  visit_storable(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      parallel(parts, [&](int k) {
        const Range range = part_of(r.count, k, parts);
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const std::int64_t from = target(r, m.in<std::int64_t>(1), i);
          T* const y = m.out<T>(0) + i * r.inner;
          if (from < 0)
            std::fill_n(y, r.inner, missing<T>());
          else
            std::copy_n(m.in<T>(0) + from * r.inner, r.inner, y);
        }
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_scatter_nd(const KernelRequest& request) {
  const IndexedRows r = rows_of(request);
  return describe_rows(request, "native.scatter_nd", {r.rows, r.inner, r.count, request.options.threads},
                       [r](const Memory& m, std::int64_t i) { return target(r, m.in<std::int64_t>(1), i); });
}

Descriptions describe_scatter_elements(const KernelRequest& request) {
  const Shape &x = request.inputs[0].shape, &u = request.inputs[1].shape;
  const int axis = normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis"));
  const Rows r{x.elements(), 1, u.elements(), request.options.threads};
  Descriptions found;
  visit_index(request.inputs[1].dtype, [&]<class I>() {
    found = describe_rows(request, "native.scatter_elements", r, [x, u, axis](const Memory& m, std::int64_t i) -> std::int64_t {
      const std::int64_t index = place(m.in<I>(1)[i], x[axis]);
      if (index < 0) return -1;
      std::int64_t to = 0, stride = 1;
      for (int d = x.rank() - 1; d >= 0; --d) {
        to += (d == axis ? index : i % u[d]) * stride;
        stride *= x[d];
        i /= u[d];
      }
      return to;
    });
  });
  return found;
}

}  // namespace tandem::native
