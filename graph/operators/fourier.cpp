// DFT and STFT: products with tables of cosines and sines, made with the plan. Long transforms are made of two short ones.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::int64_t longest_table = 1024;  // of longer transforms two of about the root's length are faster

// e^(±2πi·n/length), its cosine and sine, exact to the last bits for any n
struct Turn {
  double cosine, sine;
};
Turn turn(std::int64_t n, std::int64_t length, bool inverse) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(n % length) / static_cast<double>(length);
  return {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
}

// The parts of a number: [.., c] of 1 (real) or 2 (real, imaginary).
// [entries·in, frequencies·out]: what entry n gives to frequency k, Σ over n of (x + iy)·(cosine + i·sine)·factor
Tensor transform_table(std::int64_t entries, std::int64_t in, std::int64_t frequencies, std::int64_t out, std::int64_t length,
                       bool inverse) {
  Tensor table = bounded_tensor({DType::float64, Shape{entries * in, frequencies * out}});
  const auto t = table.write<double>();
  const double factor = inverse ? 1 / static_cast<double>(length) : 1;
  for (std::int64_t n = 0; n < entries; ++n)
    for (std::int64_t k = 0; k < frequencies; ++k) {
      const Turn w = turn(n * k, length, inverse);
      const double parts[2][2] = {{w.cosine, w.sine}, {-w.sine, w.cosine}};  // of 1 and of i
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t o = 0; o < out; ++o)
          t[static_cast<std::size_t>(((n * in + i) * frequencies + k) * out + o)] = parts[i][o] * factor;
    }
  return table;
}

// How often each frequency of the first half of a real signal's spectrum stands in the whole one.
double times(std::int64_t k, std::int64_t length) { return k == 0 || 2 * k == length ? 1 : 2; }

Tensor half_factors(std::int64_t entries, std::int64_t length) {
  Tensor factors = bounded_tensor({DType::float64, Shape{entries, 1}});
  const auto f = factors.write<double>();
  for (std::size_t k = 0; k < f.size(); ++k) f[k] = times(static_cast<std::int64_t>(k), length);
  return factors;
}

// A real signal from the first half of its spectrum: what is not given is the conjugate of what is.
Tensor half_inverse_table(std::int64_t entries, std::int64_t in, std::int64_t length) {
  Tensor table = bounded_tensor({DType::float64, Shape{entries * in, length}});
  const auto t = table.write<double>();
  for (std::int64_t k = 0; k < entries; ++k)
    for (std::int64_t n = 0; n < length; ++n) {
      const Turn w = turn(k * n, length, true);
      const double factor = times(k, length) / static_cast<double>(length);
      t[static_cast<std::size_t>(k * in * length + n)] = w.cosine * factor;
      if (in == 2) t[static_cast<std::size_t>((k * in + 1) * length + n)] = times(k, length) == 1 ? 0 : -w.sine * factor;
    }
  return table;
}

ValueId known(GraphBuilder& b, const Tensor& table, DType dtype) {
  return b.graph().add_constant("table", size_of(dtype) < 4 ? table.cast(DType::float32).cast(dtype) : table.cast(dtype));
}

std::int64_t factor_near_root(std::int64_t n) {
  for (auto f = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n))); f > 1; --f)
    if (n % f == 0) return f;
  return 1;
}

// Of the tables that a transform takes, the longest.
std::int64_t table_length(std::int64_t length) {
  const std::int64_t a = length > longest_table ? factor_near_root(length) : 1;
  return a == 1 ? length : std::max(table_length(a), table_length(length / a));
}

// All frequencies of rows [R, length, in] as [R, length, 2].
// With n = a·n₁ + n₂ and k = k₁ + b·k₂, length = a·b: Σ over n₁ of b entries, a turn by n₂·k₁, Σ over n₂ of a.
ValueId transform(GraphBuilder& b, ValueId x, std::int64_t length, bool inverse) {
  const Shape shape = b.shape(x);
  const std::int64_t rows = shape[0], in = shape[2], a = length > longest_table ? factor_near_root(length) : 1;
  const DType dtype = b.type(x).dtype;
  if (a == 1) {
    const ValueId table = known(b, transform_table(length, in, length, 2, length, inverse), dtype);
    return b.reshape(b.emit("MatMul", {b.reshape(x, Shape{rows, length * in}), table}), Shape{rows, length, 2});
  }
  const std::int64_t other = length / a;
  const ValueId first = transform(
      b, b.reshape(b.transpose(b.reshape(x, Shape{rows, other, a, in}), {0, 2, 1, 3}), Shape{rows * a, other, in}), other, inverse);
  Tensor turns = bounded_tensor({DType::float64, Shape{a, other, 2, 2}});  // [n₂, k₁] turns: (x, y)·[[cos, sin], [−sin, cos]]
  const auto t = turns.write<double>();
  for (std::int64_t i = 0; i < a * other; ++i) {
    const Turn w = turn((i / other) * (i % other), length, inverse);
    const double parts[] = {w.cosine, w.sine, -w.sine, w.cosine};
    std::copy_n(parts, 4, t.begin() + i * 4);
  }
  const ValueId turned = b.reduce_sum(b.mul(b.reshape(first, Shape{rows, a, other, 2, 1}), known(b, turns, dtype)), {3}, false);
  const ValueId second = transform(b, b.reshape(b.transpose(turned, {0, 2, 1, 3}), Shape{rows * other, a, 2}), a, inverse);
  return b.reshape(b.transpose(b.reshape(second, Shape{rows, other, a, 2}), {0, 2, 1, 3}), Shape{rows, length, 2});
}

