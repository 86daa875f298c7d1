// Gradients through quantization, against their formulas: straight through the rounding within the range, nothing beyond it, and to
// the scale what Esser et al. 2019 give it.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/operator.h"
#include "graph/small_types.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

using I = std::int64_t;

struct Row {
  std::string name;
  Tensor scale, zero;
  Attributes attributes;
  double low, high;         // of the integers
  std::string between;      // an operator between the two
  Attributes of_between = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Tensor numbers(Shape shape, std::initializer_list<float> values) { return Tensor::of<float>(std::move(shape), values); }

const Row rows[] = {
    {"one_scale_int8", numbers({}, {0.05F}), Tensor::scalar<std::int8_t>(0), {}, -128, 127, ""},
    {"one_scale_uint8", numbers({}, {0.01F}), Tensor::scalar<std::uint8_t>(100), {}, 0, 255, ""},
    {"one_scale_in_a_list", numbers({1}, {0.03F}), Tensor::of<std::int8_t>({1}, {-9}), {}, -128, 127, ""},
    {"by_columns", numbers({4}, {0.01F, 0.02F, 0.3F, 0.004F}), Tensor::of<std::int8_t>({4}, {0, 0, 0, 0}), {{"axis", I{1}}}, -128, 127, ""},
    {"by_columns_with_zero_points", numbers({4}, {0.01F, 0.02F, 0.3F, 0.004F}), Tensor::of<std::uint8_t>({4}, {0, 10, 128, 255}), {{"axis", I{-1}}}, 0, 255, ""},
    {"by_rows_int16", numbers({3}, {1e-3F, 5e-5F, 2e-5F}), Tensor::of<std::int16_t>({3}, {0, 5, -5}), {{"axis", I{0}}}, -32768, 32767, ""},
    {"by_blocks", numbers({3, 2}, {0.01F, 0.02F, 0.3F, 0.004F, 0.05F, 0.006F}), Tensor::of<std::int8_t>({3, 2}, {0, 1, 2, 3, 4, 5}), {{"axis", I{1}}, {"block_size", I{2}}}, -128, 127, ""},
    {"through_a_view", numbers({}, {0.05F}), Tensor::scalar<std::int8_t>(7), {}, -128, 127, "Reshape", {{"shape", Ints{4, 3}}}},
    {"through_a_transpose", numbers({}, {0.05F}), Tensor::scalar<std::int8_t>(7), {}, -128, 127, "Transpose", {{"perm", Ints{1, 0}}}},
};

const Tensor values = numbers({3, 4}, {-2.31F, -0.513F, 0.049F, 0.5F, 1.27F, 3.013F, -9.2F, 0.777F, 1.6F, -1.28F, 0.333F, -0.1F});

// The scale, or zero point, for each element of x.
std::vector<double> spread(const Row& row, const Tensor& t) {
  std::vector<double> all, given = t.to_doubles();
  const I axis = row.attributes.integer("axis", 0), block = row.attributes.integer("block_size", 0);
  for (I i = 0; i < 3; ++i)
    for (I j = 0; j < 4; ++j)
      all.push_back(given.size() == 1 ? given[0]
                    : block           ? given[static_cast<std::size_t>(i * 2 + j / block)]
                                      : given[static_cast<std::size_t>(axis == 0 ? i : j)]);
  return all;
}

class Quantization : public testing::TestWithParam<Row> {};

TEST_P(Quantization, PassesTheGradientStraightThrough) {
  const Row& row = GetParam();
  Graph graph;
  const ValueId x = graph.add_parameter("x", values.type(), values, true),
                scale = graph.add_parameter("scale", row.scale.type(), row.scale, true), zero = graph.add_constant("zero", row.zero);
  graph[x].template_shape = values.shape();
  graph[scale].template_shape = row.scale.shape();
  ValueId v = graph[graph.add_node(*find_operator("QuantizeLinear"), "q", row.attributes, {x, scale, zero}, 1)].outputs[0];
  if (!row.between.empty()) v = graph[graph.add_node(*find_operator(row.between), "between", row.of_between, {v}, 1)].outputs[0];
  v = graph[graph.add_node(*find_operator("DequantizeLinear"), "dq", row.attributes, {v, scale, zero}, 1)].outputs[0];
  // Each element weighs otherwise in the loss.
  Tensor weights(graph[v].type);
  float n = 1;
  for (float& w : weights.write<float>()) w = n++;
  GraphBuilder b(graph, "loss", {});
  graph.outputs = {b.reduce_sum(b.mul(v, graph.add_constant("weights", weights)), {0, 1}, false)};

  const std::vector<NamedTensor> results = test::GraphRun(graph, {"x", "scale"}).run({});
  const std::vector<double> scales = spread(row, row.scale), zeros = spread(row, row.zero), at = values.to_doubles();
  std::vector<double> dx, dscale(static_cast<std::size_t>(row.scale.elements()));
  double loss = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double ratio = at[i] / scales[i], level = std::nearbyint(ratio) + zeros[i], kept = std::clamp(level, row.low, row.high);
    const double weight = row.between == "Transpose" ? 1.0 + static_cast<double>(i % 4 * 3 + i / 4) : 1.0 + static_cast<double>(i);
    const bool inside = level >= row.low && level <= row.high;
    loss += weight * (kept - zeros[i]) * scales[i];
    dx.push_back(inside ? weight : 0);
    const std::size_t of = dscale.size() == 1 ? 0 : dscale.size() == 3 ? i / 4 : dscale.size() == 4 ? i % 4 : i / 4 * 2 + i % 4 / 2;
    dscale[of] += weight * (kept - zeros[i] - (inside ? ratio : 0));
  }
  const auto near = [&](const Tensor& got, const std::vector<double>& want, double relative) {
    double largest = 0;
    for (const double w : want) largest = std::max(largest, std::abs(w));
    const std::vector<double> g = got.to_doubles();
    ASSERT_EQ(g.size(), want.size());
    for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], want[i], relative * largest) << i;
  };
  near(results.at(0).tensor, {loss}, 1e-5);
  for (const NamedTensor& r : results) {
    if (r.name == "gradient/x") near(r.tensor, dx, 1e-6);
    if (r.name == "gradient/scale") near(r.tensor, dscale, 1e-4);
  }
  EXPECT_EQ(results.size(), 3U);
}
// Floats of 8 bits and less take the gradient as integers do: within their range, up to what still rounds to the largest.
struct FloatRow {
  std::string name;
  DType type;
  float scale;   // 0: Cast
  double end;    // of the range, in elements
};
void PrintTo(const FloatRow& row, std::ostream* out) { *out << row.name; }

