// Older opsets lifted to today's meaning.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using List = std::vector<std::int64_t>;

struct Row {
  std::string name;
  std::int64_t opset;
  std::string input;                  // dims of x
  std::function<void(Model&)> build;  // to output y
  Names ops;                          // of the graph
  std::string text;                   // attributes of the first node, as to_string gives them; parts split by spaces
  std::string shape;                  // of y
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// clang-format off
const Row rows[] = {
    {"softmax_12_of_a_matrix", 12, "2,5", [](Model& m) { m.add(node("Softmax", {"x"}, {"y"})); }, {"Softmax"}, "axis=1", "[2,5]"},
    {"softmax_12_coerces", 12, "2,3,4", [](Model& m) { m.add(node("Softmax", {"x"}, {"y"})); }, {"Reshape", "Softmax", "Reshape"}, "shape=[2,12]", "[2,3,4]"},
    {"softmax_12_axis_0", 12, "2,3", [](Model& m) { m.add(node("Softmax", {"x"}, {"y"}, {{"axis", std::int64_t{0}}})); }, {"Reshape", "Softmax", "Reshape"}, "shape=[1,6]", "[2,3]"},
    {"softmax_12_over_ones", 12, "2,5,1,1", [](Model& m) { m.add(node("Softmax", {"x"}, {"y"})); }, {"Softmax"}, "axis=1", "[2,5,1,1]"},
    {"softmax_12_negative_axis", 12, "2,3,4", [](Model& m) { m.add(node("LogSoftmax", {"x"}, {"y"}, {{"axis", std::int64_t{-1}}})); }, {"LogSoftmax"}, "axis=2", "[2,3,4]"},
    {"softmax_13", 13, "2,3,4", [](Model& m) { m.add(node("Softmax", {"x"}, {"y"})); }, {"Softmax"}, "axis=-1|axis=2", "[2,3,4]"},
    {"clip_7", 7, "2,3", [](Model& m) { m.add(node("Clip", {"x"}, {"y"}, {{"min", 0.0F}, {"max", 6.0F}})); }, {"Clip"}, "max=6 min=0", "[2,3]"},
    {"clip_13", 13, "2,3", [](Model& m) { m.add(float_tensor("lo", {}, {0})).add(float_tensor("hi", {}, {6})).add(node("Clip", {"x", "lo", "hi"}, {"y"})); }, {"Clip"}, "max=6 min=0", "[2,3]"},
    {"clip_13_no_minimum", 13, "2,3", [](Model& m) { m.add(float_tensor("hi", {}, {6})).add(node("Clip", {"x", "", "hi"}, {"y"})); }, {"Clip"}, "max=6", "[2,3]"},
    {"slice_9", 9, "2,8", [](Model& m) { m.add(node("Slice", {"x"}, {"y"}, {{"axes", List{1}}, {"starts", List{2}}, {"ends", List{-1}}})); }, {"Slice"}, "", "[2,5]"},
    {"slice_13", 13, "2,8", [](Model& m) { m.add(int_tensor("s", {1}, {2})).add(int_tensor("e", {1}, {-1})).add(int_tensor("a", {1}, {1})).add(node("Slice", {"x", "s", "e", "a"}, {"y"})); }, {"Slice"}, "", "[2,5]"},
    {"pad_2", 9, "2,3", [](Model& m) { m.add(node("Pad", {"x"}, {"y"}, {{"pads", List{0, 1, 0, 2}}, {"value", 1.5F}})); }, {"Pad"}, "pads=[0,1,0,2] value=1.5", "[2,6]"},
    {"pad_18_axes", 18, "2,3", [](Model& m) { m.add(int_tensor("p", {2}, {1, 2})).add(float_tensor("v", {}, {1.5F})).add(int_tensor("a", {1}, {1})).add(node("Pad", {"x", "p", "v", "a"}, {"y"})); }, {"Pad"}, "pads=[0,1,0,2] value=1.5", "[2,6]"},
    {"squeeze_11", 11, "2,1,3", [](Model& m) { m.add(node("Squeeze", {"x"}, {"y"}, {{"axes", List{1}}})); }, {"Squeeze"}, "", "[2,3]"},
    {"unsqueeze_13", 13, "2,3", [](Model& m) { m.add(int_tensor("a", {1}, {1})).add(node("Unsqueeze", {"x", "a"}, {"y"})); }, {"Unsqueeze"}, "", "[2,1,3]"},
    {"unsqueeze_13_scalar_axis", 13, "2,3", [](Model& m) { m.add(int_tensor("a", {}, {1})).add(node("Unsqueeze", {"x", "a"}, {"y"})); }, {"Unsqueeze"}, "", "[2,1,3]"},
    {"reduce_mean_11", 11, "2,3,4", [](Model& m) { m.add(node("ReduceMean", {"x"}, {"y"}, {{"axes", List{-1}}, {"keepdims", std::int64_t{0}}})); }, {"ReduceMean"}, "axes=[2] keepdims=0", "[2,3]"},
    {"reduce_mean_18", 18, "2,3,4", [](Model& m) { m.add(int_tensor("a", {1}, {-1})).add(node("ReduceMean", {"x", "a"}, {"y"}, {{"keepdims", std::int64_t{0}}})); }, {"ReduceMean"}, "axes=[2] keepdims=0", "[2,3]"},
    {"split_11", 11, "2,6", [](Model& m) { m.add(node("Split", {"x"}, {"y", "z"}, {{"axis", std::int64_t{1}}, {"split", List{2, 4}}})); }, {"Split"}, "", "[2,2]"},
    {"split_13", 13, "2,6", [](Model& m) { m.add(int_tensor("s", {2}, {2, 4})).add(node("Split", {"x", "s"}, {"y", "z"}, {{"axis", std::int64_t{1}}})); }, {"Split"}, "", "[2,2]"},
    {"dropout_10", 10, "2,6", [](Model& m) { m.add(node("Dropout", {"x"}, {"y", "mask"}, {{"ratio", 0.25F}})); }, {"Dropout"}, "ratio=0.25", "[2,6]"},
    {"dropout_13", 13, "2,6", [](Model& m) { m.add(float_tensor("r", {}, {0.25F})).add(node("Dropout", {"x", "r"}, {"y"})); }, {"Dropout"}, "ratio=0.25", "[2,6]"},
    {"conv_same_upper", 9, "2,3,7,7", [](Model& m) { m.add(filled_tensor("w", {4, 3, 2, 2})).add(node("Conv", {"x", "w"}, {"y"}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", List{2, 2}}})); }, {"Conv"}, "kernel_shape=[2,2] pads=[0,0,1,1] strides=[2,2]", "[2,4,4,4]"},
    {"conv_with_zeros_of_channels_and_two", 18, "2,3,7,7,7", [](Model& m) { m.add(filled_tensor("w", {4, 3, 2, 2, 2})).add(node("Constant", {}, {"zero"}, {{"value_float", 0.0F}})).add(int_tensor("s", {2}, {4, 2})).add(node("Expand", {"zero", "s"}, {"b"})).add(node("Conv", {"x", "w", "b"}, {"y"})); }, {"Conv"}, "", "[2,4,6,6,6]"},
    {"conv_same_lower", 9, "2,3,7,7", [](Model& m) { m.add(filled_tensor("w", {4, 3, 2, 2})).add(node("Conv", {"x", "w"}, {"y"}, {{"auto_pad", std::string("SAME_LOWER")}, {"strides", List{2, 2}}})); }, {"Conv"}, "pads=[1,1,0,0]", "[2,4,4,4]"},
    {"batch_norm_7", 7, "2,3,4", [](Model& m) { for (const char* n : {"s", "b", "m", "v"}) m.add(filled_tensor(n, {3})); m.add(node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "m2", "v2", "sm", "sv"}, {{"spatial", std::int64_t{1}}})); }, {"BatchNormalization"}, "", "[2,3,4]"},
    {"batch_norm_training_unread", 14, "2,3,4", [](Model& m) { for (const char* n : {"s", "b", "m", "v"}) m.add(filled_tensor(n, {3})); m.add(node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "m2", "v2"}, {{"training_mode", std::int64_t{1}}})); }, {"BatchNormalization"}, "", "[2,3,4]"},
    {"cast_like", 15, "2,3", [](Model& m) { m.add(int_tensor("i", {1}, {4})).add(node("CastLike", {"x", "i"}, {"y"})); }, {"Cast"}, "to=7", "[2,3]"},
    {"image_scaler", 7, "2,3,4,4", [](Model& m) { m.add(node("ImageScaler", {"x"}, {"y"}, {{"scale", 2.0F}, {"bias", std::vector<float>{1, 2, 3}}})); }, {"Mul", "Add"}, "", "[2,3,4,4]"},
    {"image_scaler_of_nothing", 7, "2,3,4,4", [](Model& m) { m.add(node("ImageScaler", {"x"}, {"s"}, {{"bias", std::vector<float>{0, 0, 0}}})).add(node("Relu", {"s"}, {"y"})); }, {"Relu"}, "", "[2,3,4,4]"},
    {"crop", 7, "2,3,8,8", [](Model& m) { m.add(node("Crop", {"x"}, {"y"}, {{"border", List{1, 2, 1, 2}}})); }, {"Slice"}, "", "[2,3,4,6]"},
    {"affine", 7, "2,3", [](Model& m) { m.add(node("Affine", {"x"}, {"y"}, {{"alpha", 2.0F}, {"beta", 1.0F}})); }, {"Mul", "Add"}, "", "[2,3]"},
};
// clang-format on

class Opset : public testing::TestWithParam<Row> {};

// Each word of a wish stands in the text; "a=1|a=2": either.
void expect_words(const std::string& wish, const std::string& text) {
  std::istringstream words(wish);
  for (std::string word; words >> word;) {
    bool found = false;
    std::istringstream choices(word);
    for (std::string choice; std::getline(choices, choice, '|');)
      found = found || (" " + text + " ").find(" " + choice + " ") != std::string::npos;
    EXPECT_TRUE(found) << word << " in " << text;
  }
}

TEST_P(Opset, IsLifted) {
  Model m(GetParam().opset);
  m.input("x", GetParam().input).output("y");
  GetParam().build(m);
  const Graph graph = m.graph();
  EXPECT_EQ(ops_of(graph), GetParam().ops);
  expect_words(GetParam().text, to_string(graph.nodes.at(0).attributes));
  EXPECT_EQ(to_string(shape_of(graph, "y")), GetParam().shape);
  EXPECT_EQ(graph.nodes[0].inputs.size(),
            static_cast<std::size_t>(graph.nodes[0].op->name == "BatchNormalization"                         ? 5
                                     : graph.nodes[0].op->name == "Conv" || graph.nodes[0].op->name == "Mul" ? 2
                                                                                                             : 1));
}
INSTANTIATE_TEST_SUITE_P(Rows, Opset, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(Opset, SpatialZeroIsReported) {
  Model m(8);
  m.input("x", "2,3,4").output("y");
  for (const char* n : {"s", "b", "m", "v"}) m.add(filled_tensor(n, {3, 4}));
  m.add(node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, {{"spatial", std::int64_t{0}}}));
  EXPECT_NE(m.report().find("spatial=0"), std::string::npos);
}

TEST(Opset, AnOperatorNewerThanTheModelIsReported) {
  Model m(9);
  m.input("x", "2,3").output("y").add(node("HardSwish", {"x"}, {"y"}));
  EXPECT_NE(m.report().find("since opset 14"), std::string::npos) << m.report();
}

TEST(Opset, AStaticOperandFromDataIsReported) {
  Model m(14);
  m.input("x", "2,3").input("k", "", onnx::TensorProto::INT64).output("y").add(node("Trilu", {"x", "k"}, {"y"}));
  EXPECT_NE(m.report().find("'k' (input 1) is computed from data"), std::string::npos) << m.report();
}

// One that may be computed stays an operand: here a bound that is trained.
TEST(Opset, AComputedBoundOfClipStaysAnOperand) {
  Model m(14);
  m.input("x", "2,3").output("y").add(float_tensor("p", {2}, {-1, 2})).add(int_tensor("one", {}, {1}));
  m.add(node("Gather", {"p", "one"}, {"most"})).add(node("Clip", {"x", "", "most"}, {"y"}));
  const Graph graph = ModelFile::parse(m.bytes(), {}, {.trainable = {"p"}}).graph({});
  const auto clip = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op->name == "Clip"; });
  ASSERT_NE(clip, graph.nodes.end()) << m.report();
  ASSERT_EQ(clip->inputs.size(), 3U);
  EXPECT_FALSE(clip->inputs[1].present());
  EXPECT_TRUE(clip->inputs[2].present());
}

}  // namespace
}  // namespace tandem::test
