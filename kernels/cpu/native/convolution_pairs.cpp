// A filter's gradient from bfloat16 numbers that are multiplied in pairs (vector.h), two samples at a time: whatever a filter's size,
// stride and padding, both numbers of a pair then lie at the same place of their images, and taps beside an image cost nothing.
// dw[o, i, tap] = Σ dy[n, place, o] · x[n, place met by the tap, i]: lanes are output channels. A thread has channels of its own, of
// either side, and where these are few, taps; it packs what it reads of them, and writes its part of the gradient.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/dense.h"

namespace tandem::native {
namespace {

constexpr std::int64_t lanes = 16;
// Of output channels at a time: with three a tile of eight input channels fills the registers, half a block of them; with few windows
// to sum four have fewer sums to fetch and put back.
constexpr std::int64_t group_vectors = 3, group_vectors_of_one_tap = 4;
constexpr std::int64_t packed_bytes = 512 << 10;  // of a thread: pairs of samples that its second cache holds

std::int64_t vectors_of(std::int64_t channels) { return (channels + lanes - 1) / lanes; }

// An image side: how its channels lie, in elements. A packed pair of images lies in the same order, with whole vectors.
struct Side {
  std::int64_t channels = 0, height = 1, width = 1;
  bool blocks = true;  // of sixteen channels; else channels are last

  std::int64_t places() const { return height * width; }
  std::int64_t image() const { return (blocks ? vectors_of(channels) * lanes : channels) * places(); }
  // Of part of the channels, packed:
  std::int64_t step(std::int64_t vectors) const { return (blocks ? 1 : vectors) * lanes; }   // from place to place
  std::int64_t vector() const { return (blocks ? places() : 1) * lanes; }                    // from sixteen channels to the next
  std::int64_t packed(std::int64_t vectors) const { return vectors * places() * lanes; }

  void pack(std::uint32_t* to, const std::uint16_t* x, std::int64_t sample, std::int64_t samples, Range mine) const {
    const vector::Dots& dots = *dot_products();
    const std::int64_t rows = std::min<std::int64_t>(2, samples - sample), n = mine.end - mine.begin;
    const std::uint16_t* const from = x + sample * image() + mine.begin * vector();
    if (blocks) return dots.pair_lines(to, 0, from, image(), rows, packed(n));
    const std::int64_t some = std::min(n * lanes, channels - mine.begin * lanes);
    for (std::int64_t place = 0; place < places(); ++place)
      dots.pair_lines(to + place * step(n), 0, from + place * channels, image(), rows, some);
  }
};

enum class FilterOrder { outputs_last, pairs_of_inputs };  // ABcd16b16a, ABcd8b16a2b

struct Problem {
  Side x, dy;
  Axis h, w;
  std::int64_t samples = 0;
  FilterOrder order = FilterOrder::outputs_last;
  bool bias = false;
  int columns = 1, rows = 1, tap_blocks = 1;  // parts by output channels, by input channels, by taps

  std::int64_t taps() const { return h.taps * w.taps; }
  int parts() const { return columns * rows * tap_blocks; }
  Range outputs_of(int part) const { return part_of(vectors_of(dy.channels), part % columns, columns); }
  Range inputs_of(int part) const { return part_of(vectors_of(x.channels), part / columns % rows, rows); }
  Range taps_of(int part) const { return part_of(taps(), part / columns / rows, tap_blocks); }
  // The largest part's vectors.
  std::int64_t most_outputs() const { return (vectors_of(dy.channels) + columns - 1) / columns; }
  std::int64_t most_inputs() const { return (vectors_of(x.channels) + rows - 1) / rows; }
  std::int64_t most_taps() const { return (taps() + tap_blocks - 1) / tap_blocks; }
  std::int64_t pair_words() const { return x.packed(most_inputs()) + dy.packed(most_outputs()); }
  std::int64_t pairs_at_once() const {
    return std::clamp<std::int64_t>(packed_bytes / 4 / std::max<std::int64_t>(1, pair_words()), 1,
                                    std::max<std::int64_t>(1, (samples + 1) / 2));
  }
  std::int64_t sums() const { return (most_taps() * most_inputs() * lanes + 1) * most_outputs() * lanes; }  // and one row for the bias
  std::int64_t words_of_part() const { return pairs_at_once() * pair_words() + sums(); }

