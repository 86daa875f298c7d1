// If, Loop, Scan and lists of tensors are gone when a graph is built.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

onnx::GraphProto body(const Names& inputs, const std::vector<onnx::NodeProto>& nodes, const Names& outputs) {
  onnx::GraphProto graph = branch(nodes, outputs);
  for (const std::string& name : inputs) graph.add_input()->set_name(name);
  return graph;
}

constexpr std::int64_t one = 1;

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from x [N,3,4] to y
  Names ops;                          // of the graph
  Shape shape;                        // of y at batch 5
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

onnx::NodeProto counted(std::int64_t iterations_input, const onnx::GraphProto& of, const Names& outputs) {
  return node("Loop", {iterations_input ? "iterations" : "", iterations_input ? "" : "yes", "x"}, outputs, {{"body", of}});
}
const onnx::GraphProto doubling = body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Add", {"v", "v"}, {"v2"})}, {"c2", "v2"});
const onnx::GraphProto until_two =
    body({"i", "c", "v"}, {node("Less", {"i", "most"}, {"c2"}), node("Add", {"v", "v"}, {"v2"})}, {"c2", "v2"});
const onnx::GraphProto gathering =
    body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Relu", {"v"}, {"v2"})}, {"c2", "v2", "v2"});
// The iteration is declared as a list of one number, as TorchScript's exporter does for tensor_split.
const onnx::GraphProto slicing = [] {
  onnx::GraphProto graph =
      body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Slice", {"v", "i", "two", "axis"}, {"v2"})}, {"c2", "v2"});
  auto& iteration = *graph.mutable_input(0)->mutable_type()->mutable_tensor_type();
  iteration.set_elem_type(onnx::TensorProto::INT64);
  iteration.mutable_shape()->add_dim()->set_dim_value(1);
  return graph;
}();
// LoopState on their own rows, the two ways in which exporters write a bag of embeddings.
const onnx::GraphProto rows_of_iterations = body({"i", "c"},
                                           {node("Gather", {"starts", "i"}, {"s"}), node("Gather", {"ends", "i"}, {"e"}), node("Unsqueeze", {"s", "zero"}, {"s1"}),
                                            node("Unsqueeze", {"e", "zero"}, {"e1"}), node("Slice", {"flat", "s1", "e1", "zero"}, {"part"}),
                                            node("ReduceMean", {"part"}, {"mean"}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}}), node("Identity", {"c"}, {"c2"})},
                                           {"c2", "mean"});
Model& with_rows(Model& m) {
  return m.add(int_tensor("zero", {1}, {0}))
      .add(int_tensor("none", {}, {0}))
      .add(int_tensor("three", {}, {3}))
      .add(int_tensor("three1", {1}, {3}))
      .add(int_tensor("all", {2}, {-1, 4}))
      .add(node("Reshape", {"x", "all"}, {"flat"}))
      .add(node("Shape", {"x"}, {"shape"}))
      .add(node("Gather", {"shape", "none"}, {"n"}))
      .add(node("Mul", {"n", "three"}, {"rows"}))
      .add(node("Range", {"none", "rows", "three"}, {"starts"}))
      .add(node("Add", {"starts", "three1"}, {"ends"}));
}

