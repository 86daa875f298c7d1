// What is a weight, what a running statistic, what a constant.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

enum class Kind { trained, kept, constant };

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from input x [N,3,8,8] to output y; the value judged is "w"
  Kind kind;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

onnx::NodeProto constant(const onnx::TensorProto& tensor, const std::string& output) {
  return node("Constant", {}, {output}, {{"value", tensor}});
}

// clang-format off
const Row rows[] = {
    {"conv_weight", [](Model& m) { m.add(filled_tensor("w", {4, 3, 3, 3})).add(node("Conv", {"x", "w"}, {"y"})); }, Kind::trained},
    {"conv_bias_of_one", [](Model& m) { m.add(filled_tensor("f", {1, 3, 3, 3})).add(filled_tensor("w", {1})).add(node("Conv", {"x", "f", "w"}, {"y"})); }, Kind::trained},
    {"bias_added", [](Model& m) { m.add(filled_tensor("w", {3, 1, 1})).add(node("Add", {"x", "w"}, {"y"})); }, Kind::trained},
    {"scale_multiplied", [](Model& m) { m.add(filled_tensor("w", {3, 1, 1})).add(node("Mul", {"w", "x"}, {"y"})); }, Kind::trained},
    {"number_added", [](Model& m) { m.add(filled_tensor("w", {1})).add(node("Add", {"x", "w"}, {"y"})); }, Kind::trained},
    {"scalar_added", [](Model& m) { m.add(filled_tensor("w", {})).add(node("Add", {"x", "w"}, {"y"})); }, Kind::trained},
    {"divisor", [](Model& m) { m.add(filled_tensor("w", {3, 1, 1})).add(node("Div", {"x", "w"}, {"y"})); }, Kind::trained},
    {"clip_bound", [](Model& m) { m.add(filled_tensor("w", {})).add(node("Clip", {"x", "w"}, {"y"})); }, Kind::constant},
    {"prelu_slope", [](Model& m) { m.add(filled_tensor("w", {1})).add(node("PRelu", {"x", "w"}, {"y"})); }, Kind::trained},
    {"running_mean", [](Model& m) { for (const char* n : {"s", "b", "v"}) m.add(filled_tensor(n, {3})); m.add(filled_tensor("w", {3})).add(node("BatchNormalization", {"x", "s", "b", "w", "v"}, {"y"})); }, Kind::kept},
    {"batch_norm_scale", [](Model& m) { for (const char* n : {"m", "b", "v"}) m.add(filled_tensor(n, {3})); m.add(filled_tensor("w", {3})).add(node("BatchNormalization", {"x", "w", "b", "m", "v"}, {"y"})); }, Kind::trained},
    {"through_a_transpose", [](Model& m) { m.add(filled_tensor("w", {4, 192})).add(node("Transpose", {"w"}, {"t"})).add(node("Flatten", {"x"}, {"f"})).add(node("MatMul", {"f", "t"}, {"y"})); }, Kind::trained},
    {"through_an_unsqueeze", [](Model& m) { m.add(filled_tensor("w", {3})).add(int_tensor("a", {2}, {1, 2})).add(node("Unsqueeze", {"w", "a"}, {"u"})).add(node("Mul", {"x", "u"}, {"y"})); }, Kind::trained},
    {"through_a_branch", [](Model& m) { m.add(filled_tensor("w", {3, 1, 1})).add(node("Constant", {}, {"c"}, {{"value_int", std::int64_t{1}}})).add(node("If", {"c"}, {"u"}, {{"then_branch", branch({node("Identity", {"w"}, {"t"})}, {"t"})}, {"else_branch", branch({node("Relu", {"w"}, {"e"})}, {"e"})}})).add(node("Mul", {"x", "u"}, {"y"})); }, Kind::trained},
    {"constant_node", [](Model& m) { m.add(constant(filled_tensor("", {4, 3, 3, 3}), "w")).add(node("Conv", {"x", "w"}, {"y"})); }, Kind::trained},
    {"constant_number", [](Model& m) { m.add(node("Constant", {}, {"w"}, {{"value_float", 2.0F}})).add(node("Mul", {"x", "w"}, {"y"})); }, Kind::constant},
    {"constant_of_shape", [](Model& m) { m.add(int_tensor("s", {4}, {4, 3, 3, 3})).add(node("ConstantOfShape", {"s"}, {"w"}, {{"value", float_tensor("", {1}, {0.5F})}})).add(node("Conv", {"x", "w"}, {"y"})); }, Kind::trained},
    {"class_weights", [](Model& m) { m.input("t", "N,8,8", onnx::TensorProto::INT64).add(filled_tensor("w", {3})).add(node("SoftmaxCrossEntropyLoss", {"x", "t", "w"}, {"y"})); }, Kind::constant},
    {"class_weights_scaled", [](Model& m) { m.input("t", "N,8,8", onnx::TensorProto::INT64).add(filled_tensor("w", {3})).add(float_tensor("k", {}, {2})).add(node("Mul", {"w", "k"}, {"v"})).add(node("NegativeLogLikelihoodLoss", {"x", "t", "v"}, {"y"})); }, Kind::constant},
    {"class_weights_and_scale", [](Model& m) { m.input("t", "N,8,8", onnx::TensorProto::INT64).add(filled_tensor("w", {3})).add(node("InstanceNormalization", {"x", "w", "w"}, {"n"})).add(node("SoftmaxCrossEntropyLoss", {"n", "t", "w"}, {"y"})); }, Kind::constant},
    {"weight_in_a_function", [](Model& m) { m.add(function("F", {"a"}, {"b"}, {constant(filled_tensor("", {4, 3, 3, 3}), "w"), node("Conv", {"a", "w"}, {"b"})})).add(node("F", {"x"}, {"y"}, {}, function_domain)); }, Kind::trained},
    {"dims_only", [](Model& m) { m.add(dims_only("w", {4, 3, 3, 3})).add(node("Conv", {"x", "w"}, {"y"})); }, Kind::trained},
    {"dims_only_divisor", [](Model& m) { m.add(dims_only("w", {3, 1, 1})).add(node("Div", {"x", "w"}, {"y"})); }, Kind::trained},
    {"listed_as_input", [](Model& m) { m.input("w", "4,3,3,3").add(filled_tensor("w", {4, 3, 3, 3})).add(node("Conv", {"x", "w"}, {"y"})); }, Kind::trained},
};
// clang-format on

class Weight : public testing::TestWithParam<Row> {};

TEST_P(Weight, IsJudgedByItsUse) {
  Model m;
  m.input("x", "N,3,8,8").output("y");
  GetParam().build(m);
  const Graph graph = m.graph(2);
  EXPECT_EQ(graph.inputs.size(), m.proto.graph().input_size() - (GetParam().name == "listed_as_input" ? 1U : 0U));
  const bool of_classes = GetParam().name.starts_with("class_weights");
  EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                        [](const std::string& s) { return s.starts_with("'w' weighs the classes of a loss"); }),
            of_classes);
  const Value* w = nullptr;
  for (const Value& v : graph.values)
    if (v.name == "w" || v.name.ends_with("/w")) w = &v;
  if (GetParam().kind == Kind::constant) {
    EXPECT_TRUE(!w || w->kind == ValueKind::constant);
  } else {
    ASSERT_TRUE(w);
    EXPECT_EQ(w->kind, ValueKind::parameter);
    EXPECT_EQ(w->trainable, GetParam().kind == Kind::trained);
    EXPECT_EQ(w->data.has_value(), !GetParam().name.starts_with("dims_only"));
    EXPECT_EQ(w->template_shape, w->type.shape);
    if (w->data) {
      EXPECT_EQ(w->data->to_doubles()[0], 0.5);
    }
  }
  const Graph frozen = m.parse().graph({.batch = 2, .training = false});
  for (const Value& v : frozen.values) EXPECT_FALSE(v.trainable) << v.name;
  EXPECT_TRUE(frozen.warnings.empty());
}
INSTANTIATE_TEST_SUITE_P(Rows, Weight, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(Weight, EveryFormOfDataGivesTheSameValues) {
  const std::vector<float> values{1, -2, 3.5F, 0};
  onnx::TensorProto raw = float_tensor("w", {2, 2}, values), typed = dims_only("w", {2, 2});
  for (const float v : values) typed.add_float_data(v);
  for (const auto& tensor : {raw, typed}) {
    Model m;
    m.input("x", "N,2").output("y").add(tensor).add(node("MatMul", {"x", "w"}, {"y"}));
    const Graph graph = m.graph();
    EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), (std::vector<double>{1, -2, 3.5, 0}));
  }
}

TEST(Weight, ADoubleGraphIsDoubleThroughout) {
  Model m;
  m.input("x", "N,2").output("y").add(filled_tensor("w", {2, 2})).add(node("MatMul", {"x", "w"}, {"h"}));
  m.add(node("Constant", {}, {"c"}, {{"value_float", 0.5F}}))
      .add(node("Mul", {"h", "c"}, {"k"}))
      .add(node("Cast", {"k"}, {"y"}, {{"to", std::int64_t{1}}}));
  const Graph graph = m.parse().graph({.batch = 1, .float_type = DType::float64});
  for (const Value& v : graph.values) EXPECT_EQ(v.type.dtype, DType::float64) << v.name;
}

TEST(Weight, InputsMayBeBoundToConstants) {
  Model m;
  m.input("x", "N,6").input("shape", "2", onnx::TensorProto::INT64).output("y").add(node("Reshape", {"x", "shape"}, {"y"}));
  const ModelFile model = m.parse();
  EXPECT_THROW(model.graph({.batch = 4}), Error);
  const Graph graph = model.graph({.batch = 4, .constants = {{"shape", Tensor::of<std::int64_t>(Shape{2}, {8, 3})}}});
  EXPECT_EQ(shape_of(graph, "y"), (Shape{8, 3}));
  EXPECT_EQ(graph.inputs.size(), 1U);
  EXPECT_NE(m.report({.batch = 4, .constants = {{"shap", Tensor::scalar(std::int64_t{1})}}}).find("no input 'shap'"), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
