// Batches: symbolic, absent and hard-coded ones, in inputs and in shapes.
#include <gtest/gtest.h>

#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using List = std::vector<std::int64_t>;

struct Row {
  std::string name;
  std::string input;                  // dims of x
  std::function<void(Model&)> build;  // to output y
  std::int64_t batch;
  std::string shape;  // of y at that batch; or the reason why not
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

std::function<void(Model&)> reshape(List target) {
  return [target](Model& m) {
    m.add(int_tensor("t", {static_cast<std::int64_t>(target.size())}, target)).add(node("Reshape", {"x", "t"}, {"y"}));
  };
}

// Rows of all samples' x [N·6,3] that edges i [N,4] name, the sample's offset added: "picked" [N·4]; and "i" as ONNX's tuples.
Model& with_edges(Model& m) {
  return m.input("i", "N,4", onnx::TensorProto::INT64)
      .add(int_tensor("flat", {2}, {-1, 3}))
      .add(int_tensor("line", {1}, {-1}))
      .add(int_tensor("none", {}, {0}))
      .add(int_tensor("one", {}, {1}))
      .add(int_tensor("rows", {}, {6}))
      .add(node("Reshape", {"x", "flat"}, {"all"}))
      .add(node("Shape", {"i"}, {"s"}))
      .add(node("Gather", {"s", "none"}, {"n"}))
      .add(node("Range", {"none", "n", "one"}, {"sample"}))
      .add(node("Mul", {"sample", "rows"}, {"offset"}))
      .add(node("Unsqueeze", {"offset", "line"}, {"column"}))
      .add(node("Add", {"i", "column"}, {"edge"}))
      .add(node("Reshape", {"edge", "line"}, {"picked"}))
      .add(node("Unsqueeze", {"picked", "line"}, {"tuples"}))
      .add(int_tensor("four", {3}, {-1, 4, 3}))
      .add(int_tensor("six", {3}, {-1, 6, 3}));
}

// clang-format off
const Row rows[] = {
    {"symbolic", "N,6", reshape({-1, 3}), 4, "[8,3]"},
    {"absent", "?,6", reshape({0, 2, 3}), 4, "[4,2,3]"},
    {"zero", "0,6", reshape({0, 2, 3}), 4, "[4,2,3]"},
    {"minus_one", "-1,6", reshape({0, 2, 3}), 4, "[4,2,3]"},
    {"hard_coded_input", "1,6", reshape({0, 2, 3}), 4, "[4,2,3]"},
    {"hard_coded_target", "1,6", reshape({1, 2, 3}), 4, "[4,2,3]"},
    {"hard_coded_target_symbolic_input", "N,6", reshape({1, 2, 3}), 4, "[4,2,3]"},
    {"hard_coded_with_a_free_axis", "1,6", reshape({1, -1, 3}), 4, "[4,2,3]"},
    {"free_axis_would_hold_the_batch", "1,4,6", reshape({4, -1}), 5, "[20,6]"},
    {"merged_with_the_batch", "2,5,6", reshape({10, 6}), 3, "[15,6]"},
    {"split_of_the_batch", "10,6", reshape({2, 5, 6}), 30, "no axis of [2,5,6] holds the samples of [10,6]"},
    {"batch_grows", "2,6", reshape({2, 6}), 6, "[6,6]"},
    {"batch_shrinks", "4,6", reshape({4, 2, 3}), 1, "[1,2,3]"},
    {"same_batch", "4,6", reshape({4, 2, 3}), 4, "[4,2,3]"},
    {"as_in_the_file", "4,6", reshape({4, 2, 3}), 0, "[4,2,3]"},
    {"symbolic_as_in_the_file", "N,6", reshape({0, 2, 3}), 0, "[1,2,3]"},
    {"batch_on_axis_1", "1,5,6", [](Model& m) { m.add(node("Transpose", {"x"}, {"s"}, {{"perm", List{1, 0, 2}}})).add(int_tensor("t", {4}, {5, 1, 2, 3})).add(node("Reshape", {"s", "t"}, {"y"})); }, 4, "[4,5,2,3]"},
    {"computed_target", "1,6", [](Model& m) { m.add(node("Shape", {"x"}, {"s"})).add(int_tensor("z", {1}, {0})).add(node("Gather", {"s", "z"}, {"n"})).add(int_tensor("r", {2}, {2, 3})).add(node("Concat", {"n", "r"}, {"t"}, {{"axis", std::int64_t{0}}})).add(node("Reshape", {"x", "t"}, {"y"})); }, 4, "[4,2,3]"},
    {"expand", "2,1,3", [](Model& m) { m.add(int_tensor("t", {3}, {2, 5, 3})).add(node("Expand", {"x", "t"}, {"y"})); }, 4, "[4,5,3]"},
    {"all_rows_picked_in_order", "N,2,3", [](Model& m) { m.add(int_tensor("f", {1}, {-1})).add(node("Reshape", {"x", "f"}, {"flat"})).add(node("Size", {"x"}, {"n"})).add(int_tensor("z", {}, {0})).add(int_tensor("o", {}, {1})).add(node("Range", {"z", "n", "o"}, {"r"})).add(int_tensor("t", {2}, {-1, 6})).add(node("Reshape", {"r", "t"}, {"i"})).add(node("Gather", {"flat", "i"}, {"y"})); }, 4, "[4,6]"},
    {"rows_behind_the_samples_offset", "N,6,3", [](Model& m) { with_edges(m).add(node("Gather", {"all", "picked"}, {"g"})).add(node("Reshape", {"g", "four"}, {"y"})); }, 4, "[4,4,3]"},
    {"tuples_behind_the_samples_offset", "N,6,3", [](Model& m) { with_edges(m).add(node("GatherND", {"all", "tuples"}, {"g"})).add(node("Reshape", {"g", "four"}, {"y"})); }, 4, "[4,4,3]"},
    {"added_behind_the_samples_offset", "N,6,3", [](Model& m) { with_edges(m).add(float_tensor("zero", {}, {0})).add(node("Shape", {"all"}, {"as"})).add(node("Expand", {"zero", "as"}, {"zeros"})).add(node("GatherND", {"all", "tuples"}, {"g"})).add(node("ScatterND", {"zeros", "tuples", "g"}, {"sums"}, {{"reduction", std::string("add")}})).add(node("Reshape", {"sums", "six"}, {"y"})); }, 4, "[4,6,3]"},
    {"the_channels_offset_beside_the_samples", "N,2,5", [](Model& m) { m.input("i", "N,2,3", onnx::TensorProto::INT64).add(int_tensor("none", {}, {0})).add(int_tensor("one", {}, {1})).add(int_tensor("two", {}, {2})).add(int_tensor("five", {}, {5})).add(node("Shape", {"x"}, {"s"})).add(node("Gather", {"s", "none"}, {"n"})).add(node("Mul", {"n", "two"}, {"planes"})).add(node("Range", {"none", "planes", "one"}, {"plane"})).add(int_tensor("column", {3}, {-1, 2, 1})).add(node("Reshape", {"plane", "column"}, {"planes1"})).add(node("Mul", {"planes1", "five"}, {"offset"})).add(node("Add", {"i", "offset"}, {"places"})).add(int_tensor("flat", {1}, {-1})).add(node("Reshape", {"places", "flat"}, {"p"})).add(node("Reshape", {"x", "flat"}, {"all"})).add(int_tensor("last", {1}, {-1})).add(node("Unsqueeze", {"p", "last"}, {"tuples"})).add(node("GatherND", {"all", "tuples"}, {"g"})).add(int_tensor("three", {3}, {-1, 2, 3})).add(node("Reshape", {"g", "three"}, {"y"})); }, 4, "[4,2,3]"},
    {"rows_scattered_behind_the_samples_offset", "N,6,3", [](Model& m) { with_edges(m).add(float_tensor("zero", {}, {0})).add(node("Shape", {"all"}, {"as"})).add(node("Expand", {"zero", "as"}, {"zeros"})).add(node("Gather", {"all", "picked"}, {"g"})).add(int_tensor("last", {1}, {1})).add(node("Unsqueeze", {"picked", "last"}, {"p1"})).add(node("Shape", {"g"}, {"gs"})).add(node("Expand", {"p1", "gs"}, {"wide"})).add(node("ScatterElements", {"zeros", "wide", "g"}, {"sums"}, {{"axis", std::int64_t{0}}, {"reduction", std::string("add")}})).add(node("Reshape", {"sums", "six"}, {"y"})); }, 4, "[4,6,3]"},
    {"regions_of_each_samples_image", "N,3,8,8", [](Model& m) { m.input("corner", "N,4").add(int_tensor("none", {}, {0})).add(int_tensor("one", {}, {1})).add(int_tensor("last", {1}, {1})).add(int_tensor("zero", {1}, {0})).add(int_tensor("five", {1}, {5})).add(node("Shape", {"x"}, {"s"})).add(node("Gather", {"s", "none"}, {"n"})).add(node("Range", {"none", "n", "one"}, {"sample"})).add(node("Unsqueeze", {"sample", "last"}, {"column"})).add(node("Cast", {"column"}, {"number"}, {{"to", std::int64_t{1}}})).add(node("Concat", {"number", "corner"}, {"table"}, {{"axis", std::int64_t{1}}})).add(node("Slice", {"table", "zero", "last", "last"}, {"first"})).add(node("Squeeze", {"first", "last"}, {"owner"})).add(node("Cast", {"owner"}, {"images"}, {{"to", std::int64_t{7}}})).add(node("Slice", {"table", "last", "five", "last"}, {"boxes"})).add(node("RoiAlign", {"x", "boxes", "images"}, {"y"}, {{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}, {"sampling_ratio", std::int64_t{2}}})); }, 4, "[4,3,2,2]"},
    {"regions_of_any_image", "N,3,8,8", [](Model& m) { m.input("boxes", "N,4").input("images", "N", onnx::TensorProto::INT64).add(node("RoiAlign", {"x", "boxes", "images"}, {"y"}, {{"sampling_ratio", std::int64_t{2}}})); }, 4, "its regions take from any of the images"},
    {"the_samples_number_among_the_indices", "N,6,3", [](Model& m) { with_edges(m).add(node("Unsqueeze", {"sample", "line"}, {"own"})).add(node("Shape", {"i"}, {"is"})).add(node("Expand", {"own", "is"}, {"owns"})).add(node("Unsqueeze", {"owns", "line"}, {"owns1"})).add(node("Unsqueeze", {"i", "line"}, {"i1"})).add(node("Concat", {"owns1", "i1"}, {"pairs"}, {{"axis", std::int64_t{-1}}})).add(node("GatherND", {"x", "pairs"}, {"y"})); }, 4, "[4,4,3]"},
    {"zeros_of_the_files_batch_expanded", "2,6", [](Model& m) { m.add(node("Constant", {}, {"z"}, {{"value", filled_tensor("", {2, 3}, 0)}})).add(node("Shape", {"x"}, {"s"}, {{"end", std::int64_t{1}}})).add(int_tensor("o", {1}, {3})).add(node("Concat", {"s", "o"}, {"t"}, {{"axis", std::int64_t{0}}})).add(node("Expand", {"z", "t"}, {"e"})).add(node("Concat", {"x", "e"}, {"y"}, {{"axis", std::int64_t{1}}})); }, 5, "[5,9]"},
    {"copies_that_meet_on_the_way", "N,4,3", [](Model& m) { m.add(float_tensor("one", {}, {1})).add(filled_tensor("p", {3})).add(filled_tensor("q", {2, 1})).add(node("Shape", {"x"}, {"s"}, {{"end", std::int64_t{1}}})).add(int_tensor("o", {2}, {2, 3})).add(node("Concat", {"s", "o"}, {"t"}, {{"axis", std::int64_t{0}}})).add(node("Expand", {"one", "t"}, {"e"})).add(node("Neg", {"e"}, {"f"})).add(node("Mul", {"e", "p"}, {"a"})).add(node("Mul", {"f", "q"}, {"b"})).add(node("Concat", {"a", "b"}, {"c"}, {{"axis", std::int64_t{1}}})).add(node("Add", {"x", "c"}, {"y"})); }, 4, "[4,4,3]"},
    {"two_tokens_for_each_sample", "N,2,3", [](Model& m) { m.add(filled_tensor("a", {1, 1, 3})).add(filled_tensor("b", {1, 1, 3})).add(node("Shape", {"x"}, {"s"}, {{"end", std::int64_t{1}}})).add(int_tensor("o", {2}, {1, 3})).add(node("Concat", {"s", "o"}, {"t"}, {{"axis", std::int64_t{0}}})).add(node("Expand", {"a", "t"}, {"as"})).add(node("Expand", {"b", "t"}, {"bs"})).add(node("Concat", {"as", "bs", "x"}, {"y"}, {{"axis", std::int64_t{1}}})); }, 4, "[4,4,3]"},
    {"tiled_heads_for_each_sample", "N,2,5,3", [](Model& m) { m.add(filled_tensor("w", {2, 3, 5})).add(int_tensor("f", {3}, {-1, 5, 3})).add(node("Reshape", {"x", "f"}, {"h"})).add(node("Shape", {"x"}, {"s"}, {{"end", std::int64_t{1}}})).add(int_tensor("o", {2}, {1, 1})).add(node("Concat", {"s", "o"}, {"r"}, {{"axis", std::int64_t{0}}})).add(node("Tile", {"w", "r"}, {"k"})).add(node("MatMul", {"h", "k"}, {"y"})); }, 4, "[8,5,5]"},
    {"slice_of_all", "2,3", [](Model& m) { m.add(int_tensor("s", {1}, {0})).add(int_tensor("e", {1}, {2})).add(int_tensor("a", {1}, {0})).add(node("Slice", {"x", "s", "e", "a"}, {"y"})); }, 4, "[4,3]"},
    {"weight_reshaped", "1,6", [](Model& m) { m.add(filled_tensor("w", {1, 6, 2})).add(int_tensor("t", {2}, {6, 2})).add(node("Reshape", {"w", "t"}, {"v"})).add(node("MatMul", {"x", "v"}, {"y"})); }, 4, "[4,2]"},
    {"weight_keeps_its_leading_one", "1,6", [](Model& m) { m.add(filled_tensor("w", {6})).add(int_tensor("t", {2}, {1, 6})).add(node("Reshape", {"w", "t"}, {"v"})).add(node("Add", {"x", "v"}, {"y"})); }, 4, "[4,6]"},
    {"fixed_in_a_constant", "2,6", [](Model& m) { m.add(filled_tensor("w", {2, 6})).add(node("Div", {"x", "w"}, {"y"})); }, 4, "[4,6]"},
    {"broadcast_hides_a_constant", "2,6", [](Model& m) { m.add(filled_tensor("w", {2, 6})).add(node("Div", {"x", "w"}, {"y"})); }, 1, "[1,6]"},
    {"another_row_for_each_sample", "2,2", [](Model& m) { m.add(float_tensor("w", {2, 2}, {1, 2, 3, 4})).add(node("Div", {"x", "w"}, {"y"})); }, 4, "different for each of the file's 2 samples"},
    {"in_the_file_another_row_for_each", "2,2", [](Model& m) { m.add(float_tensor("w", {2, 2}, {1, 2, 3, 4})).add(node("Div", {"x", "w"}, {"y"})); }, 2, "[2,2]"},
};
// clang-format on

class Batch : public testing::TestWithParam<Row> {};

TEST_P(Batch, IsFollowed) {
  Model m;
  m.input("x", GetParam().input).output("y");
  GetParam().build(m);
  const ModelFile model = m.parse();
  try {
    const Graph graph = model.graph({.batch = GetParam().batch});
    EXPECT_EQ(to_string(shape_of(graph, "y")), GetParam().shape);
    EXPECT_TRUE(graph[graph.outputs.at(0)].depends_on_batch);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().shape), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Batch, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(Dims, ComeFromOptionsBySymbolOrPlace) {
  Model m;
  m.input("x", "N,H,?").output("y").add(node("Relu", {"x"}, {"y"}));
  const std::string report = m.report({.batch = 2});
  EXPECT_NE(report.find("input 'x' axis 1 has no size: give one by option dims H=SIZE"), std::string::npos) << report;
  EXPECT_NE(report.find("input 'x' axis 2 has no size: give one by option dims x:2=SIZE"), std::string::npos) << report;
  EXPECT_EQ(shape_of(m.parse().graph({.batch = 2, .dims = {{"H", 5}, {"x:2", 7}}}), "y"), (Shape{2, 5, 7}));
  EXPECT_EQ(shape_of(m.parse().graph({.batch = 2, .dims = {{"H", 0}, {"x:2", 7}}}), "y"), (Shape{2, 0, 7}));
  EXPECT_NE(m.report({.batch = 2, .dims = {{"H", -1}, {"x:2", 7}}}).find("axis 1 is given the size -1"), std::string::npos);
}

TEST(Dims, AnUnknownNameIsReported) {
  Model m;
  m.input("x", "N,H").output("y").add(node("Relu", {"x"}, {"y"}));
  EXPECT_NE(m.report({.batch = 2, .dims = {{"H", 5}, {"W", 7}}}).find("has no dimension 'W'"), std::string::npos);
  EXPECT_NE(m.report({.batch = 2, .dims = {{"H", 5}, {"x:2", 7}}}).find("has no dimension 'x:2'"), std::string::npos);
}

TEST(Dims, AnInputOfAnotherLengthHasNoBatch) {
  Model m;
  m.input("x", "4,6").input("scale", "6").output("y").add(node("Mul", {"x", "scale"}, {"y"}));
  const Graph graph = m.graph(8);
  EXPECT_EQ(shape_of(graph, "scale"), (Shape{6}));
  EXPECT_TRUE(graph[graph.inputs[0]].depends_on_batch);
  EXPECT_FALSE(graph[graph.inputs[1]].depends_on_batch);
}

TEST(Dims, ABatchElsewhereIsFoundByItsName) {
  Model m;
  m.input("x", "N,6").input("past", "2,N,6").output("y").add(node("Add", {"x", "past"}, {"y"}));
  const Graph graph = m.parse().graph({.batch = 3});
  EXPECT_EQ(shape_of(graph, "past"), (Shape{3, 2, 6}));
  EXPECT_EQ(shape_of(graph, "y"), (Shape{3, 2, 6}));
}

TEST(Dims, ABatchBehindTheSequenceIsFoundByItsName) {
  Model m;
  m.input("x", "sequence,batch,6").output("y").add(node("Relu", {"x"}, {"y"}));
  EXPECT_NE(m.report({.batch = 3}).find("input 'x' axis 0 has no size: give one by option dims sequence=SIZE"), std::string::npos);
  EXPECT_EQ(shape_of(m.parse().graph({.batch = 3, .dims = {{"sequence", 5}}}), "y"), (Shape{3, 5, 6}));
  EXPECT_EQ(shape_of(m.parse().graph({.batch = 3, .dims = {{"batch", 5}}}), "y"), (Shape{3, 5, 6}));
}

TEST(Dims, ASymbolThatAlsoStandsElsewhereIsNoBatch) {
  Model m;
  m.input("x", "N,nodes").input("adjacent", "nodes,nodes").output("y").add(node("MatMul", {"x", "adjacent"}, {"y"}));
  EXPECT_NE(m.report({.batch = 2}).find("input 'adjacent' axis 0 has no size: give one by option dims nodes=SIZE"), std::string::npos);
  EXPECT_EQ(shape_of(m.parse().graph({.batch = 2, .dims = {{"nodes", 5}}}), "adjacent"), (Shape{5, 5}));
}

TEST(Dims, AnotherNameForTheBatchIsSaid) {
  Model m;
  m.input("x", "N,6").input("z", "M,6").output("y").add(node("Add", {"x", "z"}, {"y"}));
  const Graph graph = m.graph(3);
  ASSERT_EQ(graph.warnings.size(), 1U);
  EXPECT_NE(graph.warnings[0].find("input 'z': its axis 0, 'M', is taken for the batch 'N'"), std::string::npos) << graph.warnings[0];
}

TEST(Dims, InputsAreDescribedAsTheFileGivesThem) {
  Model m;
  m.input("x", "N,3,?", onnx::TensorProto::INT64).output("y").add(node("Relu", {"x"}, {"y"}));
  const std::vector<ModelInput> inputs = m.parse().inputs();
  ASSERT_EQ(inputs.size(), 1U);
  EXPECT_EQ(inputs[0].dtype, DType::int64);
  EXPECT_EQ(inputs[0].dims.at(0).symbol, "N");
  EXPECT_EQ(inputs[0].dims.at(1).size, 3);
  EXPECT_EQ(inputs[0].dims.at(2).size, -1);
}

}  // namespace
}  // namespace tandem::test
