// RecurrentTraining and RecurrentBackward (docs/internal-operators.md) in float32: one launch a step, two of a GRU without
// linear_before_reset; what R gets of all steps is one product behind them.
#include "kernels/cuda/bodies/recurrent.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/copy.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

enum class Cell { lstm, gru, gru_linear, rnn };

struct Sizes {
  Cell cell;
  bool relu, reversed;
  std::int64_t T, B, H, D, gates, slots;  // slots: numbers a unit that a step saves
  std::int64_t multiprocessors;

  std::int64_t state() const { return D * B * H; }
  std::int64_t columns() const { return D * gates * H; }  // of the products of all directions
  std::int64_t time(std::int64_t direction, std::int64_t n) const { return reversed || direction == 1 ? T - 1 - n : n; }  // of step n
};

// `steps`: [T,B,...] or [D,T,B,...], its first of these axes at `first`.
Sizes sizes_of(const KernelRequest& r, const Shape& steps, int first, const Shape& matrix) {
  const Attributes& a = *r.attributes;
  const std::string& name = a.text("cell");
  const Cell cell = name == "LSTM"                             ? Cell::lstm
                    : name == "RNN"                            ? Cell::rnn
                    : a.integer("linear_before_reset", 0) != 0 ? Cell::gru_linear
                                                               : Cell::gru;
  return {cell,
          a.integer("relu", 0) != 0,
          a.text("direction") == "reverse",
          steps[first],
          steps[first + 1],
          matrix[2],
          matrix[0],
          matrix[1] / matrix[2],
          cell == Cell::lstm  ? 6
          : cell == Cell::rnn ? 2
                              : 5,
          multiprocessors_of(r.options)};
}

bool takes(const KernelDescription& d) {
  const auto usable = [](const Operand& o) {
    return !o.present() || (o.shape.elements() > 0 && (o.dtype == DType::float32 || o.dtype == DType::int32));
  };
  return fit_index(d) && std::ranges::all_of(d.inputs, usable) && std::ranges::all_of(d.outputs, usable);
}

// A step is as long as its launches at least: a plan's estimate counts one launch a node.
double efficiency_of(const Sizes& s, double products, double launches, const Libraries* libraries) {
  constexpr double of_products = 0.4;
  if (!libraries) return of_products;
  const DeviceModel& device = libraries->device().model;
  const double flops = 2 * products * static_cast<double>(s.T * s.B * s.columns() * s.H);
  return 1 / (1 / of_products + launches * device.launch_seconds * device.flops / flops);
}

bool is_wide(std::initializer_list<std::int64_t> elements) {
  return std::ranges::all_of(elements, [](std::int64_t n) { return n % 4 == 0; });
}

// Calls f with the largest tile that has blocks for most of the device.
template <int gates, class F>
void visit_tile(const Sizes& s, F&& f) {
  const auto fills = [&]<class Tile>(const Tile&) {
    return 4 * s.D * ceil_div(s.B, Tile::rows) * ceil_div(s.H, Tile::units) >= 3 * s.multiprocessors;
  };
  if (fills(LargeStep<gates>{})) return f(LargeStep<gates>{});
  fills(MediumStep<gates>{}) ? f(MediumStep<gates>{}) : f(SmallStep<gates>{});
}

// Where a step is: what its kernels share but the product's operands.
template <class Tile>
StepPlace place_of(const Sizes& s, const StepProduct& product, std::int64_t n, const std::int32_t* lengths) {
  StepPlace p{.product = product,
              .B = static_cast<std::int32_t>(s.B),
              .H = static_cast<std::int32_t>(s.H),
              .row_tiles = static_cast<std::int32_t>(ceil_div(s.B, Tile::rows)),
              .unit_tiles = static_cast<std::int32_t>(ceil_div(s.H, Tile::units)),
              .time = {},
              .lengths = lengths,
              .saved_row = s.slots * s.H};
  for (const int d : {0, 1}) p.time[d] = static_cast<std::int32_t>(s.time(d, n));
  return p;
}
template <class Body>
void launch_step(const Sizes& s, const Body& body, void* stream) {
  launch(body, s.D * body.place.row_tiles * body.place.unit_tiles, stream);
}

