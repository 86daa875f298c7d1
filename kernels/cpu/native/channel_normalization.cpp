// BatchNormalization while it trains (docs/internal-operators.md) where channels lie side by side: in blocks of 16, or last. A group of
// channels that the second cache holds is normalized by the core that summed it; larger ones are cut into chunks of rows. Each chunk is
// summed for itself, and chunks in their order, so that bits do not depend on threads.
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

using vector::ChannelRows;
using vector::most_channels;

constexpr std::int64_t lanes = 16;
constexpr std::int64_t chunk_rows = 1024;       // about, where channels are last; else a chunk is a sample
constexpr std::int64_t cached_bytes = 1 << 20, streamed_bytes = 8 << 20;

Layout blocked(int rank) {
  std::string tag = "aB";
  for (int i = 2; i < rank; ++i) tag += static_cast<char>('a' + i);
  return Layout(tag + "16b");
}

// As x lies, else as is preferred.
Layout layout_of(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  const int rank = x.shape.rank();
  const Layout last = Layout::channels_last(rank), blocks = blocked(rank);
  if (rank < 3) return Layout::row_major(rank);
  if (x.layout == last || x.layout == blocks) return x.layout;
  return request.options.preference == LayoutPreference::channels_last ? last : blocks;
}

// A group of channels: its first, and how many.
struct Group {
  std::int64_t first, channels;
};

struct Problem {
  std::int64_t samples, channels, plane;
  std::size_t size;  // of an element
  bool blocks;
  int threads;
  double epsilon;
  float low, high;

  Problem(const KernelRequest& request, const Layout& layout)
      : samples(request.inputs[0].shape[0]), channels(request.inputs[0].shape[1]), plane(product(spatial(request.inputs[0].shape))), size(size_of(request.inputs[0].dtype)),
        blocks(layout == blocked(request.inputs[0].shape.rank())), threads(threads_for(samples * channels * plane, request.options.threads)),
        epsilon(request.attributes->real("epsilon", 1e-5F)), low(-std::numeric_limits<float>::infinity()), high(-low) {
    const std::string activation = request.attributes->text("activation", "");
    if (activation == "Clip") {
      low = request.attributes->real("min", low);
      high = request.attributes->real("max", high);
    } else if (has_relu(*request.attributes)) {
      low = 0;
    }
  }

  std::int64_t rows() const { return samples * plane; }
  bool streams() const { return rows() * channels * static_cast<std::int64_t>(size) > streamed_bytes; }
  double count() const { return static_cast<double>(std::max<std::int64_t>(1, rows())); }
  std::int64_t wide() const { return blocks ? 0 : channels / most_channels; }  // groups of 64
  std::int64_t groups() const { return wide() + (channels - wide() * most_channels + lanes - 1) / lanes; }
  Group group(std::int64_t i) const {
    if (i < wide()) return {i * most_channels, most_channels};
    const std::int64_t first = wide() * most_channels + (i - wide()) * lanes;
    return {first, std::min(lanes, channels - first)};
  }
  std::int64_t chunks() const { return blocks ? samples : std::clamp<std::int64_t>(rows() / chunk_rows, 1, 16); }
  Range chunk(std::int64_t i) const { return blocks ? Range{i * plane, (i + 1) * plane} : part_of(rows(), i, chunks()); }
  std::int64_t offset(const Group& g, std::int64_t row) const {  // in elements
    return blocks ? (row / plane * ((channels + lanes - 1) / lanes) + g.first / lanes) * plane * lanes + row % plane * lanes : row * channels + g.first;
  }
  ChannelRows at(const Group& g, const Range& chunk) const { return {chunk.end - chunk.begin, blocks ? lanes : channels, static_cast<int>(blocks ? lanes : g.channels)}; }
};

// What a chunk sums of each channel, and the chunks of a group one after another.
struct Sums {
  double a[most_channels], b[most_channels];
};

