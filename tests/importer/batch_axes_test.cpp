// Which axis of each input holds the samples, what a graph's inputs and outputs look like then, and values that are given for inputs.
#include <gtest/gtest.h>

#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

// A recurrence of 4 units over x, as PyTorch writes it: time first, states [1,N,4].
Model& recurrence(Model& m, const std::string& op, const std::string& x, const Names& states = {}) {
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  Names inputs{x, "W", "R", "", ""};
  inputs.insert(inputs.end(), states.begin(), states.end());
  m.add(filled_tensor("W", {1, gates * 4, 3}))
      .add(filled_tensor("R", {1, gates * 4, 4}))
      .add(node(op, inputs, {"Y", "last"}, {{"hidden_size", std::int64_t{4}}}));
  m.add(int_tensor("one", {1}, {1}));
  return m.add(node("Squeeze", {"Y", "one"}, {"y"})).output("y").output("last");
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;
  ImportOptions options;
  std::vector<std::string> shapes;  // "x [4,7,3]" of inputs and outputs
  std::string warning;              // part of one; "": there is none
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

void dense(Model& m, const std::string& dims) {
  m.input("x", dims).add(filled_tensor("w", {3, 2})).add(node("MatMul", {"x", "w"}, {"y"})).output("y");
}

const Row rows[] = {
    {"states_beside_batch_first", [](Model& m) {
       m.input("x", "N,7,3").input("h", "1,N,4").input("c", "1,N,4").add(node("Transpose", {"x"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
       recurrence(m, "LSTM", "t", {"h", "c"});
     }, {.batch = 4}, {"x [4,7,3]", "h [4,1,4]", "c [4,1,4]", "y [4,7,4]", "last [4,1,4]"}, ""},
    {"time_first_symbolic", [](Model& m) { recurrence(m.input("x", "7,N,3"), "LSTM", "x"); }, {.batch = 4}, {"x [4,7,3]", "y [4,7,4]", "last [4,1,4]"}, ""},
    {"time_first_both_symbolic", [](Model& m) { recurrence(m.input("x", "T,N,3"), "GRU", "x"); }, {.batch = 4, .dims = {{"T", 7}}}, {"x [4,7,3]", "y [4,7,4]", "last [4,1,4]"}, ""},
    {"time_first_called_batch", [](Model& m) { m.input("x", "seq,batch,3").add(node("Relu", {"x"}, {"y"})).output("y"); }, {.batch = 4, .dims = {{"seq", 7}}}, {"x [4,7,3]", "y [4,7,3]"}, ""},
    {"time_first_of_numbers", [](Model& m) { recurrence(m.input("x", "7,1,3"), "RNN", "x"); }, {.batch = 4}, {"x [4,7,3]", "y [4,7,4]", "last [4,1,4]"}, "input 'x': the samples are taken to lie along its axis 1"},
    {"time_first_of_numbers_and_as_many", [](Model& m) { recurrence(m.input("x", "7,2,3"), "RNN", "x"); }, {.batch = 7}, {"x [7,7,3]", "y [7,7,4]", "last [7,1,4]"}, "along its axis 1"},
    {"states_of_numbers", [](Model& m) { recurrence(m.input("x", "7,2,3").input("h", "1,2,4"), "GRU", "x", {"h"}); }, {.batch = 4}, {"x [4,7,3]", "h [4,1,4]", "y [4,7,4]", "last [4,1,4]"}, "input 'h': the samples are taken to lie along its axis 1"},
    {"numbers_and_a_vector_as_long", [](Model& m) { m.input("x", "4,3").input("s", "4").add(filled_tensor("w", {3, 4})).add(node("MatMul", {"x", "w"}, {"h"})).add(node("Mul", {"h", "s"}, {"y"})).output("y"); }, {.batch = 8}, {"x [8,3]", "s [4]", "y [8,4]"}, ""},
    {"a_vector_first", [](Model& m) { m.input("s", "3").input("x", "N,3").add(node("Mul", {"x", "s"}, {"y"})).output("y"); }, {.batch = 3}, {"s [3]", "x [3,3]", "y [3,3]"}, ""},
    {"a_vector_of_one", [](Model& m) { m.input("x", "N,3").input("s", "1").add(node("Mul", {"x", "s"}, {"y"})).output("y"); }, {.batch = 5}, {"x [5,3]", "s [1]", "y [5,3]"}, ""},
    {"an_axis_that_is_asked", [](Model& m) { m.input("x", "7,3").add(node("Relu", {"x"}, {"y"})).output("y"); }, {.batch = 4, .batch_axes = {{"x", 1}}}, {"x [4,7]", "y [4,7]"}, ""},
    {"axis_0_that_is_asked", [](Model& m) { m.input("x", "seq,batch,3").add(node("Relu", {"x"}, {"y"})).output("y"); }, {.batch = 4, .dims = {{"batch", 5}}, .batch_axes = {{"x", 0}}}, {"x [4,5,3]", "y [4,5,3]"}, ""},
    {"an_axis_of_columns_that_is_asked", [](Model& m) { m.input("x", "3,5").add(filled_tensor("w", {2, 3})).add(node("MatMul", {"w", "x"}, {"y"})).output("y"); }, {.batch = 4, .batch_axes = {{"x", 1}}}, {"x [4,3]", "y [4,2]"}, ""},
    {"none_that_is_asked", [](Model& m) { m.input("x", "4,4").input("s", "4,4").add(node("Mul", {"x", "s"}, {"y"})).output("y"); }, {.batch = 6, .batch_axes = {{"s", no_samples}}}, {}, ""},
    {"a_softmax_stays_last", [](Model& m) { m.input("x", "7,N,3").add(filled_tensor("w", {3, 2})).add(node("MatMul", {"x", "w"}, {"s"})).add(node("Softmax", {"s"}, {"y"}, {{"axis", std::int64_t{2}}})).output("y"); }, {.batch = 4}, {"x [4,7,3]", "y [4,7,2]"}, ""},
    {"a_vector_for_one_sample", [](Model& m) { dense(m, "3"); }, {.batch = 1}, {"x [1,3]", "y [1,2]"}, "the file is taken to be for one sample"},
    {"a_size_that_a_weight_tells", [](Model& m) { dense(m, "unk__6,unk__7"); }, {.batch = 4}, {"x [4,3]", "y [4,2]"}, ""},
    {"states_of_zeros", [](Model& m) { recurrence(m.input("x", "7,N,3").input("h", "1,N,4"), "GRU", "x", {"h"}); }, {.batch = 4, .constants = {{"h", Tensor::scalar(std::int64_t{0})}}}, {"x [4,7,3]", "y [4,7,4]", "last [4,1,4]"}, ""},
    {"a_state_of_each_sample", [](Model& m) { recurrence(m.input("x", "7,N,3").input("h", "1,N,4"), "GRU", "x", {"h"}); }, {.batch = 4, .constants = {{"h", Tensor::of<float>(Shape{1, 4}, {1, 2, 3, 4})}}}, {"x [4,7,3]", "y [4,7,4]", "last [4,1,4]"}, ""},
    {"a_list_for_positions", [](Model& m) { m.input("x", "N,4,3").input("pos", "4", onnx::TensorProto::INT64).add(filled_tensor("pe", {6, 3})).add(node("Gather", {"pe", "pos"}, {"p"})).add(node("Add", {"x", "p"}, {"y"})).output("y"); }, {.batch = 4, .constants = {{"pos", Tensor::of<std::int64_t>(Shape{4}, {0, 2, 1, 5})}}}, {"x [4,4,3]", "y [4,4,3]"}, ""},
    {"a_half", [](Model& m) { m.input("x", "N,3").input("s", "", onnx::TensorProto::FLOAT16).add(node("Cast", {"s"}, {"f"}, {{"to", std::int64_t{1}}})).add(node("Mul", {"x", "f"}, {"y"})).output("y"); }, {.batch = 2, .constants = {{"s", Tensor::scalar(0.5)}}}, {"x [2,3]", "y [2,3]"}, ""},
    {"a_truth", [](Model& m) { m.input("x", "N,3").input("b", "3", onnx::TensorProto::BOOL).add(filled_tensor("w", {3})).add(node("Where", {"b", "x", "w"}, {"y"})).output("y"); }, {.batch = 2, .constants = {{"b", Tensor::of<std::int64_t>(Shape{3}, {1, 0, 1})}}, .training = false}, {"x [2,3]", "y [2,3]"}, ""},
};

class BatchAxes : public testing::TestWithParam<Row> {};
TEST_P(BatchAxes, AreFound) {
  const Row& row = GetParam();
  Model m;
  row.build(m);
  if (row.shapes.empty()) {  // without a reading in which samples are apart
    EXPECT_NE(m.report(row.options), "");
    return;
  }
  const Graph graph = m.parse().graph(row.options);
  std::vector<std::string> shapes;
  for (const ValueId in : graph.inputs) shapes.push_back(concat(graph[in].name, ' ', graph[in].type.shape));
  for (const ValueId out : graph.outputs) shapes.push_back(concat(graph[out].name, ' ', graph[out].type.shape));
  EXPECT_EQ(shapes, row.shapes);
  for (const ValueId out : graph.outputs)
    EXPECT_TRUE(graph[out].batch.leading(graph[out].type.shape[0], row.options.batch)) << graph[out].name;
  std::string warnings;
  for (const std::string& warning : graph.warnings) warnings += warning + "\n";
  if (row.warning.empty())
    EXPECT_EQ(warnings, "");
  else
    EXPECT_NE(warnings.find(row.warning), std::string::npos) << warnings;
}
INSTANTIATE_TEST_SUITE_P(All, BatchAxes, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

// Of x [N,3] and s [4], which scales x·w.
Model scaled() {
  Model m;
  m.input("x", "N,3")
      .input("s", "4")
      .add(filled_tensor("w", {3, 4}))
      .add(node("MatMul", {"x", "w"}, {"h"}))
      .add(node("Mul", {"h", "s"}, {"y"}));
  m.output("y");
  return m;
}

TEST(GivenInputs, WhatDoesNotFitIsAProblem) {
  const auto report = [](ImportOptions o) {
    o.batch = 2;
    return scaled().report(o);
  };
  EXPECT_NE(report({.constants = {{"s", Tensor::of<float>(Shape{3}, {1, 2, 3})}}})
                .find("input 's' is given the value float32[3], expected float32[4] or a single number"),
            std::string::npos);
  EXPECT_NE(report({.constants = {{"t", Tensor::scalar(1.0F)}}}).find("has no input 't', for which a value is given"), std::string::npos);
  EXPECT_NE(report({.batch_axes = {{"t", 1}}}).find("has no input 't', for which the batch's axis is given"), std::string::npos);
  EXPECT_NE(report({.batch_axes = {{"s", 1}}}).find("input 's' has 1 axes, its samples cannot lie along axis 1"), std::string::npos);
  Model m;
  m.input("x", "N,3")
      .input("k", "", onnx::TensorProto::INT64)
      .add(filled_tensor("t", {5, 3}))
      .add(node("Gather", {"t", "k"}, {"r"}))
      .add(node("Mul", {"x", "r"}, {"y"}))
      .output("y");
  EXPECT_NE(m.report({.batch = 2, .constants = {{"k", Tensor::scalar(0.5)}}}).find("whose numbers int64 cannot hold"), std::string::npos);
}

TEST(GivenInputs, AnUnusualAxisIsTheUsersToSay) {
  Model m;
  m.input("x", "3,5").add(filled_tensor("w", {2, 3})).add(node("MatMul", {"w", "x"}, {"y"})).output("y");
  EXPECT_NE(m.report({.batch = 4}).find("it sums over axis 0 of [3,5], which holds the samples"), std::string::npos);
  EXPECT_NE(m.report({.batch = 4}).find("with option batch_axis x=1 its samples can be followed"), std::string::npos)
      << m.report({.batch = 4});
}

TEST(GivenInputs, ASizeIsToldOnlyWhereOneFits) {
  Model m;
  m.input("x", "N,T,3").add(filled_tensor("w", {3, 2})).add(node("MatMul", {"x", "w"}, {"y"})).output("y");
  EXPECT_NE(m.report({.batch = 2}).find("axis 1 has no size: give one by option dims T=SIZE"), std::string::npos);
  Model two;
  two.input("x", "N,A,B")
      .add(filled_tensor("w", {3, 2}))
      .add(filled_tensor("v", {7, 1}))
      .add(node("MatMul", {"x", "w"}, {"h"}))
      .add(node("Add", {"h", "v"}, {"y"}))
      .output("y");
  EXPECT_EQ(shape_of(two.parse().graph({.batch = 2, .dims = {{"A", 7}}}), "x"), (Shape{2, 7, 3}));
}

TEST(GivenInputs, AFileForOneSampleTakesNoMore) {
  Model m;
  dense(m, "3");
  EXPECT_NE(m.report({.batch = 4}).find("takes option batch 1"), std::string::npos) << m.report({.batch = 4});
}

}  // namespace
}  // namespace tandem::test