// Forward, bound to memory. The state of a step lies in Y_h and in `other` by turns, so that it ends in Y_h.
struct Forward {
  Sizes s;
  const float *products, *r, *first_h, *first_c, *bias;
  const std::int32_t* lengths;
  float *y, *h, *other, *c, *saved;
  std::int64_t saved_time, saved_direction;  // steps of it; 0 where all steps have the same rows

  template <StepForward form, class Tile>
  RecurrentBody<form, Tile> step(std::int64_t n, std::int64_t row, std::int64_t first_gate) const {
    const StepProduct product{
        .a = {}, .w = {}, .a_row = row, .w_row = s.H, .inner = before(n) ? static_cast<std::int32_t>(s.H) : 0, .wide = is_wide({s.H})};
    RecurrentBody<form, Tile> body{.place = place_of<Tile>(s, product, n, lengths),
                                   .products = {},
                                   .h = {},
                                   .c = {},
                                   .bias = {},
                                   .h_next = {},
                                   .c_next = {},
                                   .y = {},
                                   .saved = {},
                                   .products_row = s.columns(),
                                   .relu = s.relu};
    for (std::int64_t d = 0; d < s.D; ++d) {
      const std::int64_t state = d * s.B * s.H, t = s.time(d, n);
      const auto at = [](auto* base, std::int64_t offset) { return base ? base + offset : nullptr; };
      body.place.product.w[d] = r + (d * s.gates + first_gate) * s.H * s.H;
      body.products[d] = products + t * s.B * s.columns() + d * s.gates * s.H;
      body.h[d] = at(before(n), state);
      body.c[d] = at(n == 0 ? first_c : c, state);
      body.bias[d] = at(bias, d * s.H);
      body.h_next[d] = behind(n) + state;
      body.c_next[d] = at(c, state);
      body.y[d] = y + (t * s.D + d) * s.B * s.H;
      body.saved[d] = at(saved, d * saved_direction + t * saved_time);
    }
    return body;
  }
  // The product by the state before the step.
  template <StepForward form, class Tile>
  void by_state(std::int64_t n, void* stream) const {
    RecurrentBody<form, Tile> body = step<form, Tile>(n, s.H, 0);
    for (std::int64_t d = 0; d < s.D; ++d) body.place.product.a[d] = body.h[d];
    launch_step(s, body, stream);
  }
  // A GRU's h' by r∘h, which its first kernel has left among what is saved.
  template <class Tile>
  void by_reset(std::int64_t n, void* stream) const {
    RecurrentBody<StepForward::gru, Tile> body = step<StepForward::gru, Tile>(n, s.slots * s.H, 2);
    for (std::int64_t d = 0; d < s.D; ++d) body.place.product.a[d] = body.saved[d] + 3 * s.H;
    launch_step(s, body, stream);
  }

 private:
  const float* before(std::int64_t n) const { return n == 0 ? first_h : behind(n - 1); }
  float* behind(std::int64_t n) const { return (s.T - 1 - n) % 2 == 0 ? h : other; }
};

using Step = void (*)(const Forward& f, std::int64_t n, void* stream);
template <StepForward form, int gates>
Step forward_step(const Sizes& s) {
  Step step = nullptr;
  visit_tile<gates>(s, [&]<class Tile>(const Tile&) {
    step = [](const Forward& f, std::int64_t n, void* stream) { f.by_state<form, Tile>(n, stream); };
  });
  return step;
}
Step reset_step(const Sizes& s) {
  Step step = nullptr;
  visit_tile<1>(
      s, [&]<class Tile>(const Tile&) { step = [](const Forward& f, std::int64_t n, void* stream) { f.by_reset<Tile>(n, stream); }; });
  return step;
}
std::vector<Step> forward_steps(const Sizes& s) {
  switch (s.cell) {
    case Cell::lstm: return {forward_step<StepForward::lstm, 4>(s)};
    case Cell::gru: return {forward_step<StepForward::gru_gates, 2>(s), reset_step(s)};
    case Cell::gru_linear: return {forward_step<StepForward::gru_linear, 3>(s)};
    default: return {forward_step<StepForward::rnn, 1>(s)};
  }
}

// Back, bound to memory. dh and dc are the outputs for the states' gradients; `inner` has what R gets of a GRU with linear_before_reset
// in the order of its gates, of all steps, as [D,T,B,3·H].
struct Backward {
  Sizes s;
  const float *transposed, *saved, *dy, *last_dh, *last_dc;  // transposed: R, as [D,H,G·H]
  const std::int32_t* lengths;
  float *gates, *inner, *dh, *dc;

