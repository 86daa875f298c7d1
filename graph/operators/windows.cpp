// HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix: constants of signal processing, known when the plan is made.
#include <cmath>
#include <numbers>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

DType output_type(const Attributes& a) {
  const auto dtype = static_cast<DType>(a.integer("output_datatype", static_cast<std::int64_t>(DType::float32)));
  if (size_of(dtype) == 0 || dtype == DType::boolean)
    fail("output_datatype is ", a.integer("output_datatype"), ", a type that is not supported");
  return dtype;
}

Tensor in_type(const Tensor& t, DType dtype) { return size_of(dtype) < 4 ? t.cast(DType::float32).cast(dtype) : t.cast(dtype); }

// y[n] = c₀ + c₁·cos(2πn/N) + c₂·cos(4πn/N), N the size, or one less where the window is symmetric
struct Cosines {
  double c0, c1, c2;
};
Tensor window_of(const Attributes& a, const Cosines& w) {
  const std::int64_t size = static_integer(a, "size", 0);
  const double period = static_cast<double>(a.integer("periodic", 1) != 0 ? size : std::max<std::int64_t>(1, size - 1));
  Tensor t = bounded_tensor({DType::float64, Shape{size}});
  const auto out = t.write<double>();
  for (std::size_t n = 0; n < out.size(); ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
    out[n] = w.c0 + w.c1 * std::cos(angle) + w.c2 * std::cos(2 * angle);
  }
  return in_type(t, output_type(a));
}

void infer_window(InferContext& c) {
  if (!c.attributes().has("size")) c.fail("size must be known when the plan is made");
  const std::int64_t size = static_integer(c.attributes(), "size", 0);
  if (size < 0 || size >= std::int64_t{1} << 31) c.fail("size is ", size);
  c.set_output(0, output_type(c.attributes()), Shape{size});
}

// Triangles that overlap, evenly spaced by mel: [dft_length/2 + 1, num_mel_bins]
Tensor mel_weights(const Attributes& a) {
  const std::int64_t bins = static_integer(a, "num_mel_bins", 0), length = static_integer(a, "dft_length", 0),
                     rate = static_integer(a, "sample_rate", 1);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(static_number(a, "lower_edge_hertz", 0)), high = mel(static_number(a, "upper_edge_hertz", 0)),
               step = (high - low) / static_cast<double>(bins + 2);
  const std::int64_t rows = length / 2 + 1;
  const auto edge = [&](std::int64_t i) {
    const double hertz = 700 * (std::pow(10, (low + step * static_cast<double>(i)) / 2595) - 1);
    return static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate)));
  };
  Tensor t = bounded_tensor({DType::float64, Shape{rows, bins}});
  const auto out = t.write<double>();
  const auto set = [&](std::int64_t row, std::int64_t bin, double value) {
    if (row >= 0 && row < rows) out[static_cast<std::size_t>(row * bins + bin)] = value;
  };
  for (std::int64_t i = 0; i < bins; ++i) {
    const std::int64_t left = edge(i), centre = edge(i + 1), right = edge(i + 2);
    if (centre == left) set(centre, i, 1);
    for (std::int64_t j = left; centre > left && j <= centre; ++j)
      set(j, i, static_cast<double>(j - left) / static_cast<double>(centre - left));
    for (std::int64_t j = centre; j < right; ++j) set(j, i, static_cast<double>(right - j) / static_cast<double>(right - centre));
  }
  return in_type(t, output_type(a));
}

void infer_mel(InferContext& c) {
  const Attributes& a = c.attributes();
  for (const char* name : {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"})
    if (!a.has(name)) c.fail(name, " must be known when the plan is made");
  for (const char* name : {"num_mel_bins", "dft_length", "sample_rate"})
    if (const std::int64_t n = static_integer(a, name, 0); n < 1 || n >= std::int64_t{1} << 24)
      c.fail(name, " is ", n, ", expected at least 1");
  const double low = static_number(a, "lower_edge_hertz", 0), high = static_number(a, "upper_edge_hertz", 0);
  if (!(low >= 0 && high > low && high <= static_cast<double>(static_integer(a, "sample_rate", 0))))
    c.fail("the edges are ", low, " and ", high, " hertz, of ", static_integer(a, "sample_rate", 0));
  c.set_output(0, output_type(a), Shape{static_integer(a, "dft_length", 0) / 2 + 1, static_integer(a, "num_mel_bins", 0)});
}

ValueId constant_value(ExpandContext& e, Tensor value) { return e.graph().add_constant(e.node().name + "/value", std::move(value)); }

template <auto make>
Operator constant_row(const char* name, void (*infer)(InferContext&), Arity inputs, std::vector<OperandType> types,
                      std::vector<StaticOperand> operands) {
  return {.name = name,
          .since = {17}, .inputs = inputs, .types = std::move(types),
          .infer = infer,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {constant_value(e, make(e.attributes()))}; },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{make(c.node.attributes)}; },
          .static_operands = std::move(operands),
          .precision = PrecisionRole::parts};
}

Tensor hann(const Attributes& a) { return window_of(a, {0.5, -0.5, 0}); }
Tensor hamming(const Attributes& a) { return window_of(a, {25.0 / 46, -21.0 / 46, 0}); }
Tensor blackman(const Attributes& a) { return window_of(a, {0.42, -0.5, 0.08}); }

}  // namespace

Operator hann_window() { return constant_row<hann>("HannWindow", infer_window, {1, 1}, {{"T1", types::indices}}, {{0, "size"}}); }
Operator hamming_window() { return constant_row<hamming>("HammingWindow", infer_window, {1, 1}, {{"T1", types::indices}}, {{0, "size"}}); }
Operator blackman_window() {
  return constant_row<blackman>("BlackmanWindow", infer_window, {1, 1}, {{"T1", types::indices}}, {{0, "size"}});
}

Operator mel_weight_matrix() {
  return constant_row<mel_weights>(
      "MelWeightMatrix", infer_mel, {5, 5},
      {{"T1", types::indices}, {"T1", types::indices}, {"T1", types::indices}, {"T2", types::floats}, {"T2", types::floats}},
      {{0, "num_mel_bins"}, {1, "dft_length"}, {2, "sample_rate"}, {3, "lower_edge_hertz"}, {4, "upper_edge_hertz"}});
}

}  // namespace tandem::operator_rows
