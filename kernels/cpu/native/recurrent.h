// What the two kernels of an LSTM, GRU or RNN share: sizes, which rows and units a thread has, where a step's numbers lie.
#pragma once
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/products.h"
#include "kernels/cpu/native/right_factor.h"

namespace tandem::native::recurrence {

enum class Cell { lstm, gru, gru_linear, rnn };
struct Cut {
  std::int64_t rows, units;  // into how many blocks
};

struct Problem {
  Cell cell;
  bool relu, backwards, bidirectional;
  std::int64_t T = 0, B = 0, H = 0, D, gates, slots;  // slots: numbers a unit that a step saves
  int threads;
  bool dots = false;  // products of operands rounded to bfloat16

  // `steps`: [T,B,...] or [D,T,B,...], its first of these axes at `first`.
  Problem(const KernelRequest& r, const Shape& steps, int first, const Shape& matrix)
      : cell(cell_of(*r.attributes)),
        relu(r.attributes->integer("relu", 0) != 0),
        backwards(r.attributes->text("direction") == "reverse"),
        bidirectional(r.attributes->text("direction") == "bidirectional"),
        T(steps[first]),
        B(steps[first + 1]),
        H(matrix[2]),
        D(matrix[0]),
        gates(matrix[1] / matrix[2]),
        slots(cell == Cell::lstm  ? 6
              : cell == Cell::rnn ? 2
                                  : 5),
        threads(r.options.threads) {}

  bool lstm() const { return cell == Cell::lstm; }
  bool gru() const { return cell == Cell::gru || cell == Cell::gru_linear; }
  std::int64_t columns() const { return D * gates * H; }   // of the products of all directions
  // Step n of a direction.
  std::int64_t time(std::int64_t direction, std::int64_t n) const { return backwards || direction == 1 ? T - 1 - n : n; }

  // Whether products may be, and can be, by pairs of bfloat16 numbers.
  bool may_use_dots(const KernelRequest& r) const {
    return r.inputs[0].dtype == DType::float32 && r.attributes->integer("product_dtype", 0) == static_cast<std::int64_t>(DType::bfloat16) &&
           H % 2 == 0 && dot_products();
  }

  // Rows are shared out by direction and sample: no thread waits for another. Where that leaves half of the threads idle for which one
  // step has work, units are shared out, too, and the threads meet in every step.
  Cut cut() const {
    const std::int64_t samples = std::clamp<std::int64_t>((wanted_threads() + D - 1) / D, 1, std::max<std::int64_t>(1, B));
    const std::int64_t of_a_step = threads_for(B * D * gates * H * H, threads, step_grain);
    if (of_a_step < 2 * std::min<std::int64_t>(wanted_threads(), D * samples)) return {samples, 1};
    const std::int64_t units = std::clamp<std::int64_t>(of_a_step / D, 1, vectors());
    return {std::clamp<std::int64_t>(of_a_step / (D * units), 1, B), units};
  }
  bool by_steps() const { return cut().units > 1; }
  std::int64_t most_rows() const { return (B + cut().rows - 1) / cut().rows; }  // that belong together
  int parts() const { return static_cast<int>(std::min<std::int64_t>(wanted_threads(), D * cut().rows * cut().units)); }
  Range units_of(std::int64_t block) const {
    const Range some = part_of(vectors(), block, cut().units);
    return {some.begin * unit_vector, std::min(some.end * unit_vector, H)};
  }

  // The gates that R's products by the state are for, and, of a GRU, the last one.
  std::int64_t first_gates() const { return gru() ? 2 : gates; }
  template <class T>
  RightFactor<T> forward_factor(bool last) const { return {H, (last ? gates - first_gates() : first_gates()) * H, 1, H, dots}; }
  template <class T>
  RightFactor<T> backward_factor(bool last) const { return {(last ? gates - first_gates() : first_gates()) * H, H, H, 1, dots}; }

 private:
  static constexpr std::int64_t step_grain = 131072;  // multiply-adds that take as long as the threads' meeting
  static constexpr std::int64_t unit_vector = 16;  // blocks of units are whole vectors, so that each unit is computed alike in all of them
  std::int64_t vectors() const { return (H + unit_vector - 1) / unit_vector; }
  std::int64_t wanted_threads() const { return threads_for(T * B * D * gates * H * H, threads, 262144); }
  static Cell cell_of(const Attributes& a) {
    const std::string& name = a.text("cell");
    return name == "LSTM"                             ? Cell::lstm
           : name == "RNN"                            ? Cell::rnn
           : a.integer("linear_before_reset", 0) != 0 ? Cell::gru_linear
                                                      : Cell::gru;
  }
};

// What one thread computes of a step: rows and units of a direction.
struct Share {
  int part;
  std::int64_t d;
  Range rows, units;
};

// R of both directions, packed: both factors of each.
template <class T>
struct Factors {
  RightFactor<T> first, last;
  std::int64_t D, rows, H, first_bytes, each_bytes, scratch_bytes, bytes, first_gates;  // bytes: in all
  bool two;
  Factors(const Problem& p, bool backward)
      : first(backward ? p.backward_factor<T>(false) : p.forward_factor<T>(false)),
        last(backward ? p.backward_factor<T>(true) : p.forward_factor<T>(true)),
        D(p.D),
        rows(p.gates * p.H),
        H(p.H),
        first_bytes(to_line(first.workspace())),
        each_bytes(first_bytes + (p.gru() ? to_line(last.workspace()) : 0)),
        scratch_bytes(to_line(std::max(first.scratch(p.most_rows()), last.scratch(p.most_rows())))),
        bytes(p.D * each_bytes + p.parts() * scratch_bytes + (p.by_steps() ? to_line(1) : 0)),  // multiply() reads a line behind
        first_gates(p.first_gates()),
        two(p.gru()) {}