  bool linear() const { return s.cell == Cell::gru_linear; }
  // What R was multiplied by of step n, and how far its rows are apart.
  const float* of_matrix(std::int64_t d, std::int64_t n) const {
    const std::int64_t t = s.time(d, n);
    return linear() ? inner + (d * s.T + t) * s.B * 3 * s.H : gates + t * s.B * s.columns() + d * s.gates * s.H;
  }
  std::int64_t of_matrix_row() const { return linear() ? 3 * s.H : s.columns(); }

  template <StepBack form, class Tile>
  RecurrentGradientBody<form, Tile> step(std::int64_t n, std::int64_t from, std::int64_t first_gate, std::int64_t gates_of_product) const {
    const std::int64_t rows = s.gates * s.H, first = first_gate * s.H, terms = gates_of_product * s.H;
    const StepProduct product{.a = {},
                              .w = {},
                              .a_row = of_matrix_row(),
                              .w_row = rows,
                              .inner = from < s.T ? static_cast<std::int32_t>(terms) : 0,
                              .wide = is_wide({terms, first, rows, of_matrix_row()})};
    RecurrentGradientBody<form, Tile> body{.place = place_of<Tile>(s, product, n, lengths),
                                           .saved = {},
                                           .dy = {},
                                           .dh = {},
                                           .dc = {},
                                           .dh_next = {},
                                           .dc_next = {},
                                           .gates = {},
                                           .inner = {},
                                           .gates_row = s.columns(),
                                           .relu = s.relu};
    for (std::int64_t d = 0; d < s.D; ++d) {
      const std::int64_t state = d * s.B * s.H, t = s.time(d, n);
      const auto at = [](auto* base, std::int64_t offset) { return base ? base + offset : nullptr; };
      if (from < s.T) body.place.product.a[d] = of_matrix(d, from) + first;
      body.place.product.w[d] = transposed + d * s.H * rows + first;
      body.saved[d] = saved + (d * s.T + t) * s.B * s.slots * s.H;
      body.dy[d] = at(dy, (t * s.D + d) * s.B * s.H);
      body.dh[d] = at(from < s.T ? dh : last_dh, state);
      body.dc[d] = at(from < s.T ? dc : last_dc, state);
      body.dh_next[d] = dh + state;
      body.dc_next[d] = at(dc, state);
      body.gates[d] = gates + t * s.B * s.columns() + d * s.gates * s.H;
      body.inner[d] = at(inner, (d * s.T + t) * s.B * 3 * s.H);
    }
    return body;
  }
  // A step by what the step after it left; without r of a GRU.
  template <StepBack form, class Tile>
  void by_next(std::int64_t n, void* stream) const {
    launch_step(s, step<form, Tile>(n, n + 1, 0, s.cell == Cell::gru ? 2 : s.gates), stream);
  }
  template <class Tile>
  void by_reset(std::int64_t n, void* stream) const {
    launch_step(s, step<StepBack::gru_reset, Tile>(n, n, 2, 1), stream);
  }
  // Behind step 0: n + 1 is there.
  template <class Tile>
  void state(std::int64_t, void* stream) const {
    launch_step(s, step<StepBack::state, Tile>(0, 0, 0, s.cell == Cell::gru ? 2 : s.gates), stream);
  }
};

using StepBackwards = void (*)(const Backward& b, std::int64_t n, void* stream);
struct BackwardSteps {
  StepBackwards next, reset, state;  // reset: null but of a GRU without linear_before_reset
};
BackwardSteps backward_steps(const Sizes& s) {
  BackwardSteps steps{};
  visit_tile<1>(s, [&]<class Tile>(const Tile&) {
    const auto with = [&]<StepBack form>() {
      steps.next = [](const Backward& b, std::int64_t n, void* stream) { b.by_next<form, Tile>(n, stream); };
    };
    switch (s.cell) {
      case Cell::lstm: with.template operator()<StepBack::lstm>(); break;
      case Cell::gru: with.template operator()<StepBack::gru>(); break;
      case Cell::gru_linear: with.template operator()<StepBack::gru_linear>(); break;
      case Cell::rnn: with.template operator()<StepBack::rnn>(); break;
    }
    if (s.cell == Cell::gru) steps.reset = [](const Backward& b, std::int64_t n, void* stream) { b.by_reset<Tile>(n, stream); };
    steps.state = [](const Backward& b, std::int64_t n, void* stream) { b.state<Tile>(n, stream); };
  });
  return steps;
}