// ---- DFT ----

std::int64_t length_of(const InferContext& c, const char* name, std::int64_t absent) {
  const std::int64_t n = static_integer(c.attributes(), name, absent);
  if (n < 1 || n >= std::int64_t{1} << 24) c.fail(name, " is ", n, ", expected at least 1");
  return n;
}

// Beyond this a table takes half a gigabyte.
void expect_moderate(const InferContext& c, const char* name, std::int64_t table) {
  constexpr std::int64_t limit = 8192;
  if (table > limit)
    c.fail(name, " has a part of ", table, " that does not factor; expected at most ", limit,
           ": pad the signal to a length with small factors");
}

void infer_dft(InferContext& c) {
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  if (!is_float(c.input(0).dtype)) c.fail("input 0 is ", c.input(0), ", expected floats");
  if (x.rank() < 2 || (x[x.rank() - 1] != 1 && x[x.rank() - 1] != 2))
    c.fail("x is ", x, ", expected [...,1] or [...,2] with at least one axis before");
  const int axis = axis_of(c, static_integer(a, "axis", -2), x.rank());
  if (axis == x.rank() - 1) c.fail("axis is ", axis, ", which holds the real and imaginary parts");
  const bool inverse = a.integer("inverse", 0) != 0, onesided = a.integer("onesided", 0) != 0;
  const std::int64_t length = length_of(c, "dft_length", inverse && onesided ? 2 * (x[axis] - 1) : x[axis]);
  expect_moderate(c, "dft_length", table_length(length));
  if (onesided && !inverse && x[x.rank() - 1] == 2) c.fail("onesided is for real signals, x is ", x);
  a.set("axis", std::int64_t{axis});
  a.set("inverse", std::int64_t{inverse});
  a.set("onesided", std::int64_t{onesided});
  a.set("dft_length", length);
  Shape y = x;
  y[axis] = onesided && !inverse ? length / 2 + 1 : length;
  y[y.rank() - 1] = onesided && inverse ? 1 : 2;
  c.set_output(0, c.input(0).dtype, std::move(y));
}

std::vector<ValueId> expand_dft(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const int axis = static_cast<int>(a.integer("axis"));
  const std::int64_t length = a.integer("dft_length");
  const bool inverse = a.integer("inverse") != 0, onesided = a.integer("onesided") != 0, real = onesided && inverse;
  ValueId x = e.x();
  const std::int64_t taken = std::min(e.shape(x)[axis], real ? length / 2 + 1 : length);
  x = slice_axis(e, x, axis, 0, taken);
  // The axis last but for the parts.
  const int rank = e.shape(x).rank();
  Ints perm, back(at(rank));
  for (int i = 0; i < rank - 1; ++i)
    if (i != axis) perm.push_back(i);
  perm.insert(perm.end(), {axis, rank - 1});
  for (int i = 0; i < rank; ++i) back[static_cast<std::size_t>(perm[at(i)])] = i;
  x = e.transpose(x, perm);
  const Shape turned = e.shape(x);
  const std::int64_t rows = product(turned, 0, rank - 2), in = turned[rank - 1];
  const std::int64_t frequencies = real ? length : onesided ? length / 2 + 1 : length, parts = real ? 1 : 2;
  const DType dtype = e.type(x).dtype;
  ValueId y;
  if (length > longest_table && factor_near_root(length) > 1) {
    if (real) x = e.mul(x, known(e, half_factors(taken, length), dtype));  // whose inverse's real part is the signal
    const ValueId whole = taken == length ? x : e.emit("Pad", {x}, {{"pads", Ints{0, length - taken}}, {"axes", Ints{rank - 2}}});
    y = slice_axis(e, transform(e, e.reshape(whole, Shape{rows, length, in}), length, inverse), 1, 0, frequencies);
    if (real) y = slice_axis(e, y, 2, 0, 1);
  } else {
    const Tensor table = real ? half_inverse_table(taken, in, length) : transform_table(taken, in, frequencies, parts, length, inverse);
    y = e.emit("MatMul", {e.reshape(x, Shape{rows, taken * in}), known(e, table, dtype)});
  }
  Shape spread = turned;
  spread[rank - 2] = frequencies;
  spread[rank - 1] = parts;
  return {e.transpose(e.reshape(y, spread), back)};
}