  // c's columns of the share's units, of each gate where the factor's columns are gates, += or = its rows of a times R's first gates, or
  // the last one.
  void multiply_first(const T* r, std::byte* workspace, const Share& s, const T* a, std::int64_t a_row, T* c, std::int64_t c_row,
                      bool add) const {
    first.multiply(first_of(r, s.d), first_at(workspace, s.d), s.rows.end - s.rows.begin, a, a_row, c, c_row, add,
                   scratch_of(workspace, s.part), columns(first, s));
  }
  void multiply_last(const T* r, std::byte* workspace, const Share& s, const T* a, std::int64_t a_row, T* c, std::int64_t c_row,
                     bool add) const {
    last.multiply(last_of(r, s.d), last_at(workspace, s.d), s.rows.end - s.rows.begin, a, a_row, c, c_row, add,
                  scratch_of(workspace, s.part), columns(last, s));
  }
  void pack(const T* r, std::byte* workspace, int parts) const {
    parallel(parts, [&](int part) {
      for (std::int64_t d = 0; d < D; ++d) {
        first.pack(first_of(r, d), first_at(workspace, d), part, parts, scratch_of(workspace, part));
        if (two) last.pack(last_of(r, d), last_at(workspace, d), part, parts, scratch_of(workspace, part));
      }
    });
  }

 private:
  const T* first_of(const T* r, std::int64_t d) const { return r + d * rows * H; }
  const T* last_of(const T* r, std::int64_t d) const { return first_of(r, d) + first_gates * H * H; }
  std::byte* first_at(std::byte* workspace, std::int64_t d) const { return workspace + d * each_bytes; }
  std::byte* last_at(std::byte* workspace, std::int64_t d) const { return first_at(workspace, d) + first_bytes; }
  std::byte* scratch_of(std::byte* workspace, int part) const { return workspace + D * each_bytes + part * scratch_bytes; }
  // All units of all gates are one run.
  Columns columns(const RightFactor<T>& factor, const Share& s) const {
    if (s.units.end - s.units.begin == H) return {0, factor.columns};
    return {s.units.begin, s.units.end, factor.columns / H, H};
  }
};

// Calls each(share) for all of them, each in one thread.
template <class Each>
void by_shares(const Problem& p, const Each& each) {
  const Cut cut = p.cut();
  parallel(p.parts(), [&](int part) {
    const Range tasks = part_of(p.D * cut.rows * cut.units, part, p.parts());
    for (std::int64_t task = tasks.begin; task < tasks.end; ++task)
      each(Share{part, task / cut.units / cut.rows, part_of(p.B, task / cut.units % cut.rows, cut.rows), p.units_of(task % cut.units)});
  });
}

// visit_type(dtype, [&]<class T>() { ... })
template <class F>
void visit_type(DType dtype, F&& f) {
  if (dtype == DType::float32) f.template operator()<float>();
  if (dtype == DType::float64) f.template operator()<double>();
}

// Both ways to compute it, where there are two.
template <class Describe>
Descriptions in_both_ways(const KernelDescription& d, const KernelRequest& request, Problem p, const Describe& describe) {
  Descriptions all{describe(d, p)};
  if (!all[0].make) return {};
  if (!p.may_use_dots(request)) return all;
  p.dots = true;
  all.push_back(describe(d, p));
  all[1].kernel += ".dot_products";
  if (dot_products_are_fast()) {
    all[1].efficiency *= 2;
    std::swap(all[0], all[1]);
  }
  return all;
}

// Whether an operand that may be left out is there.
inline bool given(const Memory& m, int input) {
  return static_cast<std::size_t>(input) < m.inputs.size() && m.inputs[static_cast<std::size_t>(input)];
}

// A sample's part of a state [D,B,H] that is kept in an output from step to step.
template <class T>
T* state_of(const Problem& p, const Memory& m, int output, std::int64_t d, std::int64_t b) {
  return m.out<T>(output) + (d * p.B + b) * p.H;
}
// What it begins with for this share: an input, or zeros where that is left out.
template <class T>
void start_state(const Problem& p, const Memory& m, int input, int output, const Share& s) {
  const std::int64_t n = s.units.end - s.units.begin;
  for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b) {
    T* const to = state_of<T>(p, m, output, s.d, b) + s.units.begin;
    if (given(m, input))
      std::copy_n(m.in<T>(input) + (s.d * p.B + b) * p.H + s.units.begin, n, to);
    else
      std::fill_n(to, n, T(0));
  }
}

}  // namespace tandem::native::recurrence
