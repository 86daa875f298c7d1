// Normalization of rows as one kernel: what LayerNormalization and RMSNormalization become, written out or not, where backends
// offer it. A row is everything from axis `axis` on.
#include <algorithm>

#include "graph/operators/gradient_rules.h"

namespace tandem::operator_rows {
namespace {

int first_axis(const InferContext& c) {
  const int rank = c.shape(0).rank();
  const std::int64_t axis = c.attributes().integer("axis");
  if (axis < 0 || axis >= rank) c.fail("axis is ", axis, ", expected 0 to ", rank - 1);
  return static_cast<int>(axis);
}

Shape row_of(const Shape& x, int axis) { return Shape(Ints(x.begin() + axis, x.end())); }
Shape statistics_of(Shape x, int axis) {
  for (int i = axis; i < x.rank(); ++i) x[i] = 1;
  return x;
}
DType statistics_type(DType x) { return size_of(x) == 2 ? DType::float32 : x; }

// The operand, where it is given, is of what statistics are held in.
void expect_wide(const InferContext& c, int input, const Shape& shape, DType x) {
  if (!c.has_input(input)) return;
  expect_shape(c, input, shape);
  expect_dtype(c, input, statistics_type(x));
}

// The operand is of this type, or of 16 bits beside float32.
void expect_narrow_or(const InferContext& c, int input, DType dtype) {
  if (dtype != DType::float32 || size_of(c.input(input).dtype) != 2) expect_dtype(c, input, dtype);
}

DType type_of(const InferContext& c, std::string_view name, DType otherwise) {
  return static_cast<DType>(c.attributes().integer(name, static_cast<std::int64_t>(otherwise)));
}

// What dropout draws by, of samples that are whole rows.
void expect_random(const InferContext& c, int input, int axis, const Shape& x) {
  if (!c.has_input(input)) return;
  expect_shape(c, input, Shape{4});
  expect_dtype(c, input, DType::int64);
  const std::int64_t n = row_of(x, axis).elements(), sample = c.attributes().integer("sample", n);
  if (sample < n || (n > 0 && sample % n != 0)) c.fail("sample is ", sample, ", expected a multiple of a row's ", n, " elements");
}

void infer_forward(InferContext& c) {
  const int axis = first_axis(c);
  const TensorType x = c.input(0);
  for (int i = 1; i < 3; ++i) expect_wide(c, i, row_of(x.shape, axis), x.dtype);
  if (c.has_input(3) != (c.outputs() > 3)) c.fail("it has an addend and no output for the sum, or such an output and no addend");
  if (c.has_input(3)) {
    expect_shape(c, 3, x.shape);
    expect_narrow_or(c, 3, x.dtype);
    c.set_output(3, x);
  }
  expect_random(c, 4, axis, x.shape);
  c.set_output(0, type_of(c, "to", x.dtype), x.shape);
  if (c.has_output(4)) c.set_output(4, type_of(c, "copy", x.dtype), x.shape);
  for (int i = 1; i < 3; ++i) c.set_output(i, statistics_type(x.dtype), statistics_of(x.shape, axis));
}

void infer_backward(InferContext& c) {
  const int axis = first_axis(c);
  const TensorType x = c.input(1);
  expect_shape(c, 0, x.shape);
  expect_narrow_or(c, 0, x.dtype);
  if (c.has_input(5)) {
    expect_shape(c, 5, x.shape);
    expect_dtype(c, 5, x.dtype);
  }
  expect_random(c, 7, axis, x.shape);
  if (c.has_output(3)) c.set_output(3, type_of(c, "copy", x.dtype), x.shape);
  if (c.has_input(6)) {
    expect_shape(c, 6, x.shape);
    expect_dtype(c, 0, DType::float32);
    expect_narrow_or(c, 6, DType::float32);
  }
  expect_wide(c, 2, row_of(x.shape, axis), x.dtype);
  for (int i = 3; i < 5; ++i) {
    expect_shape(c, i, statistics_of(x.shape, axis));
    expect_dtype(c, i, statistics_type(x.dtype));
  }
  c.set_output(0, x);
  for (int i = 1; i < 3; ++i)
    if (c.has_output(i)) c.set_output(i, statistics_type(x.dtype), row_of(x.shape, axis));
}

// Rows are split, none is cut; operands of x's shape lie as x does, and so do the statistics.
void place_split_rows(PlaceContext& c, std::initializer_list<int> like_x) {
  if (!c.split(0) || c.place().axis >= c.attributes().integer("axis")) c.fail("a row of it is split");
  for (int i = 1; i < c.inputs(); ++i) {
    const bool like = std::find(like_x.begin(), like_x.end(), i) != like_x.end();
    if (c.has_input(i) && like && c.place(i) != c.place()) {
      if (c.split(i)) c.fail("its operands are split along different axes");
      c.need(i, c.place());
    }
    if (!like && c.split(i)) c.fail("its input ", i, " is split");
  }
}

}  // namespace

// y = (s − mean) / √(variance + ε) · scale + bias by rows of s = x + addend, and s, where there is one. With `rms` = 1 the mean
// is 0. Beside float32 x the addend may be of 16 bits, y is of type "to", and dy may be of 16 bits, or the sum of float32 and an operand of
// 16. The fifth output is y once more, of type "copy", behind an addend. With the operand `random` the addend is dropped before it is
// added, as DropoutTraining of "ratio" and "layer" does it, with samples of so many elements as "sample" says.
// dx = r·(g − Σg/n − x̂·Σ(g·x̂)/n) + dsum with g = dy·scale, r the inverse deviation, x̂ = (s − mean)·r
Operator row_normalization() {
  return {.name = "RowNormalization",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, 5},
          .outputs = {3, 5},
          .infer = infer_forward,
          .place =
              [](PlaceContext& c) {
                place_split_rows(c, {3});
                c.set_all(c.place());
              },
          .differentiate =
              [](GradientContext& g) {
                if (g.has_x(4)) fail("RowNormalization '", g.node().name, "' drops its addend: it is to be differentiated before it does");
                if (g.has_dy(1) || g.has_dy(2)) fail("RowNormalization '", g.node().name, "': the loss reads its statistics");
                const bool sums = g.has_x(3);
                if (!g.has_dy(0)) {
                  for (const int i : {0, 3})
                    if (g.wants(i)) g.set_dx(i, g.dy(3));
                  return;
                }
                std::vector<ValueId> inputs{g.dy(0), sums ? g.y(3) : g.x(0), g.has_x(1) ? g.x(1) : ValueId{}, g.y(1), g.y(2)};
                if (sums && g.has_dy(3)) inputs.push_back(g.dy(3));
                const std::vector<ValueId> d = g.emit("RowNormalizationBackward", std::move(inputs), g.attributes(),
                                                      g.wants(2)   ? 3
                                                      : g.wants(1) ? 2
                                                                   : 1);
                for (const int i : {0, 3})
                  if (g.wants(i)) g.set_dx(i, d[0]);
                for (const int i : {1, 2})
                  if (g.wants(i)) g.set_dx(i, d[at(i)]);
              },
          .flops = flops_an_element<8>,
          .precision = PrecisionRole::follows,
          .operands = {{"x"},
                       {"scale", OperandRole::scale, true},
                       {"bias", OperandRole::bias, true},
                       {"addend"},
                       {"random", OperandRole::index}}};
}

// The fourth output is dx once more, of type "copy"; with `random` it is dropped, as the forward pass's addend was.
Operator row_normalization_backward() {
  return {.name = "RowNormalizationBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 8},  // the statistics are always there; between them and x a scale may be missing
          .outputs = {1, 4},
          .infer = infer_backward,
          .place =
              [](PlaceContext& c) {
                place_split_rows(c, {1, 3, 4, 5, 6});
                for (int i = 0; i < c.outputs(); ++i) i % 3 == 0 ? c.set(i, c.place()) : c.sum(i);
              },
          .flops = flops_an_element<8>};
}

}  // namespace tandem::operator_rows
