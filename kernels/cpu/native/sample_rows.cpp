// SampleRows(x[B,M,C], index[B,P,K], weight[B,P,K]) → y[B,P,C] and its two gradients. Row-major: C is innermost, so that rows are
// worked on by loops over neighbours.
#include "graph/half.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

struct Sizes {
  std::int64_t batch, rows, places, taps, channels;  // B, M, P, K, C
};
Sizes sizes_of(const Shape& x, const Shape& index) { return {x[0], x[1], index[1], index[2], x[2]}; }

// In which sums are made, and what weights are.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

bool inside(std::int64_t index, std::int64_t n) { return index >= 0 && index < n; }

// visit_floats(dtype, [&]<class T>() { ... }) with 16-bit ones, too; nothing is called for others.
template <class F>
void visit_floats(DType dtype, F&& f) {
  if (dtype == DType::float32) f.template operator()<float>();
  if (dtype == DType::float64) f.template operator()<double>();
  if (dtype == DType::float16) f.template operator()<Float16>();
  if (dtype == DType::bfloat16) f.template operator()<BFloat16>();
}

template <class T, class S>
void add_row(const T* x, S* y, S weight, std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c) y[c] += weight * number_as<S>(x[c]);
}

template <class T>
void sample(const Sizes& s, const T* x, const std::int64_t* index, const Sum<T>* weight, T* y, Range places, Sum<T>* buffer) {
  for (std::int64_t p = places.begin; p < places.end; ++p) {
    const T* const from = x + p / s.places * s.rows * s.channels;
    T* const to = y + p * s.channels;
    Sum<T>* sum = buffer;
    if constexpr (std::is_same_v<T, Sum<T>>) sum = to;
    std::fill_n(sum, s.channels, Sum<T>(0));
    for (std::int64_t k = p * s.taps; k < (p + 1) * s.taps; ++k)
      if (inside(index[k], s.rows)) add_row(from + index[k] * s.channels, sum, weight[k], s.channels);
    if constexpr (!std::is_same_v<T, Sum<T>>)
      for (std::int64_t c = 0; c < s.channels; ++c) to[c] = number_as<T>(sum[c]);
  }
}

// A thread owns rows of dx and adds what goes there in the order of places and taps. `sums` are those of all rows.
template <class T>
void sample_backward_data(const Sizes& s, const T* dy, const std::int64_t* index, const Sum<T>* weight, Sum<T>* sums, T* dx, Range rows) {
  std::fill(sums + rows.begin * s.channels, sums + rows.end * s.channels, Sum<T>(0));
  if (rows.begin == rows.end) return;
  for (std::int64_t b = rows.begin / s.rows; b * s.rows < rows.end; ++b)
    for (std::int64_t k = b * s.places * s.taps; k < (b + 1) * s.places * s.taps; ++k) {
      if (!inside(index[k], s.rows)) continue;
      const std::int64_t row = b * s.rows + index[k];
      if (row >= rows.begin && row < rows.end && weight[k] != 0)
        add_row(dy + k / s.taps * s.channels, sums + row * s.channels, weight[k], s.channels);
    }
  if constexpr (!std::is_same_v<T, Sum<T>>)
    for (std::int64_t i = rows.begin * s.channels; i < rows.end * s.channels; ++i) dx[i] = number_as<T>(sums[i]);
}

template <class T>
void sample_backward_weights(const Sizes& s, const T* x, const T* dy, const std::int64_t* index, Sum<T>* dweight, Range places) {
  for (std::int64_t p = places.begin; p < places.end; ++p)
    for (std::int64_t k = p * s.taps; k < (p + 1) * s.taps; ++k) {
      Sum<T> part[8] = {};  // apart, so that they are summed by vectors
      if (inside(index[k], s.rows)) {
        const T* const a = x + (p / s.places * s.rows + index[k]) * s.channels;
        const T* const b = dy + p * s.channels;
        std::int64_t c = 0;
        for (; c + 8 <= s.channels; c += 8)
          for (int lane = 0; lane < 8; ++lane) part[lane] += number_as<Sum<T>>(a[c + lane]) * number_as<Sum<T>>(b[c + lane]);
        for (; c < s.channels; ++c) part[0] += number_as<Sum<T>>(a[c]) * number_as<Sum<T>>(b[c]);
      }
      dweight[k] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
}

int parts_of(const Sizes& s, std::int64_t items, int threads) {
  return static_cast<int>(std::clamp<std::int64_t>(
      threads_for(s.batch * s.places * s.taps * std::max<std::int64_t>(1, s.channels), threads), 1, std::max<std::int64_t>(1, items)));
}

}  // namespace

Descriptions describe_sample_rows(const KernelRequest& request) {
  const Sizes s = sizes_of(request.inputs[0].shape, request.inputs[1].shape);
  KernelDescription d = row_major_description("native.sample_rows", request, 0.2);
  const int parts = parts_of(s, s.batch * s.places, request.options.threads);
  visit_floats(request.inputs[0].dtype, [&]<class T>() {
    d.workspace = parts * s.channels * static_cast<std::int64_t>(sizeof(Sum<T>));
    d.make = make_kernel([=](const Memory& m) {
      parallel(parts, [&](int k) {
        sample<T>(s, m.in<T>(0), m.in<std::int64_t>(1), m.in<Sum<T>>(2), m.out<T>(0), part_of(s.batch * s.places, k, parts),
                  reinterpret_cast<Sum<T>*>(m.workspace) + k * s.channels);
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_sample_rows_backward_data(const KernelRequest& request) {
  const Sizes s = sizes_of(request.outputs[0].shape, request.inputs[1].shape);
  KernelDescription d = row_major_description("native.sample_rows_backward_data", request, 0.1);
  const int parts = parts_of(s, s.batch * s.rows, request.options.threads);
  visit_floats(request.inputs[0].dtype, [&]<class T>() {
    constexpr bool in_place = std::is_same_v<T, Sum<T>>;
    if (!in_place) d.workspace = s.batch * s.rows * s.channels * static_cast<std::int64_t>(sizeof(Sum<T>));
    d.make = make_kernel([=](const Memory& m) {
      auto* const sums = in_place ? m.out<Sum<T>>(0) : reinterpret_cast<Sum<T>*>(m.workspace);
      parallel(parts, [&](int k) {
        sample_backward_data<T>(s, m.in<T>(0), m.in<std::int64_t>(1), m.in<Sum<T>>(2), sums, m.out<T>(0),
                                part_of(s.batch * s.rows, k, parts));
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_sample_rows_backward_weights(const KernelRequest& request) {
  const Sizes s = sizes_of(request.inputs[0].shape, request.inputs[2].shape);
  KernelDescription d = row_major_description("native.sample_rows_backward_weights", request, 0.2);
  const int parts = parts_of(s, s.batch * s.places, request.options.threads);
  visit_floats(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      parallel(parts, [&](int k) {
        sample_backward_weights<T>(s, m.in<T>(0), m.in<T>(1), m.in<std::int64_t>(2), m.out<Sum<T>>(0),
                                   part_of(s.batch * s.places, k, parts));
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