  // The split in which the largest part is smallest; among equals that with fewest blocks of taps, each of which packs its channels anew,
  // and then with most output channels each.
  void split(int threads) {
    std::int64_t least = INT64_MAX;
    Problem p = *this;
    for (p.tap_blocks = 1; p.tap_blocks <= std::min<std::int64_t>(threads, taps()); ++p.tap_blocks)
      for (p.columns = 1; p.columns * p.tap_blocks <= threads; ++p.columns) {
        p.rows = threads / (p.columns * p.tap_blocks);
        const std::int64_t work = p.most_outputs() * std::min(p.most_inputs() * lanes, x.channels) * p.most_taps();
        if (work >= least) continue;
        least = work;
        columns = p.columns;
        rows = p.rows;
        tap_blocks = p.tap_blocks;
      }
  }
};

// Rows of sixteen sums, `row` apart, as they lie in a filter of 16 × 16 channels.
void write_tile(std::uint16_t* to, const float* from, std::int64_t row, FilterOrder order) {
  const vector::Dots& dots = *dot_products();
  if (order == FilterOrder::pairs_of_inputs)
    return dots.pair_narrowed(reinterpret_cast<std::uint32_t*>(to), lanes, from, row, lanes, lanes);
  for (std::int64_t i = 0; i < lanes; ++i, to += lanes, from += row) dots.narrow(to, from, lanes);
}

void write_sums(const Problem& p, Range outputs, Range inputs, Range taps, const float* sums, std::uint16_t* dw) {
  const std::int64_t row = (outputs.end - outputs.begin) * lanes, rows = (inputs.end - inputs.begin) * lanes;
  for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
    for (std::int64_t i = inputs.begin; i < inputs.end; ++i)
      for (std::int64_t tap = taps.begin; tap < taps.end; ++tap)
        write_tile(dw + ((o * vectors_of(p.x.channels) + i) * p.taps() + tap) * lanes * lanes,
                   sums + ((tap - taps.begin) * rows + (i - inputs.begin) * lanes) * row + (o - outputs.begin) * lanes, row, p.order);
}

// One function: nested loops around one product, each of which sets what is its own of the block.
void run_part(const Problem& p, int part, const Memory& m) {
  constexpr std::uint32_t ones = 0x3f803f80;
  const vector::Dots& dots = *dot_products();
  const Range outputs = p.outputs_of(part), inputs = p.inputs_of(part), taps = p.taps_of(part);
  const std::int64_t out_vectors = outputs.end - outputs.begin, in_vectors = inputs.end - inputs.begin, columns = out_vectors * lanes;
  if (out_vectors == 0 || in_vectors == 0 || taps.begin == taps.end) return;
  const std::int64_t x_pair = p.x.packed(in_vectors), dy_pair = p.dy.packed(out_vectors), at_once = p.pairs_at_once();
  auto* const xs = reinterpret_cast<std::uint32_t*>(m.workspace) + part * p.words_of_part();
  std::uint32_t* const dys = xs + at_once * x_pair;
  auto* const sums = reinterpret_cast<float*>(dys + at_once * dy_pair);
  const std::int64_t filter = (taps.end - taps.begin) * in_vectors * lanes * columns;
  float* const bias = sums + filter;
  std::fill_n(sums, filter + columns, 0.0F);
  if (!p.x.blocks) std::fill_n(xs, at_once * x_pair, 0U);  // lanes behind the last channel
  if (!p.dy.blocks) std::fill_n(dys, at_once * dy_pair, 0U);
  const bool sums_bias = p.bias && inputs.begin == 0 && taps.begin == 0;

  const std::int64_t wide = p.taps() > 1 ? group_vectors : group_vectors_of_one_tap, groups = (out_vectors + wide - 1) / wide;
  const std::int64_t run = p.x.blocks ? 1 : in_vectors;  // channels that are neighbours, in vectors
  vector::DotBlock block{.c_row = columns, .accumulate = true, .b_vector = p.dy.vector()};
  block.a_row = 1;
  for (std::int64_t first = 0; first < p.samples; first += 2 * at_once) {
    const std::int64_t some = std::min(at_once, (p.samples - first + 1) / 2);
    for (std::int64_t k = 0; k < some; ++k) {
      p.x.pack(xs + k * x_pair, m.in<std::uint16_t>(0), first + 2 * k, p.samples, inputs);
      p.dy.pack(dys + k * dy_pair, m.in<std::uint16_t>(1), first + 2 * k, p.samples, outputs);
    }
    block.b_step = p.dy.step(out_vectors);
    for (std::int64_t g = 0; g < groups; ++g) {
      const Range group = part_of(out_vectors, g, groups);
      const std::uint32_t* const b = dys + group.begin * p.dy.vector();
      block.columns = (group.end - group.begin) * lanes;
      for (std::int64_t i = 0; i < in_vectors; i += run) {
        block.rows = std::min(run * lanes, p.x.channels - (inputs.begin + i) * lanes);
        block.a_step = p.w.stride * p.x.step(in_vectors);
        block.a_line = p.h.stride * p.x.width * p.x.step(in_vectors);
        block.b_line = p.dy.width * block.b_step;
        for (std::int64_t tap = taps.begin; tap < taps.end; ++tap) {
          const std::int64_t th = tap / p.w.taps, tw = tap % p.w.taps;
          const Range down = p.h.outputs_of(th), across = p.w.outputs_of(tw);
          block.lines = down.end - down.begin;
          block.pairs = across.end - across.begin;
          if (block.lines == 0 || block.pairs == 0) continue;
          block.c = sums + ((tap - taps.begin) * in_vectors + i) * lanes * columns + group.begin * lanes;
          const std::int64_t met =
              (p.h.input(down.begin, th) * p.x.width + p.w.input(across.begin, tw)) * p.x.step(in_vectors) + i * p.x.vector();
          for (std::int64_t k = 0; k < some; ++k) {
            block.a = xs + k * x_pair + met;
            block.b = b + k * dy_pair + (down.begin * p.dy.width + across.begin) * block.b_step;
            dots.block(block);
          }
        }
      }
      if (!sums_bias) continue;
      block.rows = 1;
      block.a = &ones;
      block.a_step = block.a_line = 0;
      block.lines = 1;
      block.pairs = p.dy.places();
      block.c = bias + group.begin * lanes;
      for (std::int64_t k = 0; k < some; ++k) {
        block.b = b + k * dy_pair;
        dots.block(block);
      }
    }
  }
  write_sums(p, outputs, inputs, taps, sums, m.out<std::uint16_t>(0));
  if (sums_bias)
    dots.narrow(m.out<std::uint16_t>(1) + outputs.begin * lanes, bias, std::min(columns, p.dy.channels - outputs.begin * lanes));
}

Layout filter_layout(int rank, FilterOrder order) {
  std::string tag = "AB";
  for (int i = 2; i < rank; ++i) tag += static_cast<char>('a' + i);
  return Layout(tag + (order == FilterOrder::outputs_last ? "16b16a" : "8b16a2b"));
}

bool fits(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &dw = request.outputs[0];
  const auto narrow = [](const Operand& o) { return !o.present() || o.dtype == DType::bfloat16; };
  return dot_products() && request.inputs.size() == 2 && std::all_of(request.inputs.begin(), request.inputs.end(), narrow) &&
         (x.shape.rank() == 3 || x.shape.rank() == 4) && std::all_of(request.outputs.begin(), request.outputs.end(), narrow) &&
         request.attributes->integer("group", 1) == 1 && x.shape.elements() > 0 && request.inputs[1].shape.elements() > 0 &&
         dw.shape.elements() > 0;
}

}  // namespace

Descriptions describe_paired_convolution_backward_weights(const KernelRequest& request) {
  if (!fits(request)) return {};
  const Operand &x = request.inputs[0], &dy = request.inputs[1], &dw = request.outputs[0];
  const Operand db = operand_at(request.outputs, 1);
  const int rank = x.shape.rank();
  const Window window = window_of(*request.attributes, dw.shape);
  const Layout last = Layout::channels_last(rank), blocks = channel_blocks(rank);
  const auto lies = [&](const Operand& o) { return o.layout == last || o.layout == blocks; };
  const bool in_blocks = lies(x)    ? x.layout == blocks
                         : lies(dy) ? dy.layout == blocks
                                    : request.options.preference == LayoutPreference::blocked;

  Problem p;
  if (rank == 4) p.h = Axis(window, 0, x.shape, dy.shape);
  p.w = Axis(window, rank - 3, x.shape, dy.shape);
  p.samples = x.shape[0];
  p.x = {x.shape[1], p.h.in, p.w.in, in_blocks};
  p.dy = {dy.shape[1], p.h.out, p.w.out, in_blocks};
  p.bias = db.present();
  p.split(threads_for(x.shape[0] * p.dy.places() * dw.shape.elements(), request.options.threads));

  Descriptions all;
  for (const FilterOrder order : {FilterOrder::outputs_last, FilterOrder::pairs_of_inputs}) {
    p.order = order;
    KernelDescription d{.kernel = "native.convolution_backward_weights.dot_products", .inputs = request.inputs, .outputs = request.outputs};
    for (Operand& o : d.inputs) o = with_layout(o, in_blocks ? blocks : last);
    d.outputs[0] = with_layout(dw, filter_layout(rank, order));
    if (p.bias) d.outputs[1] = row_major(db);
    d.workspace = p.parts() * p.words_of_part() * 4;
    d.efficiency = dot_products_are_fast() ? 0.75 : 0.35;
    d.make = make_kernel([p](const Memory& m) { parallel(p.parts(), [&](int part) { run_part(p, part, m); }); });
    if (dw.layout.any() || dw.layout == d.outputs[0].layout || order == FilterOrder::outputs_last) all.push_back(std::move(d));
  }
  return all;
}

}  // namespace tandem::native
