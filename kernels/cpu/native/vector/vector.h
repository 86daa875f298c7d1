// The functions that exist once per instruction set. The sources of this folder include nothing that holds templates or
// inline functions of others: a copy compiled for AVX-512 could be the one the linker keeps for everybody.
#pragma once
#include <cstdint>

namespace tandem::vector {

// y[i] = f(a[i], b[i], c[i]; p[0], p[1]) for i < n. y may be one of the others, exactly; unused ones are not read.
using MicroOp = void (*)(void* y, const void* a, const void* b, const void* c, std::int64_t n, const double* p);

struct MicroRow {
  const char* name;   // the operator's
  int arity;
  MicroOp float32, float64, bfloat16;  // the last computes in float and rounds what it gives
};

enum Reduction { reduce_sum, reduce_max, reduce_min, reduce_prod };

template <class T>
struct Reductions {
  T (*row[4])(const T* x, std::int64_t n, T start);        // by Reduction. start: the neutral element (of max, min: any of x)
  void (*rows[4])(T* y, const T* x, std::int64_t n, std::int64_t rows, std::int64_t stride);  // y[j] and all x[r·stride + j]
  void (*each[4])(T* y, const T* x, std::int64_t n, std::int64_t rows, T start);  // y[r] and all of row r: x[r·n] to x[r·n + n − 1]
  // y[i] = e^(x[i] − maximum), and their sum; n > 0. y may be x, or null: they are summed alone.
  void (*exponentials)(const T* x, T* y, std::int64_t n, T* maximum, T* sum);
  // Softmax, or its logarithm, of each column j < n of rows x[r·stride + j]; n ≤ 64. y may be x, but for the logarithm.
  void (*softmax_of_columns)(const T* x, T* y, std::int64_t n, std::int64_t rows, std::int64_t stride, bool log);
  void (*scale)(const T* x, T* y, std::int64_t n, T factor);           // y = x·factor; y may be x
  void (*shift)(const T* x, T* y, std::int64_t n, T first, T second);  // y = x − first − second; y may be x
};

inline constexpr int kinds_of_update = 12;  // UpdateKind's
// Of a step, for one tensor.
struct UpdateFactors {
  double rate;                                             // the learning rate, with the group's and the norms' factors
  double correction1, correction2, factor1, factor2;       // StepScalars
  double unscale, bound;                                   // what the gradient is multiplied by, then cut to ± bound
  double weight_decay, momentum, dampening, beta1, beta2, epsilon;
  bool nesterov, decoupled;
};
template <class T>
struct Updated {  // part of a tensor, with its states by slot (graph/updates.h), null where there is none
  T* w;
  const void* g;
  bool narrow;          // g is bfloat16 (and T float), else T
  std::uint16_t* copy;  // the weight in bfloat16, kept equal; null: there is none
  T* state[3];
  std::int64_t n;
};
template <class T>
struct Updates {
  void (*apply[kinds_of_update])(const Updated<T>& part, const UpdateFactors& factors);  // by UpdateKind
  // Where the rate goes by norms: adds those of the weight and of the step to sums, squared; may move the states on. Else null.
  void (*measure[kinds_of_update])(const Updated<T>& part, const UpdateFactors& factors, double* sums);
  void (*average)(T* average, const T* w, std::int64_t n, double share);
  double (*squares)(const void* g, bool narrow, std::int64_t n);  // Σ g²
};

struct PhiloxState {
  std::uint32_t key[2];
  std::uint32_t counter_high[2];  // words 2 and 3 of the counter
};
// y = word >= threshold ? x·scale : 0
template <class T>
using Drop = void(const T* x, T* y, const std::uint32_t* words, std::int64_t n, std::uint32_t threshold, T scale);

// A tile of a convolution with channels last; the filter lies in blocks of eight of the channels o that the lanes are:
//   y[p·y_step + o] = bias[o] + Σ x[r·x_line + c·x_column + p·x_step + k] · w[(o/8)·w_block + r·w_line + c·w_column + k·8 + o%8]
//   over r < lines, c < columns, k < run. `bias` may be null; `last`: channels of the last vector.
struct ConvolutionTile {
  const float *x, *w, *bias;
  float* y;
  std::int64_t x_step, x_line, x_column, w_block, w_line, w_column, y_step, lines, columns, run;
  int last;
  bool relu;
};
// By vectors − 1 (of o) and rows − 1 (of p).
struct ConvolutionTiles {
  void (*forward[4][8])(const ConvolutionTile&);
  int rows[4];  // the most of so many vectors
};

// A block of a matrix product, of float32:
//   c[i·c_row + j] = start + Σ a[i·a_row + p·a_step] · b[p·b_step + j] over p < inner, for i < rows and j < columns,
// where start is c's own value (`accumulate`), bias[j], or 0 where `bias` is null; then max(0, ·) with `relu`. With `narrow`, c is
// bfloat16 (and does not accumulate).
struct Product {
  const float *a, *b;
  void* c;
  std::int64_t rows, columns, inner;
  std::int64_t a_row, a_step, b_step, c_row;
  const float* bias;
  bool accumulate, relu, narrow;
  const void* ahead[2];  // memory of `inner` floats each that will be read next: fetched meanwhile, by `panels`
};
// Panels of one of its sides: line i, number p of its sum go to[i/width·panel_step + p·width + i%width], and 0 where the last panel has
// no line. With `sums`: sums[i] += each number of line i, in order.
struct Panels {
  const void* from;           // line i, number p at from[i·line + p·step]
  bool narrow;                // it is bfloat16
  std::int64_t line, step, lines, inner;
  std::int64_t width;
  float* to;
  std::int64_t panel_step = 0;
  float* sums = nullptr;
};
struct Products {
  int panel_rows, panel_columns;   // the widths of a's and b's panels
  void (*block)(const Product&);   // of operands that lie in the nearest caches as they are; rows, columns > 0
  void (*panels)(const Product&);  // of a panel of b, and one of a, where a_row is 0, or a as it lies; b_step is not read
  void (*pack)(const Panels&);
};

// c[i·c_row + j] = bias[j] + Σ a[i·a_row + p] · b[j·b_row + p] over p < inner, for i < rows and j < columns; max(0, ·) of that with `relu`.
// Each column is read once, and is not copied. Sums are of every lanes-th number first.
struct FewRows {
  const void *a, *b;
  void* c;
  const float* bias;  // may be null
  std::int64_t rows, columns, inner;
  std::int64_t a_row, b_row, c_row;
  bool narrow_a, narrow_b, narrow_c;  // bfloat16; else float
  bool relu;
};
struct RowProducts {
  int most_rows;
  void (*run)(const FewRows&);  // rows > 0
};

// A block of a product of bfloat16 numbers in pairs, each two numbers of a sum, the first in the low half:
//   c[i·c_row + j] = start + Σ a[i·a_row + l·a_line + p·a_step] · b[j/16·b_vector + l·b_line + p·b_step + j%16] over l < lines, p < pairs,
// where a product is that of both numbers, summed in order, and start is c's own value (`accumulate`) or 0.
struct DotBlock {
  const std::uint32_t *a, *b;
  float* c;
  std::int64_t rows, columns, pairs;
  std::int64_t a_row, a_step, b_step, c_row;
  bool accumulate;
  std::int64_t lines = 1, a_line = 0, b_line = 0, b_vector = 16;
};
struct Dots {
  void (*block)(const DotBlock&);  // rows, columns > 0
  void (*narrow)(std::uint16_t* to, const float* from, std::int64_t n);  // to the nearest
  // to[r/2·to_row + i] is the pair of from[r·row + i] and from[(r + 1)·row + i], of even r < rows, i < n; 0 where there is no second row.
  void (*pair_lines)(std::uint32_t* to, std::int64_t to_row, const std::uint16_t* from, std::int64_t row, std::int64_t rows,
                     std::int64_t n);
  void (*pair_narrowed)(std::uint32_t* to, std::int64_t to_row, const float* from, std::int64_t row, std::int64_t rows, std::int64_t n);
  // sums[i] = Σ a[i·pairs + p] · b[i·b_row + p] over p < pairs, for i < rows, to the bit what `block` gives.
  void (*inner_products)(const std::uint32_t* a, const std::uint32_t* b, std::int64_t b_row, std::int64_t rows, std::int64_t pairs,
                         float* sums);
};

// A query's scores of a block of keys: at first the products q·k. `width` is a whole number of lanes (16); keys from `visible` on
// are out of reach. Where `keep` is given a score is `fill` where that is 0, else `bias` is added if it is given.
template <class T>
struct ScoreRow {
  T* scores;
  std::int64_t visible, width;
  T scale, fill;
  const T* bias;
  const std::uint8_t* keep;
  const std::uint32_t* words;  // random ones of dropout, or null: none is dropped
  std::uint32_t threshold;
  T kept;                      // what is not dropped is multiplied by
};
template <class T>
struct Attending {
  // Scores become e^(score − maximum), dropped; maximum and sum, of the keys before, go on. Gives what theirs are multiplied by.
  T (*attend)(const ScoreRow<T>& row, T* maximum, T* sum);
  // Scores become dropped probabilities e^(score − log_sum), and `gradients`, of the dropped ones, those of the products q·k.
  // A log_sum of ∞ means a row of zeros.
  void (*attend_backward)(const ScoreRow<T>& row, T* gradients, T log_sum, T delta);
  // sums[i] = Σ a[i·n + j]·b[i·b_row + j] over j < n, for i < rows. `narrow`: b is bfloat16 (and T float).
  void (*inner_products)(const T* a, const void* b, bool narrow, std::int64_t b_row, std::int64_t rows, std::int64_t n, T* sums);
};

// Rows of n elements, one after the other. Scale, bias and the statistics are float where elements are bfloat16, else as these.
struct NormalizedRows {
  const void *x, *addend;        // addend and sum: both or none
  void *sum, *y;
  const void *scale, *bias;      // of n
  void *mean, *inverse_deviation;  // of rows
  std::int64_t rows, n;
  double epsilon;
  bool rms;
};
struct NormalizedRowsBackward {
  const void *dy, *x, *dsum;
  void* dx;                      // may be dy or dsum
  const void *scale, *mean, *inverse_deviation;
  void *dscale, *dbias;          // of n, added to; both or none
  std::int64_t rows, n;
  bool rms;
};
// A group of channels, of n elements each, one after the other: a row whose scale and bias are its channels'.
struct NormalizedChannels {
  const void* x;
  void* y;
  const void *scale, *bias;        // of channels; null: 1 and 0
  void *mean, *inverse_deviation;  // of the group
  std::int64_t channels, n;
  double epsilon;
};
struct NormalizedChannelsBackward {
  const void *dy, *x;
  void* dx;                        // may be dy
  const void *scale, *mean, *inverse_deviation;
  double *dscale, *dbias;          // of channels, added to; both or none
  std::int64_t channels, n;
};
struct RowNormalizations {
  void (*forward[2])(const NormalizedRows&);               // without addend, with it
  void (*backward[2][2])(const NormalizedRowsBackward&);   // the same of dsum; without dscale and dbias, with them
  void (*forward_channels)(const NormalizedChannels&);
  void (*backward_channels)(const NormalizedChannelsBackward&);
};

// Places of a line, each of `channels` elements side by side, and what they meet: at place p those from p·from_step + offsets[t] on, by the
// tap numbers[t], t < count. Channels fill a vector at least.
struct PooledRun {
  const void* from;                // x, or dy
  void* to;                        // y, or dx, of place p from p·to_step on
  std::uint8_t* taps;              // as y and dy lie: by which tap the first of the largest came; null: it is not asked for
  const std::int64_t* offsets;
  const std::uint8_t* numbers;
  std::int64_t count, places, from_step, to_step, channels;
};
struct Pooling {
  int lanes;                             // of a vector
  void (*largest[2])(const PooledRun&);  // y and taps of x, count > 0; of float, of bfloat16
  void (*spread[2])(const PooledRun&);   // dx: the sum of those dy that came by that tap
};

// Rows of `channels` channels side by side, which begin `step` elements apart. What is held by channel are as many numbers, rounded up
// to sixteens: 0 behind the last channel.
struct ChannelRows {
  std::int64_t rows, step;
  int channels;
};
// y = (x − mean)·factor + bias + addend, cut to [low, high]
struct NormalizedBatch {
  const void *x, *addend;  // addend: null for none
  void* y;
  ChannelRows at;
  const float *mean, *factor, *bias;
  float low, high;         // −∞ and ∞: not cut
  bool streams;            // nobody reads y soon
};
// g = dy + dy2, and 0 where y was cut. dx = factor·(g − shift − (x − mean)·tilt), daddend = g
struct NormalizedBatchBackward {
  const void *x, *dy, *dy2, *y;  // dy2: null for none; y: null where it had no addend
  void *dx, *daddend;            // dx may be dy; daddend: null for none
  ChannelRows at;
  const float *mean, *factor, *bias, *shift, *tilt;
  float low, high;
  bool streams;
};
// Of float, of bfloat16, of bfloat16 where the processor rounds to it (AVX512_BF16). `partial`: room for twice the numbers held by channel.
struct BatchNormalizations {
  void (*moments)(const void* x, const ChannelRows& at, float* partial, double* mean, double* squares);  // of the rows, Σ (x − mean)²
  void (*apply)(const NormalizedBatch&);
  void (*sums)(const NormalizedBatchBackward&, float* partial, double* plain, double* along);            // Σ g, Σ g·(x − mean)
  void (*apply_backward)(const NormalizedBatchBackward&);
};

// n units in one step of an LSTM, GRU or RNN. `saved` holds their numbers in slots that begin `slot` numbers apart: an LSTM's gates i, o,
// f, c, and the states c and h before; a GRU's gates z, r, h, then r∘h, or h·Rhᵀ + b where its product comes first, and the state
// before; an RNN's h, and the one before. Gates are sums at first.
template <class T>
struct RecurrentRow {
  T *saved, *hidden, *cell, *y;  // states become those behind the step; y is the same h
  std::int64_t n, slot;
};
// From the gradients of the states behind the step come those of the gates' sums, of r∘h or h·Rhᵀ + b (`inner`), and of the states
// before it, as far as no product gives them.
template <class T>
struct RecurrentRowBackward {
  const T* saved;
  T *gates, *inner, *hidden, *cell;  // gates are `slot` numbers apart, too
  std::int64_t n, slot;
};
template <class T>
struct Recurring {
  using Forward = void (*)(const RecurrentRow<T>&);
  using Backward = void (*)(const RecurrentRowBackward<T>&);
  Forward lstm, gru_gates, gru, gru_linear, rnn[2];  // rnn: by tanh, by max(0, ·)
  Backward lstm_backward, gru_backward, gru_reset_backward, gru_linear_backward, rnn_backward[2];
};

// y[i·y_step + j] = x[j·x_step + i] for i < rows, j < columns
using Transpose = void (*)(const void* x, void* y, std::int64_t rows, std::int64_t columns, std::int64_t x_step, std::int64_t y_step);

template <class T>
struct Functions {
  const Reductions<T>* reductions;
  const Updates<T>* updates;
  Drop<T>* drop;
  const Attending<T>* attending;
  const Recurring<T>* recurring;
};

struct Table {
  const char* isa;
  const MicroRow* micro_ops;
  int micro_op_count;
  MicroOp widen_bfloat16, narrow_bfloat16;  // to float32 and back
  Functions<float> float32;
  Functions<double> float64;
  // Element e's random word is word e mod 4 of the counter whose low words are e/4: of n elements in a row from `first`
  // on, and of any elements.
  void (*philox_run)(std::uint32_t* words, std::int64_t first, std::int64_t n, const PhiloxState& state);
  void (*philox_at)(std::uint32_t* words, const std::int64_t* elements, std::int64_t n, const PhiloxState& state);
  const ConvolutionTiles* convolution;
  const Products* products;
  const RowProducts* row_products;
  const Dots* dots;                             // null: not of this instruction set. Ask dot_products() of isa.h
  // of float, double, bfloat16, float with addend and dy of bfloat16, the same and y; the third and the last where the processor rounds
  const RowNormalizations* row_normalizations;
  const BatchNormalizations* batch_normalizations;  // of float, bfloat16
  const Transpose* transposes;                  // of elements of 2 bytes, of 4
  const Pooling* pooling;

  template <class T>
  const Functions<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float))
      return float32;
    else
      return float64;
  }
};

namespace baseline { const Table& table(); }
namespace avx2 { const Table& table(); }
namespace avx512 { const Table& table(); }

}  // namespace tandem::vector
