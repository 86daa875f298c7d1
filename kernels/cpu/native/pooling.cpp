// Maximum and average over windows. Padding never wins a maximum; an average divides by the elements its window meets,
// padding included where count_include_pad says so (what ceil_mode appends beyond the padding is never counted).
#include <limits>

#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

using Place = std::int32_t;  // of the maximum in its plane; -1: none

// Calls body(plane) for every plane of N·C, split over the threads.
template <class Body>
void for_each_plane(std::int64_t planes, int threads, const Body& body) {
  const int parts = static_cast<int>(std::clamp<std::int64_t>(planes, 1, std::max(1, threads)));
  parallel(parts, [&](int part) {
    const Range range = part_of(planes, part, parts);
    for (std::int64_t plane = range.begin; plane < range.end; ++plane) body(plane);
  });
}

struct Problem {
  Windows windows;
  std::int64_t planes;
  int threads;
};

Problem problem_of(const KernelRequest& request, const Shape& x, const Shape& y) {
  return {Windows(x, y, window_of(*request.attributes, request.attributes->ints("kernel_shape"))), x[0] * x[1], request.options.threads};
}

// The first largest element of a window; NaN counts as largest, and the last of them stays.
template <class T>
std::pair<T, std::int64_t> largest(const Windows& w, const T* x, std::int64_t output) {
  T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  std::int64_t at = -1;
  for (std::int64_t tap = 0; tap < w.taps(); ++tap) {
    const std::int64_t place = w.place(output, tap);
    if (place >= 0 && (at < 0 || x[place] > best || x[place] != x[place])) {
      best = x[place];
      at = place;
    }
  }
  return {best, at};
}

// ONNX's Indices count over the whole of x; storage_order 1 counts the first spatial axis fastest.
std::int64_t onnx_index(std::int64_t plane, std::int64_t place, const Ints& sizes, bool column_major) {
  if (!column_major) return plane * product(sizes) + place;
  Ints at(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    at[i] = place % sizes[i];
    place /= sizes[i];
  }
  std::int64_t index = 0;
  for (std::size_t i = sizes.size(); i-- > 0;) index = index * sizes[i] + at[i];
  return plane * product(sizes) + index;
}

template <class T>
auto max_kernel(const Problem& p, const Ints& sizes, bool indices, bool column_major) {
  return make_kernel([=](const Memory& m) {
    for_each_plane(p.planes, p.threads, [&](std::int64_t plane) {
      for (std::int64_t o = 0; o < p.windows.outputs(); ++o) {
        const auto [value, place] = largest(p.windows, m.in<T>(0) + plane * p.windows.plane(), o);
        m.out<T>(0)[plane * p.windows.outputs() + o] = value;
        if (indices) m.out<std::int64_t>(1)[plane * p.windows.outputs() + o] = onnx_index(plane, place, sizes, column_major);
      }
    });
  });
}

// How many elements an average divides by.
std::int64_t count(const Windows& w, std::int64_t output, bool include_padding) {
  std::int64_t n = 0;
  for (std::int64_t tap = 0; tap < w.taps(); ++tap) {
    const std::int64_t place = w.place(output, tap);
    n += place >= 0 || (include_padding && place == -1);
  }
  return n;
}

}  // namespace

