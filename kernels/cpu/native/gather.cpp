// Gather(x, indices) {axis} → y and GatherElements, by whole rows and by single elements; GatherBackward(dy, indices)
// {axis, input_shape} → dx and GatherElementsBackward. Row-major.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/indices.h"

namespace tandem::native {

Descriptions describe_gather(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Extent e = extent_of(x, normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis")));
  const std::int64_t count = request.inputs[1].shape.elements();
  const int parts = threads_for(e.outer * count * e.inner, request.options.threads);
  KernelDescription d = row_major_description("native.gather", request, 0.2);
  visit_storable(request.inputs[0].dtype, [&]<class T>() {
    visit_index(request.inputs[1].dtype, [&]<class I>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(e.outer * count, k, parts);
          for (std::int64_t row = r.begin; row < r.end; ++row) {
            const std::int64_t from = place(m.in<I>(1)[row % count], e.axis);
            T* const y = m.out<T>(0) + row * e.inner;
            if (from < 0)
              std::fill_n(y, e.inner, missing<T>());
            else
              std::copy_n(m.in<T>(0) + (row / count * e.axis + from) * e.inner, e.inner, y);
          }
        });
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

namespace {

// An index and its number, which comes from the lower half: in order, those of a row lie side by side in theirs.
using Place = std::uint64_t;
constexpr int digit = 11;  // bits that are sorted by at a time

// Sorts by rows < `rows`, those of one row as they come; `other` has room for as many. Gives where they lie then.
Place* sorted(Place* places, Place* other, std::int64_t n, std::int64_t rows) {
  for (int shift = 0; shift < 32 && (rows - 1) >> shift > 0; shift += digit) {
    std::uint32_t begin[(1 << digit) + 1] = {};
    const auto bucket = [&](Place p) { return p >> (32 + shift) & ((1 << digit) - 1); };
    for (std::int64_t i = 0; i < n; ++i) ++begin[bucket(places[i]) + 1];
    for (int k = 0; k < 1 << digit; ++k) begin[k + 1] += begin[k];
    for (std::int64_t i = 0; i < n; ++i) other[begin[bucket(places[i])]++] = places[i];
    std::swap(places, other);
  }
  return places;
}

}  // namespace

// A thread owns rows of dx. It sorts the indices that pick from them, and writes each row once: zeros, or the sum of what goes there in
// the order of the indices.
Descriptions describe_gather_backward(const KernelRequest& request) {
  const Shape& x = request.outputs[0].shape;
  const DType dtype = request.inputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const Extent e = extent_of(x, normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis")));
  const std::int64_t count = request.inputs[1].shape.elements();
  if (e.axis > std::numeric_limits<std::uint32_t>::max() || count > std::numeric_limits<std::uint32_t>::max())
    fail(request.op, ": ", count, " indices into ", e.axis, " rows, at most 2^32 - 1 of each are sorted");
  const int parts = threads_for(e.outer * std::max(count, e.axis) * e.inner, request.options.threads);
  KernelDescription d = row_major_description("native.gather_backward", request, 0.2);
  d.workspace = parts * 2 * count * static_cast<std::int64_t>(sizeof(Place));
  visit_float(dtype, [&]<class T>() {
    const auto add = vector_table().of<T>().reductions->rows[vector::reduce_sum];
    visit_index(request.inputs[1].dtype, [&]<class I>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(e.outer * e.axis, k, parts);
          if (r.begin == r.end) return;
          const bool within = r.begin / e.axis == (r.end - 1) / e.axis;  // one table
          const std::int64_t low = within ? r.begin % e.axis : 0, high = within ? low + r.end - r.begin : e.axis;
          Place* places = reinterpret_cast<Place*>(m.workspace) + 2 * k * count;
          std::int64_t n = 0;
          for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t row = place(m.in<I>(1)[i], e.axis);
            if (row >= low && row < high) places[n++] = static_cast<Place>(row) << 32 | static_cast<Place>(i);
          }
          places = sorted(places, places + count, n, e.axis);
          std::int64_t done = r.begin;  // rows before it are written
          const auto zeros_up_to = [&](std::int64_t row) {
            if (row > done) std::memset(m.out<T>(0) + done * e.inner, 0, static_cast<std::size_t>((row - done) * e.inner) * sizeof(T));
          };
          for (std::int64_t outer = r.begin / e.axis; outer * e.axis < r.end; ++outer)
            for (std::int64_t i = 0; i < n; ++i) {
              const std::int64_t row = outer * e.axis + static_cast<std::int64_t>(places[i] >> 32);
              if (row < r.begin || row >= r.end) continue;
              const T* const dy = m.in<T>(0) + (outer * count + static_cast<std::int64_t>(places[i] & 0xffffffff)) * e.inner;
              T* const dx = m.out<T>(0) + row * e.inner;
              if (row < done) {
                add(dx, dy, e.inner, 1, 0);
                continue;
              }
              zeros_up_to(row);
              std::memcpy(dx, dy, static_cast<std::size_t>(e.inner) * sizeof(T));
              done = row + 1;
            }
          zeros_up_to(r.end);
        });
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

// y[outer, k, inner] = x[outer, indices[outer, k, inner], inner]
Descriptions describe_gather_elements(const KernelRequest& request) {
  const Shape &x = request.inputs[0].shape, &indices = request.inputs[1].shape;
  const int axis = normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis"));
  const Extent e = extent_of(x, axis), y = extent_of(indices, axis);
  if (indices.rank() != x.rank() || e.outer != y.outer || e.inner != y.inner) return {};
  const int parts = threads_for(indices.elements(), request.options.threads);
  KernelDescription d = row_major_description("native.gather_elements", request, 0.2);
  visit_storable(request.inputs[0].dtype, [&]<class T>() {
    visit_index(request.inputs[1].dtype, [&]<class I>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(y.outer * y.axis, k, parts);
          for (std::int64_t row = r.begin; row < r.end; ++row) {
            const I* const from = m.in<I>(1) + row * y.inner;
            const T* const block = m.in<T>(0) + row / y.axis * e.axis * e.inner;
            T* const to = m.out<T>(0) + row * y.inner;
            for (std::int64_t j = 0; j < y.inner; ++j) {
              const std::int64_t at = place(from[j], e.axis);
              to[j] = at < 0 ? missing<T>() : block[at * e.inner + j];
            }
          }
        });
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

// A thread owns lines of dx along the axis and adds what goes there in the order of the indices.
Descriptions describe_gather_elements_backward(const KernelRequest& request) {
  const Shape& x = request.outputs[0].shape;
  const DType dtype = request.inputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis"));
  const Extent e = extent_of(x, axis), y = extent_of(request.inputs[1].shape, axis);
  if (e.outer != y.outer || e.inner != y.inner) return {};
  const int parts = threads_for(std::max(x.elements(), request.inputs[1].shape.elements()), request.options.threads);
  KernelDescription d = row_major_description("native.gather_elements_backward", request, 0.2);
  visit_float(dtype, [&]<class T>() {
    visit_index(request.inputs[1].dtype, [&]<class I>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range lines = part_of(e.outer * e.inner, k, parts);
          for (std::int64_t line = lines.begin; line < lines.end;) {
            const std::int64_t outer = line / e.inner, first = line % e.inner, last = std::min(e.inner, first + lines.end - line);
            T* const dx = m.out<T>(0) + outer * e.axis * e.inner;
            for (std::int64_t a = 0; a < e.axis; ++a) std::fill(dx + a * e.inner + first, dx + a * e.inner + last, T(0));
            for (std::int64_t row = outer * y.axis; row < (outer + 1) * y.axis; ++row)
              for (std::int64_t j = first; j < last; ++j) {
                const std::int64_t to = place(m.in<I>(1)[row * e.inner + j], e.axis);
                if (to >= 0) dx[to * e.inner + j] += m.in<T>(0)[row * e.inner + j];
              }
            line += last - first;
          }
        });
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