// c[m,n] = Σ a[k,m]·b[k,n] of each direction over all rows, which blocks share where there are few tiles.
struct MatrixGradient {
  MatrixGradientBody body;
  MatrixPartsBody sum;
  std::int64_t blocks, workspace;

  MatrixGradient(const Sizes& s, std::int64_t m, std::int64_t n, bool aligned) : body{}, sum{} {
    constexpr std::int64_t tile = MatrixGradientBody::tile, depth = MatrixGradientBody::depth, least_rows = 8 * depth;
    const std::int64_t rows = s.T * s.B, tiles = s.D * ceil_div(m, tile) * ceil_div(n, tile);
    const std::int64_t of_part = ceil_div(ceil_div(rows, std::clamp<std::int64_t>(ceil_div(2 * s.multiprocessors, tiles), 1,
                                                                                  ceil_div(rows, least_rows))),
                                          depth) *
                                 depth,
                       parts = ceil_div(rows, of_part);
    body.m = static_cast<std::int32_t>(m), body.n = static_cast<std::int32_t>(n), body.rows = static_cast<std::int32_t>(rows);
    body.rows_of_part = static_cast<std::int32_t>(of_part), body.parts = static_cast<std::int32_t>(parts);
    body.m_tiles = static_cast<std::int32_t>(ceil_div(m, tile)), body.n_tiles = static_cast<std::int32_t>(ceil_div(n, tile));
    body.wide = aligned;
    body.c_part = s.D * m * n;
    sum.elements = s.D * m * n, sum.of_direction = m * n, sum.count = body.parts;
    blocks = tiles * parts;
    workspace = parts == 1 ? 0 : parts * body.c_part * static_cast<std::int64_t>(sizeof(float));
  }
  struct Rows {
    const float* first;
    std::int64_t row, direction;
  };
  // b may be left out: then it is 1.
  Launches bind(const Rows& a, const Rows& b, float* c, std::int64_t c_direction, float* scratch) const {
    MatrixGradientBody product = body;
    MatrixPartsBody parts = sum;
    product.a = a.first, product.a_row = a.row, product.a_direction = a.direction;
    product.b = b.first, product.b_row = b.row, product.b_direction = b.direction;
    product.c = workspace == 0 ? c : scratch;
    product.c_direction = workspace == 0 ? c_direction : parts.of_direction;
    parts.parts = scratch, parts.c = c, parts.c_direction = c_direction;
    if (workspace == 0) return launches_of(product, blocks);
    return in_turn({launches_of(product, blocks), launches_over(parts, parts.elements)});
  }
};

}  // namespace

Descriptions describe_recurrent(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = row_major_description(request, "native.recurrent");
  if (!takes(d)) return {};
  const Sizes s = sizes_of(request, d.inputs[0].shape, 0, d.inputs[1].shape);
  const std::size_t saved_at = s.cell == Cell::lstm ? 3 : 2;
  const bool training = has(d.outputs, saved_at), keeps = training || s.cell == Cell::gru;
  const std::int64_t state_bytes = align_up(s.state() * static_cast<std::int64_t>(sizeof(float)));
  d.workspace = state_bytes + (keeps && !training ? s.slots * state_bytes : 0);
  const std::vector<Step> steps = forward_steps(s);
  d.efficiency = efficiency_of(s, 1, static_cast<double>(s.T * std::ssize(steps)), libraries);
  d.make = launches([=](const Buffers& b) -> Launches {
    float* const scratch = reinterpret_cast<float*>(b.workspace);
    Forward f{.s = s,
              .products = b.in<float>(0),
              .r = b.in<float>(1),
              .first_h = b.in<float>(2),
              .first_c = b.in<float>(3),
              .bias = b.in<float>(5),
              .lengths = b.in<std::int32_t>(4),
              .y = b.out<float>(0),
              .h = b.out<float>(1),
              .other = scratch,
              .c = s.cell == Cell::lstm ? b.out<float>(2) : nullptr,
              .saved = training ? b.out<float>(saved_at) : nullptr,
              .saved_time = 0,
              .saved_direction = 0};
    if (training) f.saved_time = s.B * s.slots * s.H, f.saved_direction = s.T * f.saved_time;
    if (keeps && !training)
      f.saved = scratch + state_bytes / static_cast<std::int64_t>(sizeof(float)), f.saved_direction = s.B * s.slots * s.H;
    return [f, steps](void* stream) {
      for (std::int64_t n = 0; n < f.s.T; ++n)
        for (const Step step : steps) step(f, n, stream);
    };
  });
  return {d};
}

