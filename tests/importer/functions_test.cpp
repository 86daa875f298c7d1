// Local functions, subgraphs and the order of nodes.
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

onnx::NodeProto call(const std::string& name, const Names& inputs, const Names& outputs, const AttributeList& attributes = {}) {
  return node(name, inputs, outputs, attributes, function_domain);
}

TEST(Functions, AreInlinedWithUniqueNames) {
  Model m;
  m.input("x", "N,2").output("y");
  m.add(function("Twice", {"a"}, {"c"}, {node("Relu", {"a"}, {"b"}), node("Tanh", {"b"}, {"c"})}));
  m.add(call("Twice", {"x"}, {"h"})).add(call("Twice", {"h"}, {"y"}));
  const Graph graph = m.graph(3);
  EXPECT_EQ(ops_of(graph), (Names{"Relu", "Tanh", "Relu", "Tanh"}));
  EXPECT_EQ(names_of(graph, ValueKind::activation), (Names{"node_h/b", "h", "node_y/b", "y"}));
  EXPECT_EQ(graph.nodes[0].origin, (Names{"node_h/node_b"}));
}

TEST(Functions, AttributesResolveThroughNestedCallsAndDefaults) {
  Model m;
  m.input("x", "N,4,5").output("y");
  onnx::FunctionProto inner = function("Inner", {"a"}, {"b"},
                                       {node("Softmax", {"a"}, {"s"}, {{"axis", std::string("@axis")}}),
                                        node("LeakyRelu", {"s"}, {"b"}, {{"alpha", std::string("@alpha")}})},
                                       {"axis"});
  auto& fallback = *inner.add_attribute_proto();
  fallback.set_name("alpha");
  fallback.set_type(onnx::AttributeProto::FLOAT);
  fallback.set_f(0.25F);
  m.add(inner).add(function("Outer", {"a"}, {"b"}, {call("Inner", {"a"}, {"b"}, {{"axis", std::string("@dim")}})}, {"dim"}));
  m.add(call("Outer", {"x"}, {"y"}, {{"dim", std::int64_t{1}}}));
  const Graph graph = m.graph(2);
  EXPECT_EQ(graph.nodes.at(0).attributes.integer("axis"), 1);
  EXPECT_EQ(graph.nodes.at(1).attributes.real("alpha"), 0.25F);
}

TEST(Functions, AnAttributeLeftOutIsAbsent) {
  Model m;
  m.input("x", "N,4").output("y");
  m.add(function("F", {"a"}, {"b"}, {node("LeakyRelu", {"a"}, {"b"}, {{"alpha", std::string("@alpha")}})}, {"alpha"}))
      .add(call("F", {"x"}, {"y"}));
  EXPECT_FALSE(m.graph().nodes.at(0).attributes.has("alpha"));
}

TEST(Functions, OptionalInputsMayBeLeftOut) {
  Model m;
  m.input("x", "N,3,8,8").output("y").add(filled_tensor("w", {2, 3, 1, 1}));
  m.add(function("F", {"a", "w", "b"}, {"y"}, {node("Conv", {"a", "w", "b"}, {"y"})})).add(call("F", {"x", "w"}, {"y"}));
  EXPECT_EQ(m.graph().nodes.at(0).op->name, "Conv");
}

TEST(Functions, UseTheirOwnOpset) {
  Model m(17);
  onnx::FunctionProto old = function("F", {"a"}, {"b"}, {node("Softmax", {"a"}, {"b"})});
  old.mutable_opset_import(0)->set_version(11);  // axes from 1 on are one
  m.input("x", "N,4,5").output("y").add(old).add(call("F", {"x"}, {"y"}));
  EXPECT_EQ(ops_of(m.graph()), (Names{"Reshape", "Softmax", "Reshape"}));
}

TEST(Functions, AValuePassedThroughKeepsItsName) {
  Model m;
  m.input("x", "N,4").output("y").output("z");
  m.add(function("Pass", {"a"}, {"a"}, {})).add(call("Pass", {"x"}, {"p"})).add(node("Relu", {"p"}, {"y"})).add(call("Pass", {"y"}, {"z"}));
  const Graph graph = m.graph();
  EXPECT_EQ(graph[graph.inputs[0]].name, "x");
  EXPECT_EQ(graph[graph.outputs.at(0)].name, "y");
  EXPECT_EQ(graph[graph.outputs.at(1)].name, "z");
}

