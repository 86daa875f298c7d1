// Convolution as matrix products over columns: for a tile of windows, column (c, tap) holds the elements of x that the
// tap meets. y = w·columns, dcolumns = wᵀ·dy, dw = dy·columnsᵀ. Where x is to be normalized first, columns hold
// max(0, x·factor + shift) by channel, and 0 in the padding. Threads share out samples, groups, tiles and blocks of channels; each element
// is summed in one order, whatever these are.
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
  // Of the channels from x's on; `factors` are theirs.
  void gather(const T* x, const Factors<T>& factors, std::int64_t channels, std::int64_t count) const {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t place = places[tap * tile + t];
          columns[(c * p.windows.taps() + tap) * tile + t] = place < 0 ? T(0) : factors(x[c * p.windows.plane() + place], c);
        }
  }
  void scatter(T* dx, std::int64_t channels, std::int64_t count) const {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t tap = 0; tap < p.windows.taps(); ++tap)
        for (std::int64_t t = 0; t < count; ++t) {
          const std::int64_t place = places[tap * tile + t];
          if (place >= 0) dx[c * p.windows.plane() + place] += columns[(c * p.windows.taps() + tap) * tile + t];
        }
  }
};

// Into how many blocks of its `channels` a task is cut, so that the thread with most to do has the least: what a block does again costs
// as much as `again` channels.
std::int64_t best_blocks(std::int64_t tasks, std::int64_t channels, std::int64_t again, int threads) {
  std::int64_t best = 1, least = INT64_MAX;
  for (std::int64_t blocks = 1; blocks <= std::min<std::int64_t>(channels, threads); ++blocks) {
    const std::int64_t work = (tasks * blocks + threads - 1) / threads * (again + (channels + blocks - 1) / blocks);
    if (work < least) best = blocks, least = work;
  }
  return best;
}
constexpr std::int64_t gathered_again = 4, located_again = 8;

// The channels [begin, end) of y, outputs [first, first + count) of each.
template <class T>
void add_bias(T* y, Range channels, std::int64_t plane, std::int64_t first, std::int64_t count, const T* bias, bool relu) {
  for (std::int64_t c = channels.begin; c < channels.end; ++c)
    for (std::int64_t i = first; i < first + count; ++i) {
      const T v = y[c * plane + i] + (bias ? bias[c] : T(0));
      y[c * plane + i] = relu && v < 0 ? T(0) : v;
    }
}

template <class T>
void forward(const Problem& p, const T* x, const Factors<T>& factors, const T* w, const T* b, T* y, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs(), tiles = (outputs + tile - 1) / tile, images = p.samples * p.group;
  const std::int64_t blocks = best_blocks(images * tiles, p.out, gathered_again, p.threads);
  share(p.threads, images * tiles * blocks, [&](int part, std::int64_t task) {
    const std::int64_t image = task / blocks / tiles, g = image % p.group, first = task / blocks % tiles * tile;
    const std::int64_t count = std::min(tile, outputs - first);
    const Range channels = part_of(p.out, task % blocks, blocks);
    const Tile<T> scratch(p, workspace, part);
    T* const out = y + image * p.out * outputs;
    scratch.locate(first, count);
    scratch.gather(x + image * p.in * p.windows.plane(), factors.from(g * p.in), p.in, count);
    gemm<T>(channels.end - channels.begin, count, p.columns(), {w + (g * p.out + channels.begin) * p.columns(), p.columns(), 1},
            {scratch.columns, tile, 1}, out + channels.begin * outputs + first, outputs, false);
    if (b || p.relu) add_bias(out, channels, outputs, first, count, b ? b + g * p.out : nullptr, p.relu);
  });
}

