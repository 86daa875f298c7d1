// Convolution as matrix products over columns: for a tile of windows, column (c, tap) holds the elements of x that the
// tap meets. y = w·columns, dcolumns = wᵀ·dy, dw = dy·columnsᵀ. Where x is to be normalized first, columns hold
// max(0, x·factor + shift) by channel, and 0 in the padding.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/gemm.h"

namespace tandem::native {
namespace {

constexpr std::int64_t tile = 64;  // windows at a time

struct Problem {
  Windows windows;
  std::int64_t samples, group, in, out;  // in, out: channels of one group
  int threads;
  bool bias = false, relu = false, sums = false, normalizes = false;
  std::int64_t masked = 0;  // of a data gradient: elements to set to 0 where the third operand is not positive

  std::int64_t columns() const { return in * windows.taps(); }
  std::int64_t scratch_bytes(std::size_t element) const {  // of one thread
    return tile * (windows.taps() * static_cast<std::int64_t>(sizeof(std::int64_t)) + columns() * static_cast<std::int64_t>(element));
  }
};

Problem problem_of(const KernelRequest& request, const Shape& x, const Shape& w, const Shape& y) {
  const std::int64_t group = request.attributes->integer("group", 1);
  return {Windows(x, y, window_of(*request.attributes, w)), x[0], group, x[1] / group, y[1] / group, std::max(1, request.options.threads)};
}

// How x is normalized; null where it is not.
template <class T>
struct Factors {
  const T *factor = nullptr, *shift = nullptr;
  Factors from(std::int64_t channel) const { return factor ? Factors{factor + channel, shift + channel} : Factors{}; }
  T operator()(T x, std::int64_t c) const { return factor ? std::max(T(0), x * factor[c] + shift[c]) : x; }
};

// One thread's scratch: where the taps of a tile lie, and the columns.
template <class T>
struct Tile {
  const Problem& p;
  std::int64_t* places;
  T* columns;

  Tile(const Problem& problem, std::byte* workspace, int part) : p(problem) {
    std::byte* const mine = workspace + part * p.scratch_bytes(sizeof(T));
    places = reinterpret_cast<std::int64_t*>(mine);
    columns = reinterpret_cast<T*>(mine + tile * p.windows.taps() * static_cast<std::int64_t>(sizeof(std::int64_t)));
  }
  void locate(std::int64_t first, std::int64_t count) const {
    for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
      for (std::int64_t t = 0; t < count; ++t) places[tap * tile + t] = p.windows.place(first + t, tap);
  }
  void gather(const T* x, const Factors<T>& factors, std::int64_t count) const {
    for (std::int64_t c = 0; c < p.in; ++c)
      for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t place = places[tap * tile + t];
          columns[(c * p.windows.taps() + tap) * tile + t] = place < 0 ? T(0) : factors(x[c * p.windows.plane() + place], c);
        }
  }
  void scatter(T* dx, std::int64_t count) const {
    for (std::int64_t c = 0; c < p.in; ++c)
      for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t place = places[tap * tile + t];
          if (place >= 0) dx[c * p.windows.plane() + place] += columns[(c * p.windows.taps() + tap) * tile + t];
        }
  }
};

// Calls body(part, n, g) for each sample and group, split over the threads.
template <class Body>
void for_each_image(const Problem& p, const Body& body) {
  parallel(p.threads, [&](int part) {
    const Range range = part_of(p.samples * p.group, part, p.threads);
    for (std::int64_t i = range.begin; i < range.end; ++i) body(part, i / p.group, i % p.group);
  });
}

template <class T>
void add_bias(T* y, std::int64_t channels, std::int64_t plane, const T* bias, bool relu) {
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < plane; ++i) {
      const T v = y[c * plane + i] + (bias ? bias[c] : T(0));
      y[c * plane + i] = relu && v < 0 ? T(0) : v;
    }
}