// For every group: sum(group, chunk, Sums&) of each chunk, then apply(group, sums of the chunks, chunk, whether it is the group's
// last call) of each, the ones that were read last first. `tensors`: how many are read twice. `shared`: workspace of the chunks' sums.
template <class Sum, class Apply>
void for_each_group(const Problem& p, int tensors, std::byte* shared, const Sum& sum, const Apply& apply) {
  const std::int64_t groups = p.groups(), chunks = p.chunks(), bytes = p.rows() * (p.wide() > 0 ? most_channels : lanes) * tensors * static_cast<std::int64_t>(p.size);
  Sums* const sums = reinterpret_cast<Sums*>(shared);
  const bool alone = chunks < p.threads || (bytes <= cached_bytes && groups >= p.threads);
  if (alone)
    return share(p.threads, groups, [&](int part, std::int64_t i) {
      const Group g = p.group(i);
      Sums* const own = sums + part * chunks;
      for (std::int64_t k = 0; k < chunks; ++k) sum(g, p.chunk(k), own[k]);
      apply(g, own, Range{0, chunks}, true);
    });
  for (std::int64_t i = 0; i < groups; ++i) {
    const Group g = p.group(i);
    parallel(p.threads, [&](int part) {
      const Range mine = part_of(chunks, part, p.threads);
      for (std::int64_t k = mine.begin; k < mine.end; ++k) sum(g, p.chunk(k), sums[k]);
    });
    parallel(p.threads, [&](int part) { apply(g, sums, part_of(chunks, part, p.threads), part == 0); });
  }
}
std::int64_t workspace_of(const Problem& p) { return p.threads * p.chunks() * static_cast<std::int64_t>(sizeof(Sums)); }

// By channel, 0 behind a group's last.
struct Line {
  alignas(64) float values[most_channels] = {};
};

// The factors of a group, of whose channels the first is given, from mean and variance as they are stored: the same forward and backward.
struct Factors {
  Line mean, factor, bias, shift, tilt;
  double inverse[most_channels] = {};
  Factors(const Problem& p, const Group& g, const float* scale, const float* shifts, const float* means, const float* variances) {
    for (std::int64_t c = 0; c < g.channels; ++c) {
      inverse[c] = 1 / std::sqrt(static_cast<double>(variances[c]) + p.epsilon);
      mean.values[c] = means[c];
      factor.values[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse[c]);
      bias.values[c] = shifts[c];
    }
  }
};

std::optional<KernelDescription> described(const KernelRequest& request, std::string kernel, std::initializer_list<std::size_t> images_in, std::initializer_list<std::size_t> images_out, const Layout& layout) {
  const Operand& x = request.inputs[0];
  if (machine_isa() != Isa::avx512 || x.shape.rank() < 2 || product(spatial(x.shape)) == 0 || (x.dtype != DType::float32 && x.dtype != DType::bfloat16)) return std::nullopt;
  KernelDescription d = dense_description(request, std::move(kernel));
  d.efficiency = 0.9;
  for (const std::size_t i : images_in)
    if (i < d.inputs.size()) d.inputs[i] = with_layout(d.inputs[i], layout);
  for (const std::size_t i : images_out)
    if (i < d.outputs.size()) d.outputs[i] = with_layout(d.outputs[i], layout);
  const auto wide = [](const Operand& o) { return o.shape.rank() != 1 || o.layout.opaque() || !o.present() || o.dtype == DType::float32; };
  if (!std::all_of(request.inputs.begin(), request.inputs.end(), wide)) return std::nullopt;
  return d;
}

const vector::BatchNormalizations& loops_of(DType dtype) { return vector_table().batch_normalizations[dtype == DType::bfloat16 ? 1 : 0]; }

std::byte* element(std::byte* data, const Problem& p, std::int64_t offset) { return data ? data + offset * static_cast<std::int64_t>(p.size) : nullptr; }
std::byte* given(const std::vector<std::byte*>& operands, std::size_t i) { return i < operands.size() ? operands[i] : nullptr; }

}  // namespace