// ---- STFT ----

void infer_stft(InferContext& c) {
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  if (!is_float(c.input(0).dtype)) c.fail("input 0 is ", c.input(0), ", expected floats");
  if (x.rank() != 3 && x.rank() != 2) c.fail("the signal is ", x, ", expected [batch,length,1] or [batch,length,2]");
  const std::int64_t in = x.rank() == 3 ? x[2] : 1;
  if (in != 1 && in != 2) c.fail("the signal is ", x, ", expected [batch,length,1] or [batch,length,2]");
  if (!a.has("frame_step")) c.fail("frame_step must be known when the plan is made");
  const std::int64_t step = length_of(c, "frame_step", 1);
  if (c.has_input(2)) {
    expect_dtype(c, 2, c.input(0).dtype);
    expect_rank(c, 2, 1);
  }
  const std::int64_t length = length_of(c, "frame_length", c.has_input(2) ? c.shape(2)[0] : x[1]);
  if (c.has_input(2) && c.shape(2)[0] != length) c.fail("the window is ", c.shape(2), ", but frame_length is ", length);
  if (length > x[1]) c.fail("frame_length is ", length, ", longer than the signal ", x);
  expect_moderate(c, "frame_length", length);
  const bool onesided = a.integer("onesided", 1) != 0;
  if (onesided && in == 2) c.fail("onesided is for real signals, the signal is ", x);
  a.set("frame_step", step);
  a.set("frame_length", length);
  a.set("onesided", std::int64_t{onesided});
  c.set_output(0, c.input(0).dtype, Shape{x[0], (x[1] - length) / step + 1, onesided ? length / 2 + 1 : length, 2});
}

// A convolution along the signal whose filters are the table's columns, under the window.
std::vector<ValueId> expand_stft(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const TensorType x = e.type(e.x(0));
  const std::int64_t length = a.integer("frame_length"), in = x.shape.rank() == 3 ? x.shape[2] : 1, step = a.integer("frame_step");
  const std::int64_t frequencies = a.integer("onesided") != 0 ? length / 2 + 1 : length;
  const ValueId table = e.transpose(
      e.reshape(known(e, transform_table(length, in, frequencies, 2, length, false), x.dtype), Shape{length, in, frequencies * 2}),
      {2, 1, 0});
  const ValueId filter = e.has_x(2) ? e.mul(table, e.x(2)) : table;
  const ValueId signal = in == 1 ? e.reshape(e.x(0), Shape{x.shape[0], 1, x.shape[1]}) : e.transpose(e.x(0), {0, 2, 1});
  const ValueId y = e.emit("Conv", {signal, filter}, {{"strides", Ints{step}}});
  return {e.transpose(e.reshape(y, Shape{x.shape[0], frequencies, 2, e.shape(y)[2]}), {0, 3, 1, 2})};
}

}  // namespace

// y[.., k, ..] = Σ_n x[.., n, ..] · e^(−2πi·nk/length); the inverse with +, divided by the length
Operator dft() {
  return {.name = "DFT",
          .since = {17, 20},
          .inputs = {1, 3},
          .types = {{"T1", types::floats}, {"T2", types::indices}, {"tensor(int64)", types::integers_64}},
          .infer = infer_dft,
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                if (c.place().axis == c.attributes().integer("axis"))
                  c.fail("it transforms axis ", c.place().axis, ", which holds the samples");
                if (c.place().axis == c.x().rank() - 1) c.fail("the samples lie along the axis of real and imaginary parts");
                c.set(0, c.place());
              },
          .expand = expand_dft,
          .static_operands = {{1, "dft_length"}, {2, "axis"}},
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

// The transforms of frames of the signal, each `frame_step` behind the one before, under a window
Operator stft() {
  return {.name = "STFT",
          .since = {17},
          .inputs = {2, 4},
          .types = {{"T1", types::floats}, {"T2", types::indices}, {"T1", types::floats}, {"T2", types::indices}},
          .infer = infer_stft,
          .follow = follow_rows,
          .expand = expand_stft,
          .static_operands = {{1, "frame_step"}, {3, "frame_length"}},
          .precision = PrecisionRole::parts,
          .operands = {{"signal"}, {"frame_step", OperandRole::index}, {"window", OperandRole::factor}}};
}

}  // namespace tandem::operator_rows
