// Gather(x, indices) {axis} → y and GatherElements, by whole rows and by single elements; GatherBackward(dy, indices)
// {axis, input_shape} → dx and GatherElementsBackward. Row-major.
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

// A thread owns lines of dx and adds what goes there in the order of the indices.
Descriptions describe_gather_backward(const KernelRequest& request) {
  const Shape& x = request.outputs[0].shape;
  const DType dtype = request.inputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  const Extent e = extent_of(x, normalize_axis(request.attributes->integer("axis", 0), x.rank(), concat(request.op, "'s axis")));
  const std::int64_t count = request.inputs[1].shape.elements();
  const int parts = threads_for(e.outer * count * e.inner, request.options.threads);
  KernelDescription d = row_major_description("native.gather_backward", request, 0.2);
  visit_float(dtype, [&]<class T>() {
    visit_index(request.inputs[1].dtype, [&]<class I>() {
      d.make = make_kernel([=](const Memory& m) {
        parallel(parts, [&](int k) {
          const Range r = part_of(e.outer * e.axis, k, parts);
          std::fill(m.out<T>(0) + r.begin * e.inner, m.out<T>(0) + r.end * e.inner, T(0));
          for (std::int64_t outer = r.begin / std::max<std::int64_t>(1, e.axis); outer * e.axis < r.end; ++outer)
            for (std::int64_t i = 0; i < count; ++i) {
              const std::int64_t to = place(m.in<I>(1)[i], e.axis), row = outer * e.axis + to;
              if (to < 0 || row < r.begin || row >= r.end) continue;
              const T* const dy = m.in<T>(0) + (outer * count + i) * e.inner;
              T* const dx = m.out<T>(0) + row * e.inner;
              for (std::int64_t j = 0; j < e.inner; ++j) dx[j] += dy[j];
            }
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