template <class T>
void forward(const Problem& p, const T* x, const Factors<T>& factors, const T* w, const T* b, T* y, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs();
  for_each_image(p, [&](int part, std::int64_t n, std::int64_t g) {
    const Tile<T> scratch(p, workspace, part);
    T* const out = y + (n * p.group + g) * p.out * outputs;
    for (std::int64_t first = 0; first < outputs; first += tile) {
      const std::int64_t count = std::min(tile, outputs - first);
      scratch.locate(first, count);
      scratch.gather(x + (n * p.group + g) * p.in * p.windows.plane(), factors.from(g * p.in), count);
      gemm<T>(p.out, count, p.columns(), {w + g * p.out * p.columns(), p.columns(), 1}, {scratch.columns, tile, 1}, out + first, outputs,
              false);
    }
    if (b || p.relu) add_bias(out, p.out, outputs, b ? b + g * p.out : nullptr, p.relu);
  });
}

// b, relu: of a transposed convolution.
template <class T>
void backward_data(const Problem& p, const T* dy, const T* w, const T* b, T* dx, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs();
  for_each_image(p, [&](int part, std::int64_t n, std::int64_t g) {
    const Tile<T> scratch(p, workspace, part);
    T* const out = dx + (n * p.group + g) * p.in * p.windows.plane();
    std::fill_n(out, p.in * p.windows.plane(), T(0));
    for (std::int64_t first = 0; first < outputs; first += tile) {
      const std::int64_t count = std::min(tile, outputs - first);
      scratch.locate(first, count);
      gemm<T>(p.columns(), count, p.out, {w + g * p.out * p.columns(), 1, p.columns()}, {dy + (n * p.group + g) * p.out * outputs + first, outputs, 1},
              scratch.columns, tile, false);
      scratch.scatter(out, count);
    }
    if (b || p.relu) add_bias(out, p.in, p.windows.plane(), b ? b + g * p.in : nullptr, p.relu);
  });
}

// Each thread owns rows of dw (output channels), so sums have one order.
template <class T>
void backward_weights(const Problem& p, const T* x, const Factors<T>& factors, const T* dy, T* dw, T* db, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs();
  parallel(p.threads, [&](int part) {
    const Range rows = part_of(p.group * p.out, part, p.threads);
    const Tile<T> scratch(p, workspace, part);
    std::fill(dw + rows.begin * p.columns(), dw + rows.end * p.columns(), T(0));
    for (std::int64_t g = 0; g < p.group; ++g) {
      const std::int64_t begin = std::max(rows.begin, g * p.out), end = std::min(rows.end, (g + 1) * p.out);
      if (begin >= end) continue;
      for (std::int64_t first = 0; first < outputs; first += tile) {
        const std::int64_t count = std::min(tile, outputs - first);
        scratch.locate(first, count);
        for (std::int64_t n = 0; n < p.samples; ++n) {
          scratch.gather(x + (n * p.group + g) * p.in * p.windows.plane(), factors.from(g * p.in), count);
          gemm<T>(end - begin, p.columns(), count, {dy + (n * p.group * p.out + begin) * outputs + first, outputs, 1}, {scratch.columns, 1, tile},
                  dw + begin * p.columns(), p.columns(), true);
        }
      }
    }
    if (!db) return;
    for (std::int64_t m = rows.begin; m < rows.end; ++m) {
      T sum = 0;
      for (std::int64_t n = 0; n < p.samples; ++n)
        for (std::int64_t i = 0; i < outputs; ++i) sum += dy[(n * p.group * p.out + m) * outputs + i];
      db[m] = sum;
    }
  });
}

// Σ y and Σ y² by channel.
template <class T>
void sum_channels(const Problem& p, const T* y, T* sum, T* squares) {
  const std::int64_t channels = p.group * p.out, plane = p.windows.outputs();
  for (std::int64_t c = 0; c < channels; ++c) {
    double s = 0, q = 0;
    for (std::int64_t n = 0; n < p.samples; ++n)
      for (const T* v = y + (n * channels + c) * plane, *end = v + plane; v < end; ++v) {
        s += *v;
        q += static_cast<double>(*v) * *v;
      }
    sum[c] = static_cast<T>(s);
    squares[c] = static_cast<T>(q);
  }
}

