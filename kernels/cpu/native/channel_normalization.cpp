// BatchNormalization while it trains (docs/internal-operators.md) where channels lie side by side: in blocks of 16, or last. A group of
// channels that the second cache holds is normalized by the core that summed it, where there are groups for all. Else threads share the
// chunks of rows of several groups. Each chunk is summed for itself, and chunks in their order: bits do not depend on threads.
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

using vector::ChannelRows;

constexpr std::int64_t lanes = 16;
constexpr std::int64_t chunk_elements = 32768, piece = 256;
constexpr std::int64_t many_tasks = 64;  // chunks of all groups: where blocks have fewer samples, a chunk is a part of one, in pieces
constexpr std::int64_t usual_chunks = 16, most_chunks = 32, many_rows = 512;  // at most, where channels are last
constexpr std::int64_t cached_bytes = 1 << 20, streamed_bytes = 8 << 20;

// As x lies, else as is preferred.
Layout layout_of(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  const int rank = x.shape.rank();
  const Layout last = Layout::channels_last(rank), blocks = channel_blocks(rank);
  if (rank < 3) return Layout::row_major(rank);
  const Attributes& a = *request.attributes;
  // a block's padding is 0
  if (x.shape[1] % lanes != 0 && a.text("activation", "") == "Clip" && (a.real("min", 0) > 0 || a.real("max", 0) < 0)) return last;
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
      : samples(request.inputs[0].shape[0]),
        channels(request.inputs[0].shape[1]),
        plane(product(spatial(request.inputs[0].shape))),
        size(size_of(request.inputs[0].dtype)),
        blocks(layout == channel_blocks(request.inputs[0].shape.rank())),
        threads(threads_for(samples * channels * plane, request.options.threads)),
        epsilon(request.attributes->real("epsilon", 1e-5F)),
        low(-std::numeric_limits<float>::infinity()),
        high(-low) {
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
  // Of a group. Where channels are last it has all of them, or as many as give every thread a chunk: no sum changes by that.
  std::int64_t width() const {
    const std::int64_t vectors = (channels + lanes - 1) / lanes, of_each = (threads + chunks() - 1) / chunks();
    return blocks ? lanes : (vectors + of_each - 1) / of_each * lanes;
  }
  std::int64_t groups() const { return (channels + width() - 1) / width(); }
  Group group(std::int64_t i) const { return {i * width(), std::min(width(), channels - i * width())}; }
  std::int64_t chunks_of_sample() const {
    const std::int64_t tasks = std::max<std::int64_t>(1, samples * ((channels + lanes - 1) / lanes));
    return std::min((plane * lanes + chunk_elements - 1) / chunk_elements, (many_tasks + tasks - 1) / tasks);
  }
  std::int64_t chunks() const {
    if (blocks) return std::max<std::int64_t>(1, samples * chunks_of_sample());
    return std::clamp<std::int64_t>(rows() * channels / chunk_elements, 1, std::clamp(rows() / many_rows, usual_chunks, most_chunks));
  }
  Range chunk(std::int64_t i) const {
    if (!blocks) return part_of(rows(), i, chunks());
    const std::int64_t first = i / chunks_of_sample() * plane;
    const Range r = part_of((plane + piece - 1) / piece, i % chunks_of_sample(), chunks_of_sample());
    return {first + r.begin * piece, first + std::min(plane, r.end * piece)};
  }
  std::int64_t bytes_of_group(int tensors) const { return rows() * width() * tensors * static_cast<std::int64_t>(size); }
  // Whether a thread has groups of its own; else so many groups are taken at a time: those whose chunks the second caches hold, or give
  // every thread two.
  bool alone(int tensors) const {
    return threads == 1 || (blocks && bytes_of_group(tensors) <= cached_bytes && groups() >= threads);
  }
  std::int64_t at_a_time(int tensors) const {
    return std::clamp<std::int64_t>(std::max((2 * threads + chunks() - 1) / chunks(),
                                             threads * cached_bytes / std::max<std::int64_t>(1, bytes_of_group(tensors))),
                                    1, std::max<std::int64_t>(1, groups()));
  }
  std::int64_t offset(const Group& g, std::int64_t row) const {  // in elements
    return blocks ? (row / plane * ((channels + lanes - 1) / lanes) + g.first / lanes) * plane * lanes + row % plane * lanes
                  : row * channels + g.first;
  }
  ChannelRows at(const Group& g, const Range& chunk) const {
    return {chunk.end - chunk.begin, blocks ? lanes : channels, static_cast<int>(blocks ? lanes : g.channels)};
  }
};

// What a chunk sums of each channel, or all chunks of a group.
struct Sums {
  double *a, *b;
};
// The factors of a group's channels: `factor` and `inverse` from mean and variance as they are stored, the same forward and backward.
struct Factors {
  double* inverse;
  Sums whole;
  float *mean, *factor, *bias, *shift, *tilt, *partial;

  void set(const Problem& p, const Group& g, const float* scale, const float* shifts, const float* means, const float* variances) const {
    for (std::int64_t c = 0; c < g.channels; ++c) {
      inverse[c] = 1 / std::sqrt(static_cast<double>(variances[c]) + p.epsilon);
      mean[c] = means[c];
      factor[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse[c]);
      bias[c] = shifts[c];
    }
    // so is what lies behind a block's last channel
    for (float* const f : {mean, factor, bias, shift, tilt}) std::fill(f + g.channels, f + p.width(), 0.0F);
  }
};

// The workspace: each thread's factors; the sums of chunks, and of all, of the groups that are at work at once.
class Workspace {
 public:
  Workspace(const Problem& p, int tensors)
      : width_(p.width()), sums_(p.chunks() + 1), threads_(p.threads), groups_(p.alone(tensors) ? p.threads : p.at_a_time(tensors)) {}
  std::int64_t bytes() const { return groups_ * sums_ * 2 * doubles() + threads_ * factors(); }
  Factors factors_of(std::byte* memory, int part) const {
    std::byte* const at = memory + groups_ * sums_ * 2 * doubles() + part * factors();
    double* const d = reinterpret_cast<double*>(at);
    float* const f = reinterpret_cast<float*>(at + 3 * doubles());
    return {d, {d + width_, d + 2 * width_}, f, f + width_, f + 2 * width_, f + 3 * width_, f + 4 * width_, f + 5 * width_};
  }
  Sums sums_of(std::byte* memory, std::int64_t group, std::int64_t chunk) const {
    double* const a = reinterpret_cast<double*>(memory) + (group * sums_ + chunk) * 2 * width_;
    return {a, a + width_};
  }
  Sums whole(std::byte* memory, std::int64_t group) const { return sums_of(memory, group, sums_ - 1); }

 private:
  std::int64_t doubles() const { return width_ * static_cast<std::int64_t>(sizeof(double)); }
  std::int64_t factors() const { return 3 * doubles() + 7 * width_ * static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t width_, sums_, threads_, groups_;
};

// For every group of `pass`: sum of each chunk, then total of all by channel (by every thread for itself where that is less than waiting
// for the others), then finish (which stores what the group has once, where it is asked to) and apply to each chunk, those that were read
// last first.
template <class Pass>
void for_each_group(const Problem& p, const Pass& pass, std::byte* memory) {
  const Workspace workspace(p, Pass::tensors);
  const std::int64_t groups = p.groups(), chunks = p.chunks();
  const auto sum = [&](int part, std::int64_t i, std::int64_t slot, const Range& mine) {
    const Group g = p.group(i);
    const Factors f = workspace.factors_of(memory, part);
    pass.begin(g, f);
    for (std::int64_t k = mine.begin; k < mine.end; ++k) pass.sum(g, p.chunk(k), f, workspace.sums_of(memory, slot, k));
  };
  constexpr std::int64_t little = 4096;
  const bool shares_totals = chunks * p.width() > little && !p.alone(Pass::tensors);
  const auto total = [&](std::int64_t slot, const Range& channels, const Sums& whole) {
    pass.total([&](std::int64_t k) { return workspace.sums_of(memory, slot, k); }, channels, whole);
  };
  const auto apply = [&](int part, std::int64_t i, std::int64_t slot, const Range& mine) {
    const Group g = p.group(i);
    const Factors f = workspace.factors_of(memory, part);
    if (!shares_totals) total(slot, {0, g.channels}, f.whole);
    pass.finish(g, f, shares_totals ? workspace.whole(memory, slot) : f.whole, mine.begin == 0);
    for (std::int64_t end = mine.end, begin; end > mine.begin; end = begin) {  // chunks of a sample as one
      begin = std::max(mine.begin, p.blocks ? (end - 1) / p.chunks_of_sample() * p.chunks_of_sample() : end - 1);
      pass.apply(g, {p.chunk(begin).begin, p.chunk(end - 1).end}, f);
    }
  };
  if (p.alone(Pass::tensors))
    return share(p.threads, groups, [&](int part, std::int64_t i) {
      sum(part, i, part, {0, chunks});
      apply(part, i, part, {0, chunks});
    });
  const std::int64_t most = p.at_a_time(Pass::tensors), rounds = (groups + most - 1) / most;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Range some = part_of(groups, round, rounds);
    const std::int64_t vectors = p.width() / lanes;
    // work(part, group, its slot, chunks)
    const auto by_chunks = [&](const auto& work) {
      parallel(p.threads, [&](int part) {
        const Range mine = part_of((some.end - some.begin) * chunks, part, p.threads);
        for (std::int64_t k = mine.begin; k < mine.end;) {
          const std::int64_t slot = k / chunks, first = k % chunks, last = std::min(chunks, first + mine.end - k);
          work(part, some.begin + slot, slot, Range{first, last});
          k += last - first;
        }
      });
    };
    by_chunks(sum);
    if (shares_totals)
      parallel(p.threads, [&](int part) {
        const Range mine = part_of((some.end - some.begin) * vectors, part, p.threads);
        for (std::int64_t v = mine.begin; v < mine.end; ++v) {
          const std::int64_t slot = v / vectors, first = v % vectors * lanes;
          total(slot, {first, std::min(first + lanes, p.group(some.begin + slot).channels)}, workspace.whole(memory, slot));
        }
      });
    by_chunks(apply);
  }
}

std::optional<KernelDescription> described(const KernelRequest& request, std::string kernel, std::initializer_list<std::size_t> images_in,
                                           std::initializer_list<std::size_t> images_out, const Layout& layout) {
  const Operand& x = request.inputs[0];
  if (machine_isa() != Isa::avx512 || x.shape.rank() < 2 || product(spatial(x.shape)) == 0 ||
      (x.dtype != DType::float32 && x.dtype != DType::bfloat16))
    return std::nullopt;
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

const vector::BatchNormalizations& loops_of(DType dtype) {
  return vector_table().batch_normalizations[dtype == DType::float32 ? 0 : rounds_to_bfloat16() ? 2 : 1];
}

std::byte* element(std::byte* data, const Problem& p, std::int64_t offset) {
  return data ? data + offset * static_cast<std::int64_t>(p.size) : nullptr;
}
std::byte* given(const std::vector<std::byte*>& operands, std::size_t i) { return i < operands.size() ? operands[i] : nullptr; }

struct Forward {
  static constexpr int tensors = 1;  // that are read twice
  const Problem& p;
  const vector::BatchNormalizations& loops;
  const Memory& m;

  void begin(const Group&, const Factors&) const {}
  void sum(const Group& g, const Range& rows, const Factors& f, const Sums& sums) const {
    loops.moments(element(m.inputs[0], p, p.offset(g, rows.begin)), p.at(g, rows), f.partial, sums.a, sums.b);
  }
  // Means, and sums of the squares of distances from them.
  template <class SumsOf>
  void total(const SumsOf& sums_of, const Range& channels, const Sums& whole) const {
    double *const average = whole.a, *const squares = whole.b;
    for (std::int64_t c = channels.begin; c < channels.end; ++c) average[c] = squares[c] = 0;
    double before = 0;
    for (std::int64_t k = 0; k < p.chunks(); ++k) {
      const Range rows = p.chunk(k);
      if (rows.begin == rows.end) continue;
      const double here = static_cast<double>(rows.end - rows.begin), share = here / (before + here), both = share * before;
      const Sums sums = sums_of(k);
      for (std::int64_t c = channels.begin; c < channels.end; ++c) {
        const double apart = sums.a[c] - average[c];
        average[c] += apart * share;
        squares[c] += sums.b[c] + apart * apart * both;
      }
      before += here;
    }
  }
  void finish(const Group& g, const Factors& f, const Sums& whole, bool stores) const {
    float *const mean = f.shift, *const variance = f.tilt;
    for (std::int64_t c = 0; c < g.channels; ++c) {
      mean[c] = static_cast<float>(whole.a[c]);
      variance[c] = static_cast<float>(whole.b[c] / p.count());
    }
    f.set(p, g, m.in<float>(1) + g.first, m.in<float>(2) + g.first, mean, variance);
    if (!stores) return;
    std::copy_n(mean, g.channels, m.out<float>(1) + g.first);
    std::copy_n(variance, g.channels, m.out<float>(2) + g.first);
  }
  void apply(const Group& g, const Range& rows, const Factors& f) const {
    const std::int64_t at = p.offset(g, rows.begin);
    loops.apply({element(m.inputs[0], p, at), element(given(m.inputs, 3), p, at), element(m.outputs[0], p, at), p.at(g, rows), f.mean,
                 f.factor, f.bias, p.low, p.high, p.streams()});
  }
};

// x, dy, scale, bias, mean, variance, opaque, y?, dy2? → dx, dscale, dbias, daddend?
struct Backward {
  static constexpr int tensors = 2;
  const Problem& p;
  const vector::BatchNormalizations& loops;
  const Memory& m;

  vector::NormalizedBatchBackward gradient(const Group& g, const Range& rows, const Factors& f) const {
    const std::int64_t at = p.offset(g, rows.begin);
    return {element(m.inputs[0], p, at),
            element(m.inputs[1], p, at),
            element(given(m.inputs, 8), p, at),
            element(given(m.inputs, 7), p, at),
            element(m.outputs[0], p, at),
            element(given(m.outputs, 3), p, at),
            p.at(g, rows),
            f.mean,
            f.factor,
            f.bias,
            f.shift,
            f.tilt,
            p.low,
            p.high,
            p.streams()};
  }
  void begin(const Group& g, const Factors& f) const {
    f.set(p, g, m.in<float>(2) + g.first, m.in<float>(3) + g.first, m.in<float>(4) + g.first, m.in<float>(5) + g.first);
  }
  void sum(const Group& g, const Range& rows, const Factors& f, const Sums& sums) const {
    loops.sums(gradient(g, rows, f), f.partial, sums.a, sums.b);
  }
  template <class SumsOf>
  void total(const SumsOf& sums_of, const Range& channels, const Sums& whole) const {
    for (std::int64_t c = channels.begin; c < channels.end; ++c) whole.a[c] = whole.b[c] = 0;
    for (std::int64_t k = 0; k < p.chunks(); ++k) {
      const Sums sums = sums_of(k);
      for (std::int64_t c = channels.begin; c < channels.end; ++c) {
        whole.a[c] += sums.a[c];
        whole.b[c] += sums.b[c];
      }
    }
  }
  void finish(const Group& g, const Factors& f, const Sums& whole, bool stores) const {
    const double *const plain = whole.a, *const along = whole.b;
    for (std::int64_t c = 0; c < g.channels; ++c) {
      f.shift[c] = static_cast<float>(plain[c] / p.count());
      f.tilt[c] = static_cast<float>(along[c] * f.inverse[c] * f.inverse[c] / p.count());
      if (!stores) continue;
      m.out<float>(1)[g.first + c] = static_cast<float>(along[c] * f.inverse[c]);
      m.out<float>(2)[g.first + c] = static_cast<float>(plain[c]);
    }
  }
  void apply(const Group& g, const Range& rows, const Factors& f) const { loops.apply_backward(gradient(g, rows, f)); }
};

}  // namespace

Descriptions describe_channel_normalization(const KernelRequest& request) {
  const Layout layout = layout_of(request);
  std::optional<KernelDescription> d = described(request, "native.batch_normalization_training.channels", {0, 3}, {0}, layout);
  if (!d || operand_at(request.inputs, 4).present() || !request.outputs[2].present()) return {};
  d->outputs[3] = {DType::uint8, Shape{0}, Layout::opaque("native.channels")};
  const Problem p(request, layout);
  d->workspace = Workspace(p, Forward::tensors).bytes();
  d->make = make_kernel([p, &loops = loops_of(request.inputs[0].dtype)](const Memory& m) {
    for_each_group(p, Forward{p, loops, m}, m.workspace);
  });
  return {*d};
}

Descriptions describe_channel_normalization_backward(const KernelRequest& request) {
  if (request.inputs[6].layout != Layout::opaque("native.channels") || !request.inputs[5].present()) return {};
  const Layout layout = layout_of(request);
  std::optional<KernelDescription> d = described(request, "native.batch_normalization_backward.channels", {0, 1, 7, 8}, {0, 3}, layout);
  if (!d) return {};
  const Problem p(request, layout);
  d->workspace = Workspace(p, Backward::tensors).bytes();
  d->in_place = {{0, 1}};
  d->make = make_kernel([p, &loops = loops_of(request.inputs[0].dtype)](const Memory& m) {
    for_each_group(p, Backward{p, loops, m}, m.workspace);
  });
  return {*d};
}

}  // namespace tandem::native
