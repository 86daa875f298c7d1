// Another number of classes: which node is the head, what it becomes, and where that is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from x [N,3,8,8], through f [N,192] or c [N,4,8,8], to y of 7 classes
  std::vector<std::string> made;      // names with their types, as 5 classes have them
  std::string shape;                  // of y
  std::string asked = "";
  std::string refused = "";  // a part of the message
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

WeightOptions five_classes(const std::string& node = "") {
  WeightOptions options;
  options.head = 5;
  options.replace_head = node;
  return options;
}

Model& flat(Model& m) { return m.add(filled_tensor("b", {7})).add(node("Flatten", {"x"}, {"f"})); }

// clang-format off
const Row rows[] = {
    {"gemm", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]"},
    {"gemm_turned", [](Model& m) { flat(m).add(filled_tensor("w", {7, 192})).add(node("Gemm", {"f", "w", "b"}, {"y"}, {{"transB", std::int64_t{1}}})); }, {"w [5,192]", "b [5]"}, "[2,5]"},
    {"gemm_alone", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w"}, {"y"})); }, {"w [192,5]"}, "[2,5]"},
    {"product_sum_softmax", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("MatMul", {"f", "w"}, {"p"})).add(node("Add", {"b", "p"}, {"s"})).add(node("Softmax", {"s"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]"},
    {"weight_turned_by_a_node", [](Model& m) { flat(m).add(filled_tensor("w", {7, 192})).add(node("Transpose", {"w"}, {"t"})).add(node("MatMul", {"f", "t"}, {"y"})); }, {"w [5,192]"}, "[2,5]"},
    {"convolution_pooled", [](Model& m) { m.add(filled_tensor("w", {7, 3, 1, 1})).add(filled_tensor("b", {7})).add(node("Conv", {"x", "w", "b"}, {"c"})).add(node("Relu", {"c"}, {"r"})).add(node("GlobalAveragePool", {"r"}, {"g"})).add(node("Flatten", {"g"}, {"y"})); }, {"w [5,3,1,1]", "b [5]"}, "[2,5]"},
    {"bias_of_others_too", [](Model& m) { flat(m).add(filled_tensor("v", {192, 7})).add(filled_tensor("w", {7, 7})).add(node("Gemm", {"f", "v", "b"}, {"h"})).add(node("Gemm", {"h", "w", "b"}, {"y"})); }, {"w [7,5]", "b@head [5]"}, "[2,5]"},
    {"named", [](Model& m) { flat(m).output("z").add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {192, 7})).add(node("Gemm", {"f", "v"}, {"z"})).add(node("Gemm", {"f", "w", "b"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]", "y"},
    {"two_of_them", [](Model& m) { flat(m).output("z").add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {192, 7})).add(node("Gemm", {"f", "v"}, {"z"})).add(node("Gemm", {"f", "w", "b"}, {"y"})); }, {}, "", "", "2 nodes make outputs: option replace_head names which of Gemm 'node_z' (of 'v'), Gemm 'node_y' (of 'w')"},
    {"two_that_are_joined", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {192, 7})).add(node("Gemm", {"f", "v"}, {"z"})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Add", {"g", "z"}, {"y"})); }, {}, "", "", "'z' is computed from the model's input too, beside this head: Gemm 'node_g' -> Add 'node_y'"},
    {"scaled_by_a_weight", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(filled_tensor("k", {1})).add(node("Exp", {"k"}, {"e"})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Mul", {"g", "e"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]"},
    {"unknown_name", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"y"})); }, {}, "", "why", "no Gemm, MatMul or Conv of that name"},
    {"none", [](Model& m) { m.add(node("Erf", {"x"}, {"e"})).add(node("Softmax", {"e"}, {"y"})); }, {}, "", "", "y <- Softmax 'node_y' <- Erf 'node_e'"},
    {"shared", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {7, 192})).add(node("Gemm", {"f", "w"}, {"h"})).add(node("Gemm", {"h", "v"}, {"k"})).add(node("Gemm", {"k", "w"}, {"y"})); }, {}, "", "", "shares its weight 'w' with Gemm 'node_h'"},
    {"reshape_gets_it", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(int_tensor("s", {2}, {-1, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Reshape", {"g", "s"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]"},
    {"reshape_of_a_shape_of_others", [](Model& m) { flat(m).output("z").add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {192, 14})).add(int_tensor("s", {2}, {-1, 7})).add(node("Gemm", {"f", "v"}, {"u"})).add(node("Reshape", {"u", "s"}, {"z"})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Reshape", {"g", "s"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]", "y"},
    {"reshape_holds_it_twice", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(int_tensor("s", {3}, {-1, 7, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Reshape", {"g", "s"}, {"y"})); }, {}, "", "", "'s' holds the old number of classes, 7: Gemm 'node_g' -> Reshape 'node_y'"},
    {"weights_are_constant_nodes", [](Model& m) { m.add(node("Flatten", {"x"}, {"f"})).add(node("Constant", {}, {"v"}, {{"value", filled_tensor("", {192, 9})}})).add(node("Constant", {}, {"w"}, {{"value", filled_tensor("", {9, 7})}})).add(node("Constant", {}, {"b"}, {{"value", filled_tensor("", {7})}})).add(node("MatMul", {"f", "v"}, {"h"})).add(node("Gemm", {"h", "w", "b"}, {"y"})); }, {"w [9,5]", "b [5]"}, "[2,5]"},
    {"weights_are_filled", [](Model& m) { m.add(node("Flatten", {"x"}, {"f"})).add(int_tensor("s", {2}, {7, 192})).add(int_tensor("c", {1}, {7})).add(node("ConstantOfShape", {"s"}, {"w"})).add(node("ConstantOfShape", {"c"}, {"b"})).add(node("Gemm", {"f", "w", "b"}, {"y"}, {{"transB", std::int64_t{1}}})); }, {"w [5,192]", "b [5]"}, "[2,5]"},
    {"within_a_function", [](Model& m) { m.add(function("Linear", {"i", "weight", "bias"}, {"o"}, {node("Transpose", {"weight"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0}}}), node("Gemm", {"i", "t", "bias"}, {"o"})})).add(filled_tensor("w", {7, 192})); flat(m).add(node("Linear", {"f", "w", "b"}, {"y"}, {}, function_domain)); }, {"w [5,192]", "b [5]"}, "[2,5]"},
    {"weight_within_a_function", [](Model& m) { m.add(function("Linear", {"i"}, {"o"}, {node("Constant", {}, {"w"}, {{"value", filled_tensor("", {192, 7})}}), node("MatMul", {"i", "w"}, {"o"})})).add(function("Top", {"i"}, {"o"}, {node("Linear", {"i"}, {"l"}, {}, function_domain), node("Softmax", {"l"}, {"o"})})); flat(m).add(node("Top", {"f"}, {"y"}, {}, function_domain)); }, {"node_y/node_l/w [192,5]"}, "[2,5]"},
    {"function_behind", [](Model& m) { m.add(function("Half", {"i"}, {"o"}, {node("Constant", {}, {"h"}, {{"value_float", 0.5F}}), node("Mul", {"i", "h"}, {"o"})})); flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Half", {"g"}, {"y"}, {}, function_domain)); }, {"w [192,5]", "b [5]"}, "[2,5]"},
    {"convolution_and_sum", [](Model& m) { m.add(filled_tensor("w", {7, 3, 1, 1})).add(filled_tensor("b", {7, 1, 1})).add(node("Conv", {"x", "w"}, {"c"})).add(node("Add", {"c", "b"}, {"s"})).add(node("GlobalAveragePool", {"s"}, {"g"})).add(int_tensor("a", {2}, {2, 3})).add(node("Squeeze", {"g", "a"}, {"y"})); }, {"w [5,3,1,1]", "b [5,1,1]"}, "[2,5]"},
    {"by_module", [](Model& m) { flat(m).output("z").add(filled_tensor("fc.weight", {192, 7})).add(filled_tensor("v", {192, 7})).add(node("Gemm", {"f", "v"}, {"z"})).add(node("Gemm", {"f", "fc.weight", "b"}, {"y"})); }, {"fc.weight [192,5]", "b [5]"}, "[2,5]", "fc"},
    {"by_output", [](Model& m) { flat(m).output("z").add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {192, 7})).add(node("Gemm", {"f", "v"}, {"z"})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Softmax", {"g"}, {"y"})); }, {"w [192,5]", "b [5]"}, "[2,5]", "y"},
    {"slice_of_classes", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(int_tensor("s", {1}, {1})).add(int_tensor("e", {1}, {7})).add(int_tensor("a", {1}, {-1})).add(node("Slice", {"g", "s", "e", "a"}, {"y"})); }, {}, "", "", "Slice 'node_y' takes a part of the 7 classes: Gemm 'node_g' -> Slice 'node_y'"},
    {"slice_of_classes_turned", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Transpose", {"g"}, {"t"})).add(int_tensor("s", {1}, {1})).add(int_tensor("e", {1}, {7})).add(int_tensor("a", {1}, {0})).add(node("Slice", {"t", "s", "e", "a"}, {"y"})); }, {}, "", "", "takes a part of the 7 classes"},
    {"slice_beside_classes", [](Model& m) { m.add(filled_tensor("w", {7, 3, 1, 1})).add(node("Conv", {"x", "w"}, {"c"})).add(int_tensor("s", {1}, {1})).add(int_tensor("e", {1}, {3})).add(int_tensor("a", {1}, {-1})).add(node("Slice", {"c", "s", "e", "a"}, {"l"})).add(node("GlobalMaxPool", {"l"}, {"g"})).add(node("Flatten", {"g"}, {"y"})); }, {"w [5,3,1,1]"}, "[2,5]"},
    {"one_class_picked", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(int_tensor("i", {1}, {3})).add(node("Gather", {"g", "i"}, {"y"}, {{"axis", std::int64_t{1}}})); }, {}, "", "", "Gather 'node_y' takes a part of the 7 classes"},
    {"scale_holds_it", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(filled_tensor("k", {7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("Mul", {"g", "k"}, {"y"})); }, {}, "", "", "'k' holds the old number of classes, 7"},
    {"goes_on", [](Model& m) { flat(m).add(filled_tensor("w", {192, 7})).add(filled_tensor("v", {7, 7})).add(node("Gemm", {"f", "w", "b"}, {"g"})).add(node("MatMul", {"g", "v"}, {"y"})); }, {}, "", "g", "Gemm 'node_g' -> MatMul 'node_y'"},
    {"weight_reshaped", [](Model& m) { flat(m).add(filled_tensor("w", {3, 8, 8, 7})).add(int_tensor("s", {2}, {192, 7})).add(node("Reshape", {"w", "s"}, {"k"})).add(node("MatMul", {"f", "k"}, {"p"})).add(node("Add", {"p", "b"}, {"y"})); }, {"w [3,8,8,5]", "b [5]"}, "[2,5]"},
    {"weight_reshaped_that_counts", [](Model& m) { flat(m).add(filled_tensor("w", {3, 64, 7})).add(int_tensor("s", {2}, {192, -1})).add(node("Reshape", {"w", "s"}, {"k"})).add(node("MatMul", {"f", "k"}, {"y"})); }, {"w [3,64,5]"}, "[2,5]"},
    {"weight_reshaped_and_turned", [](Model& m) { flat(m).add(filled_tensor("w", {7, 3, 64})).add(int_tensor("s", {2}, {7, 192})).add(node("Reshape", {"w", "s"}, {"k"})).add(node("Gemm", {"f", "k", "b"}, {"y"}, {{"transB", std::int64_t{1}}})); }, {"w [5,3,64]", "b [5]"}, "[2,5]"},
    {"weight_reshaped_across_classes", [](Model& m) { flat(m).add(filled_tensor("w", {96, 14})).add(int_tensor("s", {2}, {192, 7})).add(node("Reshape", {"w", "s"}, {"k"})).add(node("MatMul", {"f", "k"}, {"y"})); }, {}, "", "", "through Reshape 'k', which splits or joins the classes: [96,14] becomes [192,7]"},
    {"bias_reshaped", [](Model& m) { m.add(filled_tensor("w", {7, 3, 1, 1})).add(filled_tensor("b", {7})).add(int_tensor("s", {4}, {1, 7, 1, 1})).add(node("Conv", {"x", "w"}, {"c"})).add(node("Reshape", {"b", "s"}, {"r"})).add(node("Add", {"c", "r"}, {"z"})).add(node("GlobalAveragePool", {"z"}, {"g"})).add(node("Flatten", {"g"}, {"y"})); }, {"w [5,3,1,1]", "b [5]"}, "[2,5]"},
    {"bias_unsqueezed", [](Model& m) { m.add(filled_tensor("w", {7, 3, 1, 1})).add(filled_tensor("b", {7})).add(int_tensor("s", {3}, {0, 2, 3})).add(node("Conv", {"x", "w"}, {"c"})).add(node("Unsqueeze", {"b", "s"}, {"r"})).add(node("Add", {"c", "r"}, {"z"})).add(node("GlobalAveragePool", {"z"}, {"g"})).add(node("Flatten", {"g"}, {"y"})); }, {"w [5,3,1,1]", "b [5]"}, "[2,5]"},
    {"computed", [](Model& m) { flat(m).add(filled_tensor("v", {192, 7})).add(node("Neg", {"v"}, {"w"})).add(node("Gemm", {"f", "w", "b"}, {"y"})); }, {}, "", "", "takes its weight from Neg 'node_w'"},
};
// clang-format on

class ReplaceHead : public testing::TestWithParam<Row> {};

TEST_P(ReplaceHead, HasFiveClassesOrSaysWhyNot) {
  const Row& row = GetParam();
  Model m;
  m.input("x", "N,3,8,8").output("y");
  row.build(m);
  const WeightOptions five = five_classes(row.asked);
  if (!row.refused.empty()) {
    try {
      ModelFile::parse(m.bytes(), {}, five);
      FAIL() << "not refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(row.refused), std::string::npos) << e.what();
    }
    return;
  }
  const ModelFile file = ModelFile::parse(m.bytes(), {}, five);
  std::vector<std::string> made;
  const Graph graph = file.graph({.batch = 2});
  for (const std::string& name : file.head()) made.push_back(concat(name, ' ', graph[*graph.find(name)].template_shape));
  EXPECT_EQ(made, row.made);
  EXPECT_EQ(to_string(shape_of(graph, "y")), row.shape);
  for (const Value& v : graph.values) {
    const bool head = std::find(file.head().begin(), file.head().end(), v.name) != file.head().end();
    EXPECT_EQ(v.kind == ValueKind::parameter && !v.data, head) << v.name;
    EXPECT_TRUE(v.trainable || !head) << v.name;
  }
  ASSERT_FALSE(graph.warnings.empty());
  EXPECT_TRUE(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                          [](const std::string& w) { return w.find("now has 5 classes, 7 before") != std::string::npos; }));
}

INSTANTIATE_TEST_SUITE_P(Heads, ReplaceHead, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

TEST(ReplaceHeadExport, IsTheTemplateWithAnotherHead) {
  Model m;
  m.input("x", "N,192").output("y").add(filled_tensor("u", {192, 192})).add(filled_tensor("w", {192, 7})).add(filled_tensor("b", {7}));
  m.add(node("Gemm", {"x", "u"}, {"h"})).add(node("Gemm", {"h", "w", "b"}, {"y"}));
  auto& shape = *m.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  shape.set_elem_type(onnx::TensorProto::FLOAT);
  shape.mutable_shape()->add_dim()->set_dim_param("N");
  shape.mutable_shape()->add_dim()->set_dim_value(7);
  const TemporaryFolder folder;
  const ModelFile file = ModelFile::parse(m.bytes(), {}, five_classes());
  EXPECT_NE(file.fingerprint(), m.parse().fingerprint());
  EXPECT_THROW(file.write(folder / "none.onnx", {}), Error);  // the head has no values yet
  file.write(folder / "y.onnx",
             {{"w", Tensor(TensorType{DType::float32, Shape{192, 5}})}, {"b", Tensor(TensorType{DType::float32, Shape{5}})}});
  onnx::ModelProto out;
  ASSERT_TRUE(out.ParseFromString(read_whole(folder / "y.onnx")));
  EXPECT_EQ(out.graph().output(0).type().tensor_type().shape().dim(1).dim_value(), 5);
  EXPECT_EQ(out.graph().output(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  EXPECT_EQ(out.graph().initializer(0).SerializeAsString(), m.proto.graph().initializer(0).SerializeAsString());
  EXPECT_EQ(out.graph().initializer(1).dims(1), 5);
  EXPECT_EQ(out.graph().node_size(), 2);
}

}  // namespace
}  // namespace tandem::test