// clang-format off
const Row rows[] = {
    {"loop_of_known_iterations", [](Model& m) { m.add(int_tensor("iterations", {}, {3})).add(counted(1, doubling, {"y"})); }, {"Add", "Add", "Add"}, {5, 3, 4}},
    {"loop_without_iterations", [](Model& m) { m.add(int_tensor("iterations", {}, {0})).add(counted(1, doubling, {"v"})).add(node("Relu", {"v"}, {"y"})); }, {"Relu"}, {5, 3, 4}},
    {"loop_of_fewer_than_no_iterations", [](Model& m) { m.add(int_tensor("iterations", {}, {-1})).add(counted(1, doubling, {"v"})).add(node("Relu", {"v"}, {"y"})); }, {"Relu"}, {5, 3, 4}},
    {"loop_of_fewer_than_no_turns_until", [](Model& m) { m.add(int_tensor("iterations", {}, {-3})).add(int_tensor("most", {}, {2})).add(node("Constant", {}, {"yes"}, {{"value_int", one}})).add(node("Loop", {"iterations", "yes", "x"}, {"v"}, {{"body", until_two}})).add(node("Relu", {"v"}, {"y"})); }, {"Relu"}, {5, 3, 4}},
    {"loop_until", [](Model& m) { m.add(int_tensor("most", {}, {2})).add(node("Constant", {}, {"yes"}, {{"value_int", one}})).add(counted(0, until_two, {"y"})); }, {"Add", "Add", "Add"}, {5, 3, 4}},
    {"loop_gathers", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(counted(1, gathering, {"", "g"})).add(node("Transpose", {"g"}, {"y"}, {{"perm", std::vector<std::int64_t>{1, 0, 2, 3}}})); }, {"Relu", "Relu", "Unsqueeze", "Unsqueeze", "Concat", "Transpose"}, {5, 2, 3, 4}},
    {"loop_whose_iteration_is_a_list", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(int_tensor("two", {1}, {2})).add(int_tensor("axis", {1}, {1})).add(counted(1, slicing, {"y"})); }, {"Slice", "Slice"}, {5, 1, 4}},
    {"loop_in_a_loop", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(counted(1, body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Loop", {"iterations", "", "v"}, {"w"}, {{"body", doubling}})}, {"c2", "w"}), {"y"})); }, {"Add", "Add", "Add", "Add"}, {5, 3, 4}},
    {"loop_that_data_ends", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(float_tensor("limit", {}, {9})).add(node("Loop", {"iterations", "", "x"}, {"y"}, {{"body", body({"i", "c", "v"}, {node("Add", {"v", "v"}, {"v2"}), node("ReduceMax", {"w"}, {"top"}, {{"keepdims", std::int64_t{0}}}), node("Less", {"top", "limit"}, {"c2"})}, {"c2", "v2"})}})); m.input("w", ""); },
     {"Add", "ReduceMax", "Less", "Reshape", "Add", "Where"}, {5, 3, 4}},
    {"scan", [](Model& m) { m.add(filled_tensor("start", {1, 4})).add(node("Scan", {"start", "x"}, {"", "y"}, {{"num_scan_inputs", one}, {"scan_input_axes", std::vector<std::int64_t>{1}}, {"scan_output_axes", std::vector<std::int64_t>{1}}, {"body", body({"s", "v"}, {node("Add", {"s", "v"}, {"t"})}, {"t", "t"})}})); },
     {"Split", "Reshape", "Reshape", "Reshape", "Add", "Add", "Add", "Unsqueeze", "Unsqueeze", "Unsqueeze", "Concat"}, {5, 3, 4}},
    {"sequence", [](Model& m) { m.add(node("SplitToSequence", {"x"}, {"l"}, {{"axis", one}})).add(int_tensor("last", {}, {-1})).add(node("SequenceErase", {"l", "last"}, {"l2"})).add(node("SequenceInsert", {"l2", "x"}, {"l3"})).add(node("ConcatFromSequence", {"l3"}, {"y"}, {{"axis", one}})); }, {"Split", "Concat"}, {5, 5, 4}},
    {"optional", [](Model& m) { m.add(node("Optional", {"x"}, {"o"})).add(node("OptionalHasElement", {"o"}, {"has"})).add(node("If", {"has"}, {"y"}, {{"then_branch", branch({node("OptionalGetElement", {"o"}, {"e"}), node("Relu", {"e"}, {"t"})}, {"t"})}, {"else_branch", branch({}, {"x"})}})); }, {"Relu"}, {5, 3, 4}},
    {"if_on_data", [](Model& m) { m.input("w", "").add(float_tensor("limit", {1}, {9})).add(node("Less", {"w", "limit"}, {"c"})).add(node("If", {"c"}, {"y"}, {{"then_branch", branch({node("Relu", {"x"}, {"t"})}, {"t"})}, {"else_branch", branch({node("Neg", {"x"}, {"e"})}, {"e"})}})); }, {"Less", "Relu", "Neg", "Reshape", "Where"}, {5, 3, 4}},
    {"iterations_on_their_own_rows", [](Model& m) { with_rows(m).add(node("Constant", {}, {"yes"}, {{"value_int", one}})).add(node("Loop", {"n", "yes"}, {"y"}, {{"body", rows_of_iterations}})); }, {"Reshape", "Reshape", "ReduceMean"}, {5, 4}},
};
// clang-format on

class ControlFlow : public testing::TestWithParam<Row> {};

TEST_P(ControlFlow, BecomesNodesOnTensors) {
  Model m;
  m.input("x", "N,3,4").output("y");
  GetParam().build(m);
  ASSERT_EQ(m.report({.batch = 5}), "");
  const Graph graph = m.graph(5);
  EXPECT_EQ(shape_of(graph, "y"), GetParam().shape);
  Names ops;
  for (const std::string& op : ops_of(graph)) ops.push_back(op);
  EXPECT_EQ(ops, GetParam().ops);
}
INSTANTIATE_TEST_SUITE_P(Rows, ControlFlow, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

struct Refused {
  std::string name;
  std::function<void(Model&)> build;
  std::string reason;
};
void PrintTo(const Refused& row, std::ostream* out) {
  *out << row.name;
}

onnx::GraphProto relu_or_neg(const std::string& op) {
  return branch({node(op, {"x"}, {"of_branch"})}, {"of_branch"});
}

// clang-format off
const Refused refused[] = {
    {"iterations_from_data", [](Model& m) { m.input("iterations", "", onnx::TensorProto::INT64).add(counted(1, doubling, {"y"})); }, "its number of iterations is computed from data: option max_loop_iterations says"},
    {"endless", [](Model& m) { m.add(node("Constant", {}, {"yes"}, {{"value_int", one}})).add(counted(0, doubling, {"y"})); }, "hold more than 65536 nodes"},
    {"branches_count",
     [](Model& m) {
       std::vector<onnx::NodeProto> many;  // in a branch that no iteration takes
       for (int i = 0; i < 1000; ++i) many.push_back(node("Neg", {i == 0 ? "v" : concat("n", i - 1)}, {concat("n", i)}));
       const onnx::NodeProto choice = node("If", {"no"}, {"v2"}, {{"then_branch", branch(many, {"n999"})}, {"else_branch", branch({node("Relu", {"v"}, {"r"})}, {"r"})}});
       onnx::TensorProto no;
       no.set_data_type(onnx::TensorProto::BOOL);
       no.add_int32_data(0);
       m.add(int_tensor("iterations", {}, {2000}));
       m.add(counted(1, body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Constant", {}, {"no"}, {{"value", no}}), choice}, {"c2", "v2"}), {"y"}));
     },
     "the iterations of the model's loops copy more than 262144 nodes, with those of branches in them"},
    {"never_ends", [](Model& m) { m.add(node("Loop", {"", "", "x"}, {"y"}, {{"body", doubling}})); }, "neither a number of iterations nor a condition"},
    {"a_list_for_a_condition", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(node("SequenceConstruct", {"x"}, {"l"})).add(node("Loop", {"iterations", "l", "x"}, {"y"}, {{"body", doubling}})); }, "its condition is a list of tensors"},
    {"iterations_of_floats", [](Model& m) { m.input("iterations", "").add(counted(1, doubling, {"y"})); }, "its number of iterations is float32[], expected one element of int64"},
    {"numbers_for_a_condition", [](Model& m) { m.input("w", "", onnx::TensorProto::INT64).add(node("If", {"w"}, {"y"}, {{"then_branch", relu_or_neg("Relu")}, {"else_branch", relu_or_neg("Neg")}})); }, "its condition is int64[], expected one element of bool"},
    {"a_condition_a_sample", [](Model& m) { m.add(node("Less", {"x", "x"}, {"c"})).add(node("If", {"c"}, {"y"}, {{"then_branch", relu_or_neg("Relu")}, {"else_branch", relu_or_neg("Neg")}})); }, "its condition is bool[5,3,4], expected one element of bool"},
    {"goes_on_by_a_number", [](Model& m) { m.input("w", "", onnx::TensorProto::INT64).add(int_tensor("iterations", {}, {2})).add(node("Loop", {"iterations", "w", "x"}, {"y"}, {{"body", doubling}})); }, "its condition is int64[], expected one element of bool"},
    {"no_body", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(node("Loop", {"iterations", "", "x"}, {"y"})); }, "it has no body"},
    {"body_of_other_arity", [](Model& m) { m.add(int_tensor("iterations", {}, {2})).add(node("Loop", {"iterations", "", "x", "x"}, {"y"}, {{"body", doubling}})); }, "its body takes 3 inputs, expected 4"},
    {"grows", [](Model& m) { m.add(int_tensor("iterations", {}, {64})).add(counted(1, body({"i", "c", "v"}, {node("Identity", {"c"}, {"c2"}), node("Concat", {"v", "v"}, {"v2"}, {{"axis", one}})}, {"c2", "v2"}), {"y"})); }, "its output"},
    {"no_iteration_no_shape", [](Model& m) { m.add(int_tensor("iterations", {}, {0})).add(counted(1, gathering, {"", "y"})); }, "it runs no iteration, so the shape of its output 1 is not known"},
    {"scan_of_nothing", [](Model& m) { m.add(node("Scan", {"x"}, {"y"}, {{"num_scan_inputs", std::int64_t{2}}, {"body", doubling}})); }, "num_scan_inputs is 2, expected 1 to 1"},
    {"position_outside", [](Model& m) { m.add(int_tensor("p", {}, {3})).add(node("SequenceConstruct", {"x", "x"}, {"l"})).add(node("SequenceAt", {"l", "p"}, {"y"})); }, "its position is 3 in a list of 2"},
    {"list_as_a_tensor", [](Model& m) { m.add(node("SequenceConstruct", {"x", "x"}, {"l"})).add(node("Relu", {"l"}, {"y"})); }, "its input 'l' is a list of tensors"},
    {"list_as_an_output", [](Model& m) { m.add(node("SequenceConstruct", {"x", "x"}, {"y"})); }, "its output 'y' is a list of tensors"},
    {"tensor_as_a_list", [](Model& m) { m.add(node("ConcatFromSequence", {"x"}, {"y"}, {{"axis", one}})); }, "its input 0 is no list of tensors"},
    {"nothing_in_an_optional", [](Model& m) { m.add(node("Optional", {}, {"o"})).add(node("OptionalGetElement", {"o"}, {"y"})); }, "its operand holds nothing"},
};
// clang-format on

class ControlFlowRefused : public testing::TestWithParam<Refused> {};

TEST_P(ControlFlowRefused, WithItsReason) {
  Model m;
  m.input("x", "N,3,4").output("y");
  GetParam().build(m);
  EXPECT_NE(m.report({.batch = 5}).find(GetParam().reason), std::string::npos) << m.report({.batch = 5});
}
INSTANTIATE_TEST_SUITE_P(Rows, ControlFlowRefused, testing::ValuesIn(refused), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem::test