Descriptions describe_max_pool(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  const bool training = request.op == "MaxPoolTraining";
  const bool small = x.dtype == DType::uint8 || x.dtype == DType::int8;
  if (x.shape.rank() < 3 || !(is_real(x) || (small && !training))) return {};
  const Problem p = problem_of(request, x.shape, y.shape);
  KernelDescription d = dense_description(request, training ? "native.max_pool_training" : "native.max_pool");
  if (training) {
    if (p.windows.plane() > std::numeric_limits<Place>::max()) return {};
    d.outputs[1] = {DType::int32, y.shape, Layout::opaque("native")};
    visit_float(x.dtype, [&]<class T>() {
      d.make = make_kernel([=](const Memory& m) {
        for_each_plane(p.planes, p.threads, [&](std::int64_t plane) {
          for (std::int64_t o = 0; o < p.windows.outputs(); ++o) {
            const auto [value, place] = largest(p.windows, m.in<T>(0) + plane * p.windows.plane(), o);
            m.out<T>(0)[plane * p.windows.outputs() + o] = value;
            m.out<Place>(1)[plane * p.windows.outputs() + o] = static_cast<Place>(place);
          }
        });
      });
    });
    return {d};
  }
  const bool indices = operand_at(request.outputs, 1).present();
  const bool column_major = request.attributes->integer("storage_order", 0) != 0;
  const Ints sizes = spatial(x.shape);
  if (small)
    d.make = x.dtype == DType::uint8 ? max_kernel<std::uint8_t>(p, sizes, indices, column_major)
                                     : max_kernel<std::int8_t>(p, sizes, indices, column_major);
  else
    visit_float(x.dtype, [&]<class T>() { d.make = max_kernel<T>(p, sizes, indices, column_major); });
  return {d};
}

Descriptions describe_max_pool_backward(const KernelRequest& request) {
  const Operand &dy = request.inputs[0], &places = request.inputs[1];
  if (!is_real(dy) || places.layout != Layout::opaque("native") || places.shape != dy.shape) return {};
  const Problem p = problem_of(request, request.outputs[0].shape, dy.shape);
  KernelDescription d = dense_description(request, "native.max_pool_backward");
  visit_float(dy.dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_plane(p.planes, p.threads, [&](std::int64_t plane) {
        T* const dx = m.out<T>(0) + plane * p.windows.plane();
        std::fill_n(dx, p.windows.plane(), T(0));
        for (std::int64_t o = plane * p.windows.outputs(); o < (plane + 1) * p.windows.outputs(); ++o)
          if (const Place place = m.in<Place>(1)[o]; place >= 0) dx[place] += m.in<T>(0)[o];
      });
    });
  });
  return {d};
}

Descriptions describe_average_pool(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!is_real(x) || x.shape.rank() < 3) return {};
  const Problem p = problem_of(request, x.shape, y.shape);
  const bool include_padding = request.attributes->integer("count_include_pad", 0) != 0;
  KernelDescription d = dense_description(request, "native.average_pool");
  visit_float(x.dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_plane(p.planes, p.threads, [&](std::int64_t plane) {
        const T* const in = m.in<T>(0) + plane * p.windows.plane();
        for (std::int64_t o = 0; o < p.windows.outputs(); ++o) {
          T sum = 0;
          for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
            if (const std::int64_t place = p.windows.place(o, tap); place >= 0) sum += in[place];
          const std::int64_t n = count(p.windows, o, include_padding);
          m.out<T>(0)[plane * p.windows.outputs() + o] = n > 0 ? sum / static_cast<T>(n) : T(0);
        }
      });
    });
  });
  return {d};
}

Descriptions describe_average_pool_backward(const KernelRequest& request) {
  const Operand &dy = request.inputs[0], &dx = request.outputs[0];
  if (!is_real(dy) || dy.shape.rank() < 3) return {};
  const Problem p = problem_of(request, dx.shape, dy.shape);
  const bool include_padding = request.attributes->integer("count_include_pad", 0) != 0;
  KernelDescription d = dense_description(request, "native.average_pool_backward");
  visit_float(dy.dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      for_each_plane(p.planes, p.threads, [&](std::int64_t plane) {
        T* const out = m.out<T>(0) + plane * p.windows.plane();
        std::fill_n(out, p.windows.plane(), T(0));
        for (std::int64_t o = 0; o < p.windows.outputs(); ++o) {
          const std::int64_t n = count(p.windows, o, include_padding);
          if (n == 0) continue;
          const T share = m.in<T>(0)[plane * p.windows.outputs() + o] / static_cast<T>(n);
          for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
            if (const std::int64_t place = p.windows.place(o, tap); place >= 0) out[place] += share;
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