TEST(Functions, ShadowNoNamesOfTheCaller) {
  Model m;
  m.input("x", "N,4").output("y");
  m.add(function("F", {"x"}, {"y"}, {node("Relu", {"x"}, {"t"}), node("Tanh", {"t"}, {"y"})}))
      .add(node("Sigmoid", {"x"}, {"t"}))
      .add(call("F", {"t"}, {"y"}));
  EXPECT_EQ(ops_of(m.graph()), (Names{"Sigmoid", "Relu", "Tanh"}));
}

TEST(Subgraphs, TheBranchOfAKnownConditionIsTaken) {
  // Its condition is shape arithmetic: the rank of x.
  for (const std::int64_t rank : {2, 3}) {
    Model m;
    m.input("x", "N,4").output("y").add(int_tensor("rank", {}, {rank}));
    m.add(node("Shape", {"x"}, {"s"})).add(node("Size", {"s"}, {"n"})).add(node("Equal", {"n", "rank"}, {"c"}));
    m.add(
        node("If", {"c"}, {"y"},
             {{"then_branch", branch({node("Relu", {"x"}, {"t"})}, {"t"})}, {"else_branch", branch({node("Tanh", {"x"}, {"e"})}, {"e"})}}));
    const Graph graph = m.graph();
    EXPECT_EQ(ops_of(graph), Names{rank == 2 ? "Relu" : "Tanh"});
    EXPECT_EQ(graph[graph.outputs.at(0)].name, "y");
  }
}

TEST(Subgraphs, ABranchMayReadItsSurroundings) {
  Model m;
  m.input("x", "N,4").output("y").add(node("Constant", {}, {"c"}, {{"value_int", std::int64_t{1}}})).add(node("Relu", {"x"}, {"r"}));
  m.add(node("If", {"c"}, {"y"}, {{"then_branch", branch({node("Add", {"r", "x"}, {"t"})}, {"t"})}, {"else_branch", branch({}, {"r"})}}));
  EXPECT_EQ(ops_of(m.graph()), (Names{"Relu", "Add"}));
}

TEST(Order, NodesMayStandInAnyOrder) {
  Model m;
  m.input("x", "N,4").output("y");
  m.add(node("Tanh", {"b"}, {"y"})).add(node("Sigmoid", {"a"}, {"b"})).add(node("Relu", {"x"}, {"a"}));
  EXPECT_EQ(ops_of(m.graph()), (Names{"Relu", "Sigmoid", "Tanh"}));
}

TEST(Order, WhatNoOutputNeedsIsDropped) {
  Model m;
  m.input("x", "N,3,8,8").output("y").add(filled_tensor("unused", {4}));
  m.add(node("Unheard", {"x"}, {"u"})).add(node("MaxPool", {"x"}, {"y", "indices"}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}));
  const Graph graph = m.graph();
  EXPECT_EQ(ops_of(graph), Names{"MaxPool"});
  EXPECT_EQ(graph.nodes[0].outputs.size(), 1U);
  EXPECT_TRUE(names_of(graph, ValueKind::parameter).empty());
}

TEST(Labels, ScoresTakeTheMapsPlace) {
  Model m;
  m.input("x", "N,3").output("label").output("map").add(filled_tensor("w", {3, 2}));
  m.add(node("Gemm", {"x", "w"}, {"scores"})).add(node("ArgMax", {"scores"}, {"id"}, {{"axis", std::int64_t{1}}}));
  m.add(node("ArrayFeatureExtractor", {"names", "id"}, {"label"}, {}, "ai.onnx.ml"))
      .add(node("ZipMap", {"scores"}, {"map"}, {}, "ai.onnx.ml"));
  onnx::TensorProto names;
  names.set_data_type(onnx::TensorProto::STRING);
  names.add_dims(1);
  names.add_string_data("cat");
  m.add(node("Constant", {}, {"names"}, {{"value", names}}));
  const Graph graph = m.graph();
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph[graph.outputs[0]].name, "scores");
  EXPECT_EQ(m.parse().outputs(), Names{"scores"});
}

}  // namespace
}  // namespace tandem::test
