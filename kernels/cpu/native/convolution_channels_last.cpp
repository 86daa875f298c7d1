// Two-dimensional convolutions, channels last, in blocks of eight channels: for layers whose channels fill such blocks
// better than the blocks of sixteen that others use (20 or 50 channels, say). A tile is one place of several samples, so
// that all of it meets the same taps and nothing is multiplied with padding.
//   y[o] = Σ x·w, the filter as Acdb8a. dx[i] = Σ dy·w, which is the same with the taps backwards, the filter as Bcda8b.
#include <limits>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

using vector::ConvolutionTile;

constexpr std::int64_t block = 8;
std::int64_t blocks_of(std::int64_t channels) { return (channels + block - 1) / block; }

// From `in` to `out` channels, which are the lanes.
struct Problem {
  std::int64_t samples, in, out;
  Axis h, w;
  int threads;
  bool bias = false, relu = false, backwards = false;

  std::int64_t filter_block() const { return h.taps * w.taps * in * block; }
};

// Multiply-adds in flight that keep a core busy: each sample and vector of a tile is one.
constexpr std::int64_t enough_in_flight = 8;
std::int64_t in_flight(const Problem& p, std::int64_t samples) {
  return std::min(enough_in_flight, samples * std::min<std::int64_t>(blocks_of(p.out), 4));
}

// A part has some samples, and of each some lines. Samples that are computed together share what is read of the filter and keep a core
// busy, so lines are cut only where there are few of them.
struct Parts {
  std::int64_t samples = 1, lines = 1;
};
std::int64_t most_of(std::int64_t n, std::int64_t parts) { return (n + parts - 1) / parts; }
Parts parts_of(const Problem& p) {
  Parts best;
  double least = std::numeric_limits<double>::max();
  for (std::int64_t samples = std::min<std::int64_t>(p.threads, std::max<std::int64_t>(1, p.samples)); samples > 0; --samples) {
    const std::int64_t lines = std::clamp<std::int64_t>(p.threads / samples, 1, std::max<std::int64_t>(1, p.h.out));
    const std::int64_t each = most_of(p.samples, samples);
    const auto work = static_cast<double>(each * most_of(p.h.out, lines));
    const double time = work / static_cast<double>(std::max<std::int64_t>(1, in_flight(p, each)));
    if (time < least) best = {samples, lines}, least = time;
  }
  return best;
}

Problem problem_of(const KernelRequest& request, const Shape& x, const Shape& w, const Shape& y) {
  const Window window = window_of(*request.attributes, w);
  return {x[0], x[1], y[1], Axis(window, 0, x, y), Axis(window, 1, x, y), std::max(1, request.options.threads)};
}

// n cut into the fewest parts of at most `most`, all about as long.
template <class Part>
void cut(Range range, std::int64_t most, const Part& part) {
  const std::int64_t n = range.end - range.begin;
  const int parts = static_cast<int>((n + most - 1) / most);
  for (int k = 0; k < parts; ++k) {
    const Range r = part_of(n, k, parts);
    part(Range{range.begin + r.begin, range.begin + r.end});
  }
}

void convolve(const Problem& p, Range samples, Range rows, const float* x, const float* w, const float* bias, float* y) {
  const vector::ConvolutionTiles& tiles = *vector_table().convolution;
  const std::int64_t image = p.h.in * p.w.in * p.in, tap = p.in * block, direction = p.backwards ? -1 : 1;
  const float* const first_tap = w + (p.backwards ? p.filter_block() - tap : 0);
  ConvolutionTile tile{};
  tile.x_step = image;
  tile.x_line = p.h.dilation * p.w.in * p.in;
  tile.x_column = p.w.dilation * p.in;
  tile.w_block = p.filter_block();
  tile.w_line = direction * p.w.taps * tap;
  tile.w_column = direction * tap;
  tile.y_step = p.h.out * p.w.out * p.out;
  tile.relu = p.relu;
  const bool one_run = tile.x_column == p.in && tile.w_column == tap;  // the columns of a line follow each other
  cut({0, blocks_of(p.out)}, static_cast<std::int64_t>(std::size(tiles.rows)), [&](Range blocks) {
    const auto vectors = static_cast<std::size_t>(blocks.end - blocks.begin - 1);
    tile.bias = bias ? bias + blocks.begin * block : nullptr;
    tile.last = static_cast<int>(std::min(block, p.out - (blocks.end - 1) * block));
    cut(samples, tiles.rows[vectors], [&](Range some) {
      const auto run = tiles.forward[vectors][some.end - some.begin - 1];
      for (std::int64_t h = rows.begin; h < rows.end; ++h) {
        const Range lines = p.h.taps_of(h);
        tile.lines = lines.end - lines.begin;
        for (std::int64_t c = 0; c < p.w.out; ++c) {
          const Range columns = p.w.taps_of(c);
          tile.columns = one_run ? 1 : columns.end - columns.begin;
          tile.run = one_run ? (columns.end - columns.begin) * p.in : p.in;
          tile.x = x + some.begin * image + (p.h.input(h, lines.begin) * p.w.in + p.w.input(c, columns.begin)) * p.in;
          tile.w = first_tap + blocks.begin * p.filter_block() + lines.begin * tile.w_line + columns.begin * tile.w_column;
          tile.y = y + some.begin * tile.y_step + (h * p.w.out + c) * p.out + blocks.begin * block;
          run(tile);
        }
      }
    });
  });
}

// A guess of the share of the peak: of lanes, of threads with work, and of the multiply-adds in flight. Runs over few channels are short:
// half of it is lost between them.
double efficiency(const Problem& p) {
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  };
  const Parts parts = parts_of(p);
  const std::int64_t samples = most_of(p.samples, parts.samples), lines = most_of(p.h.out, parts.lines);
  return (p.in <= 4 ? 0.35 : 0.7) * share(p.out, blocks_of(p.out) * block) * share(p.samples * p.h.out, samples * lines * p.threads) *
         share(in_flight(p, samples), enough_in_flight);
}

Descriptions describe(const KernelRequest& request, std::string kernel, std::string_view filter, const Problem& p) {
  KernelDescription d{.kernel = std::move(kernel), .inputs = request.inputs, .outputs = request.outputs};
  d.inputs[0] = with_layout(d.inputs[0], Layout::channels_last(4));
  d.inputs[1] = with_layout(d.inputs[1], Layout(std::string(filter)));
  if (p.bias) d.inputs[2] = row_major(d.inputs[2]);
  d.outputs[0] = with_layout(d.outputs[0], Layout::channels_last(4));
  d.efficiency = efficiency(p);
  d.make = make_kernel([p, parts = parts_of(p)](const Memory& m) {
    parallel(static_cast<int>(parts.samples * parts.lines), [&](int part) {
      const Range samples = part_of(p.samples, part / parts.lines, parts.samples);
      const Range lines = part_of(p.h.out, part % parts.lines, parts.lines);
      convolve(p, samples, lines, m.in<float>(0), m.in<float>(1), p.bias ? m.in<float>(2) : nullptr, m.out<float>(0));
    });
  });
  return {std::move(d)};
}

// Where the last eight of sixteen lanes would be idle, and nothing but a convolution (of two operands, and a bias) is asked for.
bool fits(const KernelRequest& request, std::size_t operands) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  return machine_isa() != Isa::baseline && request.inputs.size() <= operands && request.outputs.size() == 1 && x.dtype == DType::float32 &&
         x.shape.rank() == 4 && request.attributes->integer("group", 1) == 1 && y.shape[1] % 16 != 0 && y.shape[1] % 16 <= block;
}

}  // namespace

Descriptions describe_channels_last_convolution(const KernelRequest& request) {
  if (!fits(request, 3)) return {};
  Problem p = problem_of(request, request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape);
  p.bias = operand_at(request.inputs, 2).present();
  p.relu = has_relu(*request.attributes);
  return describe(request, "native.convolution.channels_last", "Acdb8a", p);
}

// dx[i] = Σ dy[i + begin − tap·dilation]·w[tap]: over the taps backwards, a convolution.
Descriptions describe_channels_last_convolution_backward_data(const KernelRequest& request) {
  if (!fits(request, 2)) return {};
  Problem p = problem_of(request, request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape);
  if (p.h.stride != 1 || p.w.stride != 1) return {};
  p.backwards = true;
  std::swap(p.in, p.out);
  for (Axis* axis : {&p.h, &p.w}) {
    std::swap(axis->in, axis->out);
    axis->begin = (axis->taps - 1) * axis->dilation - axis->begin;
  }
  return describe(request, "native.convolution_backward_data.channels_last", "Bcda8b", p);
}

}  // namespace tandem::native