const FloatRow float_rows[] = {
    {"float8e4m3fn", DType::float8e4m3fn, 0.01F, 464},      {"float8e5m2", DType::float8e5m2, 1e-4F, 61440},        {"float8e4m3fnuz", DType::float8e4m3fnuz, 0.02F, 248},
    {"float8e5m2fnuz", DType::float8e5m2fnuz, 1e-4F, 61440}, {"float4e2m1", DType::float4e2m1, 0.5F, 7},            {"float4e2m1_cast", DType::float4e2m1, 0, 7},
    {"float6e2m3_cast", DType::float6e2m3, 0, 7.75},        {"float6e3m2_cast", DType::float6e3m2, 0, 30},          {"float8e4m3fn_cast", DType::float8e4m3fn, 0, 464},
};

class FloatQuantization : public testing::TestWithParam<FloatRow> {};

TEST_P(FloatQuantization, PassesTheGradientStraightThrough) {
  const FloatRow& row = GetParam();
  Graph graph;
  const ValueId x = graph.add_parameter("x", values.type(), values, true);
  graph[x].template_shape = values.shape();
  const auto then = [&](const char* op, Attributes attributes, std::vector<ValueId> inputs) {
    return graph[graph.add_node(*find_operator(op), op, attributes, inputs, 1)].outputs[0];
  };
  ValueId v = x;
  if (row.scale != 0) {
    const ValueId scale = graph.add_constant("scale", Tensor::scalar(row.scale)),
                  zero = graph.add_constant("zero", Tensor::scalar(0.0F).cast(row.type));
    v = then("DequantizeLinear", {},
             {then("Transpose", {{"perm", Ints{1, 0}}}, {then("QuantizeLinear", {}, {v, scale, zero})}), scale, zero});
  } else {
    v = then("Cast", {{"to", I{1}}}, {then("Transpose", {{"perm", Ints{1, 0}}}, {then("Cast", {{"to", static_cast<I>(row.type)}}, {v})})});
  }
  Tensor weights(graph[v].type);
  float n = 1;
  for (float& w : weights.write<float>()) w = n++;
  GraphBuilder b(graph, "loss", {});
  graph.outputs = {b.reduce_sum(b.mul(v, graph.add_constant("weights", weights)), {0, 1}, false)};

  const double scale = row.scale != 0 ? static_cast<double>(row.scale) : 1.0;
  double loss = 0;
  std::vector<double> dx;
  for (std::size_t i = 0; i < 12; ++i) {
    const double weight = 1.0 + static_cast<double>(i % 4 * 3 + i / 4),
                 ratio = static_cast<double>(values.values<float>()[i] / (row.scale != 0 ? row.scale : 1.0F));
    loss += weight * scale * number_of(element_of(ratio, row.type), row.type);
    dx.push_back(std::abs(ratio) <= row.end ? weight : 0);
  }
  const std::vector<NamedTensor> results = test::GraphRun(graph, {"x"}).run({});
  ASSERT_EQ(results.size(), 2U);
  for (const NamedTensor& r : results) {
    const std::vector<double> got = r.tensor.to_doubles();
    if (r.name != "gradient/x") {
      EXPECT_NEAR(got.at(0), loss, 1e-5 * std::abs(loss) + 1e-5);
    }
    for (std::size_t i = 0; r.name == "gradient/x" && i < 12; ++i) EXPECT_NEAR(got[i], dx[i], 1e-5) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, FloatQuantization, testing::ValuesIn(float_rows), [](const auto& row) { return row.param.name; });

INSTANTIATE_TEST_SUITE_P(Rows, Quantization, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem
