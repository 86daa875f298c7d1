#include "trainer/template/initialize.h"

#include <cmath>
#include <map>
#include <optional>

#include "graph/operator.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

// x → Conv → BatchNormalization → PRelu → Flatten → Gemm → MatMul by a transposed weight → Add
Graph sample_graph() {
  Graph g;
  const DType f = DType::float32;
  const ValueId x = g.add_input("x", {f, {2, 8, 12, 12}});
  const auto node = [&](std::string_view op, const char* name, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return g[g.add_node(*find_operator(op), name, std::move(attributes), std::move(inputs), 1)].outputs[0];
  };
  const auto parameter = [&](const char* name, Shape shape, bool trainable = true) {
    return g.add_parameter(name, {f, std::move(shape)}, std::nullopt, trainable);
  };
  ValueId y = node("Conv", "conv", {x, parameter("conv.w", {32, 4, 3, 3}), parameter("conv.b", {32})},
                   {{"kernel_shape", Ints{3, 3}},
                    {"group", std::int64_t{2}},
                    {"pads", Ints{0, 0, 0, 0}},
                    {"strides", Ints{1, 1}},
                    {"dilations", Ints{1, 1}}});
  y = node(
      "BatchNormalization", "bn",
      {y, parameter("bn.scale", {32}), parameter("bn.bias", {32}), parameter("bn.mean", {32}, false), parameter("bn.var", {32}, false)});
  y = node("PRelu", "prelu", {y, parameter("slope", {32, 1, 1})});
  y = node("Flatten", "flatten", {y}, {{"axis", std::int64_t{1}}});
  y = node("Gemm", "gemm", {y, parameter("gemm.w", {100, 3200}), parameter("gemm.b", {100})}, {{"transB", std::int64_t{1}}});
  const ValueId w = node("Transpose", "transpose", {parameter("matmul.w", {300, 100})}, {{"perm", Ints{1, 0}}});
  y = node("MatMul", "matmul", {y, w});
  y = node("Add", "add", {y, parameter("add.b", {300})});
  g.outputs = {y};
  return g;
}

std::map<std::string, std::vector<double>> drawn(const Graph& g, std::string_view how, std::uint64_t seed = 1) {
  std::map<std::string, std::vector<double>> values;
  for (const NamedTensor& v : initialize(g, how, seed).values) values[v.name] = v.tensor.to_doubles();
  return values;
}

// Values are drawn when they are asked for: again, in pieces, in any order they are the same.
TEST(InitialValues, AreTheSameInPieces) {
  const Graph g = sample_graph();
  for (const char* how : {"he-normal", "glorot-uniform"})
    for (const NamedTensor& v : initialize(g, how, 1).values) {
      SCOPED_TRACE(v.name);
      EXPECT_FALSE(v.tensor.in_memory());
      const std::vector<double> all = v.tensor.to_doubles();
      v.tensor.release();
      const std::int64_t half = v.tensor.elements() / 2;
      std::vector<float> last(static_cast<std::size_t>(v.tensor.elements() - half)), first(static_cast<std::size_t>(half));
      v.tensor.read(std::as_writable_bytes(std::span(last)), half * 4);
      v.tensor.read(std::as_writable_bytes(std::span(first)), 0);
      first.insert(first.end(), last.begin(), last.end());
      EXPECT_EQ(std::vector<double>(first.begin(), first.end()), all);
    }
}

struct FanRow {
  const char* name;
  double fan_in, fan_out;
};

// A sample variance of n values has a relative deviation of about √(2/n) for normal values, less for uniform ones.
void expect_spread(const std::vector<double>& values, double variance) {
  double sum = 0, squares = 0;
  for (const double v : values) {
    sum += v;
    squares += v * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n / variance, 1, 5 * std::sqrt(2 / n));
}

TEST(Initialize, VarianceFollowsTheFans) {
  const auto he = drawn(sample_graph(), "he-normal"), glorot = drawn(sample_graph(), "glorot-uniform");
  for (const FanRow& row : {FanRow{"conv.w", 4 * 9, 32 / 2 * 9}, FanRow{"gemm.w", 3200, 100}, FanRow{"matmul.w", 100, 300}}) {
    SCOPED_TRACE(row.name);
    expect_spread(he.at(row.name), 2 / row.fan_in);
    expect_spread(glorot.at(row.name), 2 / (row.fan_in + row.fan_out));
    for (const double v : glorot.at(row.name)) ASSERT_LE(std::abs(v), std::sqrt(6 / (row.fan_in + row.fan_out)) * (1 + 1e-6));
  }
}

TEST(Initialize, BiasesScalesAndStatisticsAreConstants) {
  const auto values = drawn(sample_graph(), "he-normal");
  const std::pair<const char*, double> rows[] = {{"conv.b", 0}, {"bn.scale", 1}, {"bn.bias", 0}, {"bn.mean", 0},
                                                 {"bn.var", 1}, {"slope", 0.25}, {"gemm.b", 0},  {"add.b", 0}};
  for (const auto& [name, value] : rows)
    for (const double v : values.at(name)) EXPECT_EQ(v, value) << name;
}

// As a tensor shifted around again and again: 2^40 ways lead to the product.
TEST(Initialize, ManyWaysOfViewsAreGoneOnce) {
  Graph g;
  const DType f = DType::float32;
  const ValueId x = g.add_input("x", {f, {2, 8}});
  const auto node = [&](std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const std::string name = concat(op, g.nodes.size());
    return g[g.add_node(*find_operator(op), name, std::move(attributes), std::move(inputs), 1)].outputs[0];
  };
  ValueId w = g.add_parameter("w", {f, {8, 4}}, std::nullopt, true);
  for (int i = 0; i < 40; ++i) {
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return node("Slice", {w}, {{"starts", Ints{from}}, {"ends", Ints{to}}, {"axes", Ints{0}}});
    };
    const ValueId back = part(3, 8), front = part(0, 3);
    w = node("Concat", {back, front}, {{"axis", std::int64_t{0}}});
  }
  g.outputs = {node("MatMul", {x, w})};
  expect_spread(drawn(g, "he-normal").at("w"), 2.0 / 8);
}

// Which operand a parameter is decides, whatever it is called and whatever else reads it.
struct RoleRow {
  const char* name;
  std::vector<int> inputs;  // of BatchNormalization that the parameter is
  const char* view;         // the operator through which it gets there; none: directly
  const char* other;        // an operator that reads it first; none: nothing does
  double value;
};
constexpr const char* none = "";

TEST(Initialize, ARoleInBatchNormalizationDecides) {
  const RoleRow roles[] = {
      {"scale", {1}, none, none, 1},
      {"bias", {2}, none, none, 0},
      {"mean", {3}, none, none, 0},
      {"variance", {4}, none, none, 1},
      {"variance behind a view", {4}, "Identity", none, 1},
      {"mean behind a view", {3}, "Identity", none, 0},
      {"variance also added", {4}, none, "Add", 1},
      {"mean also multiplied", {3}, none, "Mul", 0},
      {"scale and variance", {1, 4}, none, none, 1},
      {"bias and mean", {2, 3}, none, none, 0},
      {"bias and variance", {2, 4}, none, none, 1},
      {"all four", {1, 2, 3, 4}, none, none, 1},
  };
  const char* names[] = {"weight", "running_mean", "bias", "p17"};  // none says what the parameter is
  const DType f = DType::float32;
  for (const RoleRow& row : roles)
    for (const char* name : names)
      for (const char* how : {"he-normal", "glorot-uniform"}) {
        SCOPED_TRACE(concat(row.name, ", called ", name, ", ", how));
        Graph g;
        const ValueId x = g.add_input("x", {f, {2, 6, 4, 4}});
        const ValueId p = g.add_parameter(name, {f, {6}}, std::nullopt, false);
        const auto node = [&](std::string_view op, std::vector<ValueId> inputs) {
          return g[g.add_node(*find_operator(op), std::string(op), {}, std::move(inputs), 1)].outputs[0];
        };
        if (std::string_view(row.other) != none) g.outputs.push_back(node(row.other, {p, g.add_input("y", {f, {6}})}));
        const ValueId seen = std::string_view(row.view) == none ? p : node(row.view, {p});
        std::vector<ValueId> inputs{x};
        for (int i = 1; i <= 4; ++i) inputs.push_back(g.add_parameter(concat("other", i), {f, {6}}, std::nullopt, i < 3));
        for (const int i : row.inputs) inputs[static_cast<std::size_t>(i)] = seen;
        g.outputs.push_back(node("BatchNormalization", inputs));
        EXPECT_EQ(drawn(g, how).at(name), std::vector<double>(6, row.value));
      }
}

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, written out under names that say nothing.
TEST(Initialize, ANormalizationWrittenOutStartsAsTheOperatorDoes) {
  Graph g;
  const DType f = DType::float32;
  const auto node = [&](std::string_view op, std::vector<ValueId> inputs) {
    return g[g.add_node(*find_operator(op), concat(op, g.nodes.size()), {}, std::move(inputs), 1)].outputs[0];
  };
  const auto parameter = [&](const char* name) { return g.add_parameter(name, {f, {6, 1, 1}}, std::nullopt, true); };
  const ValueId x = g.add_input("x", {f, {2, 6, 4, 4}}), epsilon = g.add_constant("e", Tensor::scalar(1e-5F));
  const ValueId root = node("Sqrt", {node("Add", {epsilon, parameter("variance")})});
  const ValueId y = node("Div", {node("Sub", {x, parameter("mean")}), root});
  g.outputs = {node("Add", {node("Mul", {y, parameter("scale")}), parameter("bias")})};
  auto values = drawn(g, "he-normal");
  for (const auto& [name, value] : {std::pair("variance", 1.0), {"mean", 0.0}, {"scale", 1.0}, {"bias", 0.0}})
    EXPECT_EQ(values.at(name), std::vector<double>(6, value)) << name;
}

TEST(Initialize, DependsOnSeedAndName) {
  const Graph g = sample_graph();
  EXPECT_EQ(drawn(g, "he-normal", 1), drawn(g, "he-normal", 1));
  EXPECT_NE(drawn(g, "he-normal", 1).at("gemm.w"), drawn(g, "he-normal", 2).at("gemm.w"));
}

TEST(Initialize, KeepsWhatTheTemplateHasAndSaysWhatItLacks) {
  Graph g = sample_graph();
  std::vector<float> given(100, 7);
  for (Value& v : g.values)
    if (v.name == "gemm.b") v.data = Tensor::of<float>({100}, given);
  const Initial initial = initialize(g, "keep", 1);
  EXPECT_EQ(initial.missing.size(), initial.values.size() - 1);
  const auto kept = drawn(g, "keep"), he = drawn(g, "he-normal");
  EXPECT_EQ(kept.at("gemm.b")[3], 7);
  EXPECT_EQ(he.at("gemm.b")[3], 0);
  EXPECT_EQ(kept.at("conv.w"), he.at("conv.w"));
  expect_error(ExitCode::usage, "did you mean 'he-normal'?", [&] { initialize(g, "he-norml", 1); });
}

struct AutoRow {
  const char* name;
  const char* activation;
  std::optional<float> first, second;  // of the two weights: absent, all alike, or where it is 9 different values
  const char* chosen;
};

TEST(Initialize, AutoDrawsOnlyForATemplateWithoutWeights) {
  const AutoRow rows[] = {{"absent", "Relu", {}, {}, "he-normal"},         {"alike", "Relu", 0.0F, 1.0F, "he-normal"},
                          {"no rectifier", "Tanh", {}, 0.0F, "glorot-uniform"}, {"trained", "Relu", 9.0F, 9.0F, ""},
                          {"one zeroed", "Relu", 9.0F, 0.0F, ""},          {"one absent", "Tanh", 9.0F, {}, ""}};
  for (const AutoRow& row : rows) {
    Graph g;
    const auto weight = [&](const char* name, const std::optional<float>& value) {
      std::optional<Tensor> data;
      if (value) {
        data = Tensor(TensorType{DType::float32, {4, 4}});
        float next = 0;
        for (float& v : data->write<float>()) v = *value == 9.0F ? ++next : *value;
      }
      return g.add_parameter(name, {DType::float32, {4, 4}}, std::move(data), true);
    };
    const auto node = [&](std::string_view op, const char* name, std::vector<ValueId> in) {
      return g[g.add_node(*find_operator(op), name, {}, std::move(in), 1)].outputs[0];
    };
    ValueId x = g.add_input("x", {DType::float32, {2, 4}});
    x = node(row.activation, "a", {node("MatMul", "m", {x, weight("w", row.first)})});
    g.outputs = {node("MatMul", "y", {x, weight("v", row.second)})};
    EXPECT_EQ(initialize(g, "auto", 1).chosen, row.chosen) << row.name;
  }
}

}  // namespace
}  // namespace tandem