Descriptions describe_channel_normalization(const KernelRequest& request) {
  const Layout layout = layout_of(request);
  std::optional<KernelDescription> d = described(request, "native.batch_normalization_training.channels", {0, 3}, {0}, layout);
  if (!d || operand_at(request.inputs, 4).present() || !request.outputs[2].present()) return {};
  d->outputs[3] = {DType::uint8, Shape{0}, Layout::opaque("native.channels")};
  const Problem p(request, layout);
  d->workspace = workspace_of(p);
  d->make = make_kernel([p, &loops = loops_of(request.inputs[0].dtype)](const Memory& m) {
    const auto sum = [&](const Group& g, const Range& rows, Sums& sums) { loops.moments(element(m.inputs[0], p, p.offset(g, rows.begin)), p.at(g, rows), sums.a, sums.b); };
    const auto apply = [&](const Group& g, const Sums* sums, const Range& chunks, bool stores) {
      double mean[most_channels] = {}, squares[most_channels] = {}, before = 0;
      for (std::int64_t k = 0; k < p.chunks(); ++k) {
        const Range rows = p.chunk(k);
        if (rows.begin == rows.end) continue;
        const double here = static_cast<double>(rows.end - rows.begin), share = here / (before + here), both = share * before;
        for (std::int64_t c = 0; c < g.channels; ++c) {
          const double apart = sums[k].a[c] - mean[c];
          mean[c] += apart * share;
          squares[c] += sums[k].b[c] + apart * apart * both;
        }
        before += here;
      }
      float means[most_channels], variances[most_channels];
      for (std::int64_t c = 0; c < g.channels; ++c) {
        means[c] = static_cast<float>(mean[c]);
        variances[c] = static_cast<float>(squares[c] / p.count());
      }
      const Factors f(p, g, m.in<float>(1) + g.first, m.in<float>(2) + g.first, means, variances);
      if (stores) {
        std::copy_n(means, g.channels, m.out<float>(1) + g.first);
        std::copy_n(variances, g.channels, m.out<float>(2) + g.first);
      }
      for (std::int64_t k = chunks.end; k-- > chunks.begin;) {
        const Range rows = p.chunk(k);
        const std::int64_t at = p.offset(g, rows.begin);
        loops.apply({element(m.inputs[0], p, at), element(given(m.inputs, 3), p, at), element(m.outputs[0], p, at), p.at(g, rows), f.mean.values, f.factor.values, f.bias.values, p.low, p.high, p.streams()});
      }
    };
    for_each_group(p, 1, m.workspace, sum, apply);
  });
  return {*d};
}

// x, dy, scale, bias, mean, variance, opaque, y?, dy2? → dx, dscale, dbias, daddend?
Descriptions describe_channel_normalization_backward(const KernelRequest& request) {
  if (request.inputs[6].layout != Layout::opaque("native.channels") || !request.inputs[5].present()) return {};
  const Layout layout = layout_of(request);
  std::optional<KernelDescription> d = described(request, "native.batch_normalization_backward.channels", {0, 1, 7, 8}, {0, 3}, layout);
  if (!d) return {};
  const Problem p(request, layout);
  d->workspace = workspace_of(p);
  d->in_place = {{0, 1}};
  d->make = make_kernel([p, &loops = loops_of(request.inputs[0].dtype)](const Memory& m) {
    const auto gradient = [&](const Group& g, const Range& rows, const Factors& f) -> vector::NormalizedBatchBackward {
      const std::int64_t at = p.offset(g, rows.begin);
      return {element(m.inputs[0], p, at), element(m.inputs[1], p, at), element(given(m.inputs, 8), p, at), element(given(m.inputs, 7), p, at), element(m.outputs[0], p, at),
              element(given(m.outputs, 3), p, at), p.at(g, rows), f.mean.values, f.factor.values, f.bias.values, f.shift.values, f.tilt.values, p.low, p.high, p.streams()};
    };
    const auto factors = [&](const Group& g) { return Factors(p, g, m.in<float>(2) + g.first, m.in<float>(3) + g.first, m.in<float>(4) + g.first, m.in<float>(5) + g.first); };
    const auto sum = [&](const Group& g, const Range& rows, Sums& sums) { loops.sums(gradient(g, rows, factors(g)), sums.a, sums.b); };
    const auto apply = [&](const Group& g, const Sums* sums, const Range& chunks, bool stores) {
      Factors f = factors(g);
      for (std::int64_t c = 0; c < g.channels; ++c) {
        double plain = 0, along = 0;
        for (std::int64_t k = 0; k < p.chunks(); ++k) {
          plain += sums[k].a[c];
          along += sums[k].b[c];
        }
        f.shift.values[c] = static_cast<float>(plain / p.count());
        f.tilt.values[c] = static_cast<float>(along * f.inverse[c] * f.inverse[c] / p.count());
        if (!stores) continue;
        m.out<float>(1)[g.first + c] = static_cast<float>(along * f.inverse[c]);
        m.out<float>(2)[g.first + c] = static_cast<float>(plain);
      }
      for (std::int64_t k = chunks.end; k-- > chunks.begin;) loops.apply_backward(gradient(g, p.chunk(k), f));
    };
    for_each_group(p, 2, m.workspace, sum, apply);
  });
  return {*d};
}

}  // namespace tandem::native
