// Graphs as text, and read back.
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/operator.h"
#include "graph/parse.h"

namespace tandem {
namespace {

TEST(GraphText, ReadsBackWhatItSays) {
  const std::string text =
      "graph \"two words\"\n"
      "group all on [0,1] samples[3,1]\n"
      "part of w as optimizer state [8,4] axis 0 from 4 size 2 axis 1 from 0 size 1 outside 2\n"
      "given %2 x float32[4,3] on all[split(0)] as label of y samples(0,1)\n"
      "given %0 \"a, \\x22b\\x22\" int64[] single\n"
      "trained %3 w float32[3,4] on all[broadcast] in ba template [4,3]\n"
      "kept %4 m float32[3,4] as optimizer state of w\n"
      "known %5 c float16[2] = [0.5,-inf]\n"
      "known %6 large float32[100] = ...\n"
      "known %7 flags bool[2] = [1,0]\n"
      "%9 y float32[4,4] on all[partial], - = MatMul /fc/MatMul(%2 x, %3 w) from a, \"b c\"\n"
      "%10 mask uint8[7] opaque single samples(1,2,mixed) = ai.onnx.ml::Binarizer \"\"(%9 y, -) {f=0.1, fs=[1.0,nan], i=-3, is=[1,2], nof=[floats], none=[], "
      "nos=[strings], s=\"in \\x22quotes\\x22\", ss=[\"a\",\"\"], t=int8[2] [1,-2]}\n"
      "gives %9 y as gradient of w\n"
      "gives %10 mask\n";
  const Graph graph = parse(text);
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph.values.size(), 11U);
  EXPECT_EQ(graph[ValueId{0}].name, "a, \"b\"");
  EXPECT_EQ(graph[ValueId{3}].template_shape, (Shape{4, 3}));
  EXPECT_EQ(graph[ValueId{5}].data->to_doubles(), (std::vector<double>{0.5, -std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(graph.nodes[1].attributes.real("f"), 0.1F);
  EXPECT_TRUE(graph[ValueId{9}].depends_on_batch);
}

TEST(GraphText, WrittenByHandIsCompleted) {
  const Graph graph = parse(
      "# y = 2 x\n"
      "given x float64[2,3]   # two samples\n"
      "\n"
      "y = Mul(x, 2)\n"
      "z = ReduceSum(y) {axes=[1], keepdims=0}\n"
      "gives z");
  EXPECT_EQ(graph[graph.outputs[0]].type, (TensorType{DType::float64, {2}}));
  EXPECT_EQ(graph[graph.nodes[0].inputs[1]].data->values<double>()[0], 2);
  EXPECT_TRUE(graph[graph.outputs[0]].depends_on_batch);
  EXPECT_EQ(print(parse(print(graph))), print(graph));
}

struct Row {
  const char* name;
  const char* text;
  const char* error;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {
    {"no_type", "given x", "graph text, line 1: expected a type, got the end of the line"},
    {"unknown_type", "given x float33[2]", "line 1: expected a type, got 'float33[2]'"},
    {"unknown_operator", "given x float32[2]\ny = Rleu(x)", "line 2: there is no operator 'Rleu'"},
    {"unknown_value", "y = Relu(x)", "line 1: there is no value 'x' before this line"},
    {"unknown_number", "y = Relu(%7 x)", "line 1: there is no value %7 before this line"},
    {"another_name", "given %0 x float32[2]\ny = Relu(%0 z)", "line 2: %0 is called 'x', not 'z'"},
    {"twice", "given %0 x float32[2]\ngiven %0 y float32[2]", "line 2: value %0 is there already"},
    {"large_number", "given %99999999 x float32[2]", "line 1: values have numbers from 0 to"},
    {"no_bracket", "given x float32[2]\ny = Relu(x", "line 2: expected ')', got the end of the line"},
    {"no_rule", "given x float32[2]\ngiven y float32[3]\nz = Add(x, y)", "line 3: "},
    {"own_result", "y float32[2] = Relu(y)", "reads 'y' before it is computed"},
    {"fewer_values", "known c float32[2] = [1.0]", "line 1: float32[2] given 1 values"},
    {"unknown_group", "given x float32[2] on all[broadcast]", "line 1: there is no group 'all'"},
    {"too_many_parts", "group all on [0,1] s[1,1]\ngiven x float32[2] on all[own,own]", "line 2: group 'all' has 1 mesh axes"},
    {"odd_mesh", "group all on [0,1] s[1,1,1]", "line 1: a mesh for 3 devices, the group has 2"},
    {"unknown_spread", "group all on [0] s[1]\ngiven x float32[2] on all[left]", "line 2: expected broadcast, split(AXIS), partial or own, got 'left]'"},
    {"unknown_role", "given x float32[2] as king", "line 1: expected a role, got 'king'"},
    {"open_quote", "given \"x float32[2]", "line 1: expected a closing quote"},
    {"more_behind", "given x float32[2] y", "line 1: expected the end of the line, got 'y'"},
    {"attribute", "given x float32[2]\ny = Relu(x) {a=b}", "line 2: expected an attribute's value, got 'b}'"},
};
class GraphTextErrors : public testing::TestWithParam<Row> {};

TEST_P(GraphTextErrors, SayLineAndWhatWasWanted) {
  try {
    parse(GetParam().text);
    FAIL() << "is accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(GetParam().error), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, GraphTextErrors, testing::ValuesIn(rows), [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
