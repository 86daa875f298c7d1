// Maxima over windows and their gradient where channels lie side by side, all of them (channels last) or a block: they are the lanes.
// What is kept for the gradient is the tap of each maximum, a byte, in the order of y.
#include <optional>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

using vector::PooledRun;

constexpr std::size_t most_taps = 255;  // numbered by a byte
constexpr std::int64_t longest_image = 1 << 16;  // tables have an entry for each place of an axis
constexpr std::string_view opaque_prefix = "opaque:native.channels.";

// One axis: output o meets input o·stride + tap·dilation − begin.
struct Axis {
  std::int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1, begin = 0;
};
// What a place of an axis meets: which one of the other side, by which tap.
struct Source {
  std::int64_t at, tap;
};
using Sources = std::vector<Source>;

// Of an output the inputs, or (backwards) of an input the outputs.
Sources sources_of(const Axis& a, std::int64_t place, bool backwards) {
  Sources all;
  for (std::int64_t k = 0; k < a.taps; ++k) {
    const std::int64_t distance = backwards ? place + a.begin - k * a.dilation : place * a.stride + k * a.dilation - a.begin;
    const std::int64_t at = backwards ? distance / a.stride : distance;
    if (distance >= 0 && at < (backwards ? a.out : a.in) && (!backwards || distance % a.stride == 0)) all.push_back({at, k});
  }
  return all;
}
std::vector<Sources> all_sources(const Axis& a, bool backwards) {
  std::vector<Sources> all;
  for (std::int64_t place = 0; place < (backwards ? a.in : a.out); ++place) all.push_back(sources_of(a, place, backwards));
  return all;
}

// Places of the last axis, `step` apart, that meet the same taps.
struct Run {
  std::int64_t first, places;
  Sources sources;  // of the first place; each one's are `from_step` behind those of the one before
};
std::vector<Run> runs_of(const std::vector<Sources>& all, std::int64_t step) {
  const auto alike = [](const Sources& a, const Sources& b) { return std::ranges::equal(a, b, {}, &Source::tap, &Source::tap); };
  std::vector<Run> runs;
  const auto n = static_cast<std::int64_t>(all.size());
  for (std::int64_t first = 0; first < std::min(step, n); ++first)
    for (std::int64_t place = first; place < n; place += step) {
      const Sources& sources = all[static_cast<std::size_t>(place)];
      if (place > first && alike(sources, runs.back().sources))
        ++runs.back().places;
      else
        runs.push_back({place, 1, sources});
    }
  return runs;
}

struct Problem {
  std::int64_t outer, channels;     // of images whose places hold so many
  std::vector<Sources> depths, lines;
  std::vector<Run> runs;
  std::int64_t from[3], to[3];      // sizes of the images
  std::int64_t line_taps, run_taps;
  std::int64_t step, from_step;     // of runs, in places
  bool bfloat16;
  int threads;
};

// How many channels lie side by side at each place, where that is how the layout is.
std::optional<std::int64_t> channels_together(const Shape& shape, const Layout& layout) {
  if (layout.any() || layout.opaque()) return std::nullopt;
  std::vector<int> order;
  const std::vector<PhysicalDim> dims = physical_dims(shape, layout);
  for (const PhysicalDim& d : dims) order.push_back(d.axis);
  std::vector<int> wanted(static_cast<std::size_t>(shape.rank()));
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = i == 0 ? 0 : static_cast<int>(i) + 1;
  wanted.back() = 1;
  const auto blocked = [&] {
    return order.size() > 1 && order[1] == 1 && std::equal(order.begin() + 2, order.end(), wanted.begin() + 1, wanted.end()) &&
           order[0] == 0;
  };
  return order == wanted || blocked() ? std::optional(dims.back().size) : std::nullopt;
}

// `from` and `to` in that layout; nothing where there is no such kernel.
std::optional<Problem> problem_of(const KernelRequest& request, const Operand& x, const Operand& y, const Layout& layout, bool backwards) {
  const std::optional<std::int64_t> channels = channels_together(x.shape, layout);
  const int rank = x.shape.rank() - 2;
  if (!channels || *channels < vector_table().pooling->lanes || rank > 3 || x.shape.elements() == 0) return std::nullopt;
  const Window window = window_of(*request.attributes, request.attributes->ints("kernel_shape"));
  Axis axes[3];
  for (int i = 0; i < rank; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (std::max(x.shape[2 + i], y.shape[2 + i]) > longest_image) return std::nullopt;
    axes[3 - rank + i] = {x.shape[2 + i], y.shape[2 + i], window.kernel[k], window.strides[k], window.dilations[k], window.begin[k]};
  }
  if (axes[0].taps * axes[1].taps * axes[2].taps > static_cast<std::int64_t>(most_taps)) return std::nullopt;
  for (const Axis& a : axes)  // a window that lies in the padding alone has no maximum
    for (const Sources& sources : all_sources(a, false))
      if (sources.empty()) return std::nullopt;
  Problem p{.outer = 0,
            .channels = *channels,
            .depths = all_sources(axes[0], backwards),
            .lines = all_sources(axes[1], backwards),
            .runs = runs_of(all_sources(axes[2], backwards), backwards ? axes[2].stride : 1),
            .from = {},
            .to = {},
            .line_taps = axes[1].taps,
            .run_taps = axes[2].taps,
            .step = backwards ? axes[2].stride : 1,
            .from_step = backwards ? 1 : axes[2].stride,
            .bfloat16 = x.dtype == DType::bfloat16,
            .threads = std::max(1, request.options.threads)};
  for (int i = 0; i < 3; ++i) {
    p.from[i] = backwards ? axes[i].out : axes[i].in;
    p.to[i] = backwards ? axes[i].in : axes[i].out;
  }
  p.outer = physical_elements(x.shape, layout) / (axes[0].in * axes[1].in * axes[2].in * p.channels);
  return p;
}

// Every line of places of `to`, split over the threads. `taps` lies as y does; null: none are kept.
void pool(const Problem& p, void (*run)(const PooledRun&), const std::byte* from, std::byte* to, std::uint8_t* taps, bool backwards) {
  const std::int64_t size = p.bfloat16 ? 2 : 4, lines = p.outer * p.to[0] * p.to[1],
                     from_image = p.from[0] * p.from[1] * p.from[2] * p.channels;
  parallel(p.threads, [&](int part) {
    std::array<std::int64_t, most_taps> offsets;
    std::array<std::uint8_t, most_taps> numbers;
    PooledRun r{.from = nullptr,
                .to = nullptr,
                .taps = nullptr,
                .offsets = offsets.data(),
                .numbers = numbers.data(),
                .count = 0,
                .places = 0,
                .from_step = p.from_step * p.channels,
                .to_step = p.step * p.channels,
                .channels = p.channels};
    const Range own = part_of(lines, part, p.threads);
    for (std::int64_t line = own.begin; line < own.end; ++line) {
      const std::int64_t image = line / (p.to[0] * p.to[1]);
      r.from = from + image * from_image * size;
      for (const Run& places : p.runs) {
        std::size_t n = 0;
        for (const Source& d : p.depths[static_cast<std::size_t>(line / p.to[1] % p.to[0])])
          for (const Source& h : p.lines[static_cast<std::size_t>(line % p.to[1])])
            for (const Source& w : places.sources) {
              offsets[n] = ((d.at * p.from[1] + h.at) * p.from[2] + w.at) * p.channels;
              numbers[n++] = static_cast<std::uint8_t>((d.tap * p.line_taps + h.tap) * p.run_taps + w.tap);
            }
        const std::int64_t at = (line * p.to[2] + places.first) * p.channels;
        r.count = static_cast<std::int64_t>(n);
        r.places = places.places;
        r.to = to + at * size;
        r.taps = !taps ? nullptr : backwards ? taps + image * from_image : taps + at;
        run(r);
      }
    }
  });
}

bool has_type(const Operand& o) { return o.dtype == DType::float32 || o.dtype == DType::bfloat16; }

// As the data lies, or else as is asked for, in blocks of a vector.
Layout layout_of(const KernelRequest& request, const Operand& x) {
  if (!x.layout.any() || x.shape.rank() > 5) return x.layout;
  const int lanes = vector_table().pooling->lanes;
  if (request.options.preference == LayoutPreference::channels_last || lanes < 8) return Layout::channels_last(x.shape.rank());
  return Layout(concat("aB", std::string_view("cde").substr(0, static_cast<std::size_t>(x.shape.rank()) - 2), lanes, 'b'));
}

}  // namespace

Descriptions describe_max_pool_of_channels(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  const bool training = request.op == "MaxPoolTraining";
  if (!has_type(x) || x.shape.rank() < 3 || (!training && operand_at(request.outputs, 1).present())) return {};
  const Layout layout = layout_of(request, x);
  const std::optional<Problem> p = problem_of(request, x, y, layout, false);
  if (!p) return {};
  KernelDescription d{.kernel = training ? "native.max_pool_training.channels" : "native.max_pool.channels",
                      .inputs = {with_layout(x, layout)},
                      .outputs = request.outputs,
                      .efficiency = 0.9};
  d.outputs[0] = with_layout(y, layout);
  if (training) d.outputs[1] = {DType::uint8, Shape{physical_elements(y.shape, layout)}, Layout(concat(opaque_prefix, layout.tag()))};
  d.make = make_kernel([p = *p, training](const Memory& m) {
    pool(p, vector_table().pooling->largest[p.bfloat16], m.in<std::byte>(0), m.out<std::byte>(0),
         training ? m.out<std::uint8_t>(1) : nullptr, false);
  });
  return {std::move(d)};
}

Descriptions describe_max_pool_of_channels_backward(const KernelRequest& request) {
  const Operand &dy = request.inputs[0], &taps = request.inputs[1], &dx = request.outputs[0];
  if (!has_type(dy) || !taps.layout.tag().starts_with(opaque_prefix)) return {};
  const Layout layout(taps.layout.tag().substr(opaque_prefix.size()));
  const std::optional<Problem> p = problem_of(request, dx, dy, layout, true);
  if (!p || taps.shape.elements() != physical_elements(dy.shape, layout)) return {};
  KernelDescription d{.kernel = "native.max_pool_backward.channels",
                      .inputs = {with_layout(dy, layout), taps},
                      .outputs = {with_layout(dx, layout)},
                      .efficiency = 0.9};
  d.make = make_kernel([p = *p](const Memory& m) {
    pool(p, vector_table().pooling->spread[p.bfloat16], m.in<std::byte>(0), m.out<std::byte>(0),
         const_cast<std::uint8_t*>(m.in<std::uint8_t>(1)), true);
  });
  return {std::move(d)};
}

}  // namespace tandem::native
