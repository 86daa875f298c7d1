// Products in 8 bits with delayed scaling (graph/fp8.h).
#include "graph/fp8.h"

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

bool is_fp8(DType t) { return t == DType::float8e4m3fn || t == DType::float8e5m2; }

void expect_state(const InferContext& c, int input) {
  expect_dtype(c, input, DType::float32);
  expect_rank(c, input, 2);
  if (c.shape(input)[1] != Fp8Row::count)
    c.fail("state ", c.shape(input), " has rows of ", c.shape(input)[1], ", expected ", Fp8Row::count);
}

}  // namespace

// y = fp8(x · scale), transposed = yᵀ, inverse = 1 / scale, amax = max |x|, infinity where one is NaN; scale is that of row `slot` of the
// state, fp8 the type `to`
Operator quantize_fp8() {
  return {.name = "QuantizeFp8",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .outputs = {3, 4},
          .infer =
              [](InferContext& c) {
                const auto to = static_cast<DType>(c.attributes().integer("to"));
                if (!is_fp8(to)) c.fail("gives ", to, ", expected ", DType::float8e4m3fn, " or ", DType::float8e5m2);
                expect_rank(c, 0, 2);
                expect_state(c, 1);
                if (const std::int64_t slot = c.attributes().integer("slot"); slot < 0 || slot >= c.shape(1)[0])
                  c.fail("slot ", slot, " is none of the state's ", c.shape(1)[0]);
                const Shape x = c.shape(0);
                c.set_output(0, to, x);
                c.set_output(1, DType::float32, Shape{});
                c.set_output(2, DType::float32, Shape{});
                if (c.has_output(3)) c.set_output(3, to, Shape{x[1], x[0]});
              },
          .place =
              [](PlaceContext& c) {
                const BatchPlace place = c.place(0);
                if (!place.present()) c.fail("its state is split");
                c.set(0, place);
                c.sum(2);  // of parts, whose largest all devices agree on: AllReduce {max}
                if (c.outputs() > 3) c.set(3, {.axis = 1 - place.axis, .outer = place.outer});
              }};
}

// y[m,n] = b[n] + inverse_a · inverse_w · Σ_k a[m,k] · w[n,k]
Operator product_fp8() {
  return {.name = "ProductFp8",
          .domain = "tandem",
          .since = {1},
          .inputs = {4, 5},
          .infer =
              [](InferContext& c) {
                for (int i = 0; i < 2; ++i) {
                  expect_rank(c, i, 2);
                  if (!is_fp8(c.input(i).dtype)) c.fail("operand ", i, " is ", c.input(i), ", expected 8-bit floats");
                  expect_shape(c, 2 + i, Shape{});
                  expect_dtype(c, 2 + i, DType::float32);
                }
                if (const std::string activation = c.attributes().text("activation", "Relu"); activation != "Relu")
                  c.fail("activation ", activation, ", expected Relu or none");
                const Shape &a = c.shape(0), &w = c.shape(1);
                if (a[1] != w[1]) c.fail("a ", a, " and w ", w, " must agree in their last axis");
                if (c.has_input(4)) {
                  expect_shape(c, 4, Shape{w[0]});
                  expect_dtype(c, 4, DType::bfloat16);
                }
                c.set_output(0, DType::bfloat16, Shape{a[0], w[0]});
              },
          .place = [](PlaceContext& c) { place_inner_product(c, 4); },
          .flops =
              [](const Graph& graph, const Node& n) {
                return 2.0 * static_cast<double>(graph[n.inputs[0]].type.shape[0]) *
                       static_cast<double>(graph[n.inputs[1]].type.shape.elements());
              }};
}

// Each row of the state by its tensor's largest magnitude of this step (next_scale). In place.
Operator fp8_scale_update() {
  return {.name = "Fp8ScaleUpdate",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, Arity::any},
          .infer =
              [](InferContext& c) {
                expect_state(c, 0);
                const std::int64_t rows = c.shape(0)[0];
                if (c.inputs() - 1 != rows || std::ssize(c.attributes().ints("to")) != rows)
                  c.fail("has ", c.inputs() - 1, " magnitudes and ", c.attributes().ints("to").size(), " types for ", rows, " rows");
                for (const std::int64_t to : c.attributes().ints("to"))
                  if (!is_fp8(static_cast<DType>(to))) c.fail("a row is of ", static_cast<DType>(to), ", expected 8-bit floats");
                for (int i = 1; i < c.inputs(); ++i) {
                  expect_shape(c, i, Shape{});
                  expect_dtype(c, i, DType::float32);
                }
                infer_same(c);
              },
          .in_place = {0}};
}

}  // namespace tandem::operator_rows