// b, relu: of a transposed convolution.
template <class T>
void backward_data(const Problem& p, const T* dy, const T* w, const T* b, T* dx, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs(), plane = p.windows.plane(), taps = p.windows.taps(), images = p.samples * p.group;
  const std::int64_t blocks = best_blocks(images, p.in, located_again, p.threads);
  share(p.threads, images * blocks, [&](int part, std::int64_t task) {
    const std::int64_t image = task / blocks, g = image % p.group;
    const Range channels = part_of(p.in, task % blocks, blocks);
    const std::int64_t some = channels.end - channels.begin;
    const Tile<T> scratch(p, workspace, part);
    T* const out = dx + image * p.in * plane;
    std::fill_n(out + channels.begin * plane, some * plane, T(0));
    for (std::int64_t first = 0; first < outputs; first += tile) {
      const std::int64_t count = std::min(tile, outputs - first);
      scratch.locate(first, count);
      gemm<T>(some * taps, count, p.out, {w + g * p.out * p.columns() + channels.begin * taps, 1, p.columns()},
              {dy + image * p.out * outputs + first, outputs, 1}, scratch.columns, tile, false);
      scratch.scatter(out + channels.begin * plane, some, count);
    }
    if (b || p.relu) add_bias(out, channels, plane, 0, plane, b ? b + g * p.in : nullptr, p.relu);
  });
}

// A task owns dw of some output and input channels of a group.
struct WeightBlocks {
  std::int64_t in = 1, out = 1;
};
WeightBlocks weight_blocks(const Problem& p) {
  WeightBlocks best;
  std::int64_t least = INT64_MAX;
  for (std::int64_t in = 1; in <= std::min<std::int64_t>(p.in, p.threads); ++in) {
    const std::int64_t out = best_blocks(p.group * in, p.out, gathered_again, p.threads);
    const std::int64_t tasks = (p.group * in * out + p.threads - 1) / p.threads;
    const std::int64_t work = tasks * ((p.in + in - 1) / in) * (gathered_again + (p.out + out - 1) / out);
    if (work < least) best = {in, out}, least = work;
  }
  return best;
}

template <class T>
void backward_weights(const Problem& p, const T* x, const Factors<T>& factors, const T* dy, T* dw, T* db, std::byte* workspace) {
  const std::int64_t outputs = p.windows.outputs(), taps = p.windows.taps(), plane = p.windows.plane();
  const WeightBlocks blocks = weight_blocks(p);
  share(p.threads, p.group * blocks.in * blocks.out, [&](int part, std::int64_t task) {
    const std::int64_t g = task / blocks.in / blocks.out;
    const Range ins = part_of(p.in, task / blocks.out % blocks.in, blocks.in), outs = part_of(p.out, task % blocks.out, blocks.out);
    const std::int64_t rows = outs.end - outs.begin, row = g * p.out + outs.begin, columns = (ins.end - ins.begin) * taps;
    const Tile<T> scratch(p, workspace, part);
    T* const to = dw + row * p.columns() + ins.begin * taps;
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(to + i * p.columns(), columns, T(0));
    for (std::int64_t first = 0; first < outputs; first += tile) {
      const std::int64_t count = std::min(tile, outputs - first);
      scratch.locate(first, count);
      for (std::int64_t n = 0; n < p.samples; ++n) {
        scratch.gather(x + ((n * p.group + g) * p.in + ins.begin) * plane, factors.from(g * p.in + ins.begin), ins.end - ins.begin, count);
        gemm<T>(rows, columns, count, {dy + (n * p.group * p.out + row) * outputs + first, outputs, 1}, {scratch.columns, 1, tile}, to,
                p.columns(), true);
      }
    }
    for (std::int64_t m = row; db && ins.begin == 0 && m < row + rows; ++m) {
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
  share(p.threads, channels, [&](int, std::int64_t c) {
    double s = 0, q = 0;
    for (std::int64_t n = 0; n < p.samples; ++n)
      for (const T* v = y + (n * channels + c) * plane, *end = v + plane; v < end; ++v) {
        s += *v;
        q += static_cast<double>(*v) * *v;
      }
    sum[c] = static_cast<T>(s);
    squares[c] = static_cast<T>(q);
  });
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
    const int parts = threads_for(p.masked, p.threads);
    parallel(parts, [&](int part) {
      const Range mine = part_of(p.masked, part, parts);
      for (std::int64_t i = mine.begin; i < mine.end; ++i)
        if (!(m.in<T>(2)[i] > 0)) m.out<T>(0)[i] = 0;
    });
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