bool supported(const KernelRequest& request) { return is_real(request.inputs[0]) && request.inputs[0].shape.rank() >= 3; }

// run(T's zero, problem, memory)
template <class Run>
Descriptions describe(const KernelRequest& request, std::string kernel, const Problem& p, Run run) {
  KernelDescription d = dense_description(request, std::move(kernel));
  const DType dtype = request.inputs[0].dtype;
  d.workspace = p.threads * p.scratch_bytes(size_of(dtype));
  visit_float(dtype, [&]<class T>() { d.make = make_kernel([=](const Memory& m) { run(T(), p, m); }); });
  return {d};
}

}  // namespace

Descriptions describe_convolution(const KernelRequest& request) {
  if (!supported(request)) return {};
  Problem p = problem_of(request, request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape);
  p.bias = operand_at(request.inputs, 2).present();
  p.relu = has_relu(*request.attributes);
  p.sums = operand_at(request.outputs, 1).present();
  p.normalizes = operand_at(request.inputs, 3).present();
  return describe(request, "native.convolution", p, []<class T>(T, const Problem& p, const Memory& m) {
    forward(p, m.in<T>(0), p.normalizes ? Factors<T>{m.in<T>(3), m.in<T>(4)} : Factors<T>{}, m.in<T>(1), p.bias ? m.in<T>(2) : nullptr,
            m.out<T>(0), m.workspace);
    if (p.sums) sum_channels(p, m.out<T>(0), m.out<T>(1), m.out<T>(2));
  });
}

Descriptions describe_convolution_backward_data(const KernelRequest& request) {
  if (!supported(request)) return {};
  Problem p = problem_of(request, request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape);
  p.masked = operand_at(request.inputs, 2).present() ? request.outputs[0].shape.elements() : 0;
  return describe(request, "native.convolution_backward_data", p, []<class T>(T, const Problem& p, const Memory& m) {
    backward_data<T>(p, m.in<T>(0), m.in<T>(1), nullptr, m.out<T>(0), m.workspace);
    for (std::int64_t i = 0; i < p.masked; ++i)
      if (!(m.in<T>(2)[i] > 0)) m.out<T>(0)[i] = 0;
  });
}

Descriptions describe_convolution_backward_weights(const KernelRequest& request) {
  if (!supported(request)) return {};
  Problem p = problem_of(request, request.inputs[0].shape, request.outputs[0].shape, request.inputs[1].shape);
  p.bias = operand_at(request.outputs, 1).present();
  p.normalizes = operand_at(request.inputs, 2).present();
  return describe(request, "native.convolution_backward_weights", p, []<class T>(T, const Problem& p, const Memory& m) {
    backward_weights(p, m.in<T>(0), p.normalizes ? Factors<T>{m.in<T>(2), m.in<T>(3)} : Factors<T>{}, m.in<T>(1), m.out<T>(0),
                     p.bias ? m.out<T>(1) : nullptr, m.workspace);
  });
}

// The gradient of a convolution from y's shape to x's, with a bias.
Descriptions describe_convolution_transpose(const KernelRequest& request) {
  if (!supported(request)) return {};
  Problem p = problem_of(request, request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape);
  p.bias = operand_at(request.inputs, 2).present();
  p.relu = has_relu(*request.attributes);
  return describe(request, "native.convolution_transpose", p, []<class T>(T, const Problem& p, const Memory& m) {
    backward_data(p, m.in<T>(0), m.in<T>(1), p.bias ? m.in<T>(2) : nullptr, m.out<T>(0), m.workspace);
  });
}

}  // namespace tandem::native