Descriptions describe_recurrent_backward(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = row_major_description(request, "native.recurrent_backward");
  if (!takes(d)) return {};
  const Sizes s = sizes_of(request, d.inputs[1].shape, 1, d.inputs[0].shape);
  const std::size_t dr_at = s.cell == Cell::lstm ? 3 : 2;
  const bool of_r = has(d.outputs, dr_at), of_bias = has(d.outputs, dr_at + 1), aligned = is_wide({s.H});
  const std::int64_t rows = s.gates * s.H, item = static_cast<std::int64_t>(sizeof(float)), first_gates = s.cell == Cell::gru ? 2 : s.gates;
  const std::optional<CopyLauncher> transpose =
      plan_copy({.dims = {{s.D, {rows * s.H, rows * s.H}}, {s.H, {rows, 1}}, {rows, {1, s.H}}}, .size = sizeof(float)});
  if (!transpose) return {};
  // All that R was multiplied by lies in the same rows, but a GRU's r∘h.
  const MatrixGradient first(s, first_gates * s.H, s.H, aligned), last(s, s.H, s.H, aligned), sums(s, s.H, 1, aligned);
  const std::int64_t inner_at = align_up(s.D * rows * s.H * item),
                     parts_at = inner_at + (s.cell == Cell::gru_linear ? align_up(s.D * s.T * s.B * rows * item) : 0);
  d.workspace =
      parts_at +
      align_up(std::max({of_r ? first.workspace : 0, of_r && s.cell == Cell::gru ? last.workspace : 0, of_bias ? sums.workspace : 0}));
  const BackwardSteps steps = backward_steps(s);
  d.efficiency = efficiency_of(s, 2, static_cast<double>(s.T * (steps.reset ? 2 : 1) + 2), libraries);
  d.make = launches([=, transpose = *transpose](const Buffers& b) -> Launches {
    const Backward back{.s = s,
                        .transposed = reinterpret_cast<const float*>(b.workspace),
                        .saved = b.in<float>(1),
                        .dy = b.in<float>(3),
                        .last_dh = b.in<float>(4),
                        .last_dc = b.in<float>(5),
                        .lengths = b.in<std::int32_t>(2),
                        .gates = b.out<float>(0),
                        .inner = s.cell == Cell::gru_linear ? reinterpret_cast<float*>(b.workspace + inner_at) : nullptr,
                        .dh = b.out<float>(1),
                        .dc = s.cell == Cell::lstm ? b.out<float>(2) : nullptr};
    std::vector<Launches> all{CopyLauncher(transpose)(b.inputs[0], b.workspace)};
    all.push_back([back, steps](void* stream) {
      for (std::int64_t n = back.s.T; n-- > 0;) {
        steps.next(back, n, stream);
        if (steps.reset) steps.reset(back, n, stream);
      }
      steps.state(back, 0, stream);
    });
    float* const scratch = reinterpret_cast<float*>(b.workspace + parts_at);
    const std::int64_t of_direction = back.linear() ? s.T * s.B * rows : rows, saved_row = s.slots * s.H;
    const float* const a = back.linear() ? back.inner : back.gates;
    const auto of = [&](std::int64_t gate) { return MatrixGradient::Rows{a + gate * s.H, back.of_matrix_row(), of_direction}; };
    const auto by = [&](std::int64_t slot) { return MatrixGradient::Rows{back.saved + slot * s.H, saved_row, s.T * s.B * saved_row}; };
    float* const dr = b.out<float>(dr_at);
    if (of_r) all.push_back(first.bind(of(0), by(s.slots - 1), dr, rows * s.H, scratch));
    if (of_r && s.cell == Cell::gru) all.push_back(last.bind(of(2), by(3), dr + 2 * s.H * s.H, rows * s.H, scratch));
    if (of_bias) all.push_back(sums.bind(of(2), {}, b.out<float>(dr_at + 1), s.H, scratch));
    return in_turn(std::move(all));
  });
  return {d};
}

}  // namespace tandem::cuda
