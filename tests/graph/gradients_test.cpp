#include <gtest/gtest.h>

#include "tests/graph/notation.h"

namespace tandem {
namespace {

using test::OneNode;
using I = std::int64_t;

struct Row {
  const char* op;
  std::vector<std::string> inputs;
  Attributes attributes;
  std::vector<std::string> gradients;  // of the float inputs
};

const Row rows[] = {
    {"Abs", {"f[2]"}, {}, {"Mul(dy0, Sign(x0))"}},
    {"Relu", {"f[2]"}, {}, {"ReluBackward(dy0, y0)"}},
    {"Clip", {"f[2]"}, {{"min", 0.0F}}, {"ClipBackward(dy0, y0)"}},
    {"Floor", {"f[2]"}, {}, {"-"}},
    {"QuantizeLevels", {"f[2]", "f[2]"}, {{"min", 0.0F}, {"max", 5.0F}},
     {"Div(ClipBackward(dy0, Round(Div(x0, x1))), x1)", "Neg(Mul(Div(ClipBackward(dy0, Round(Div(x0, x1))), x1), Div(x0, x1)))"}},
    {"Sqrt", {"f[2]"}, {}, {"Div(Mul(dy0, 0.5), y0)"}},
    {"Add", {"f[2,3]", "f[3]"}, {}, {"dy0", "Reshape(ReduceSum(dy0))"}},
    {"Sub", {"f[1]", "f[3]"}, {}, {"ReduceSum(dy0)", "Neg(dy0)"}},
    {"Mul", {"f[2,3]", "f[]"}, {}, {"Mul(dy0, x1)", "Reshape(ReduceSum(Mul(dy0, x0)))"}},
    {"Div", {"f[2]", "f[2]"}, {}, {"Div(dy0, x1)", "Neg(Mul(Div(dy0, x1), y0))"}},
    {"Where", {"b[2]", "f[2]", "f[2]"}, {}, {"Where(x0, dy0, 0)", "Where(x0, 0, dy0)"}},
    {"Cast", {"f[2]"}, {{"to", I{11}}}, {"Cast(dy0)"}},
    {"Conv", {"f[1,3,8,8]", "f[4,3,3,3]", "f[4]"}, {}, {"ConvolutionBackwardData(dy0, x1)", "ConvolutionBackwardWeights(x0, dy0)", "ConvolutionBackwardWeights:1(x0, dy0)"}},
    {"ConvTranspose", {"f[1,2,3]", "f[2,3,2]", "f[3]"}, {}, {"Conv(dy0, x1)", "ConvolutionBackwardWeights(dy0, x0)", "ReduceSum(dy0)"}},
    {"ConvTranspose", {"f[1,2,3]", "f[2,3,2]"}, {{"output_padding", Ints{1}}}, {"Conv(Slice(dy0), x1)", "ConvolutionBackwardWeights(Slice(dy0), x0)"}},
    {"InnerProduct", {"f[2,3]", "f[4,3]", "f[4]"}, {}, {"InnerProductBackwardData(dy0, x1)", "InnerProductBackwardWeights(x0, dy0)", "InnerProductBackwardWeights:1(x0, dy0)"}},
    {"MatMul", {"f[2,3]", "f[5,3,4]"}, {}, {"Reshape(ReduceSum(MatMul(dy0, x1)))", "MatMul(x0, dy0)"}},
    {"MaxPoolTraining", {"f[1,1,4]"}, {{"kernel_shape", Ints{2}}}, {"MaxPoolBackward(dy0, y1)"}},
    {"AveragePool", {"f[1,1,4]"}, {{"kernel_shape", Ints{2}}}, {"AveragePoolBackward(dy0)"}},
    {"Softmax", {"f[2,3]"}, {}, {"Mul(y0, Sub(dy0, ReduceSum(Mul(dy0, y0))))"}},
    {"LogSoftmax", {"f[2,3]"}, {}, {"Sub(dy0, Mul(Exp(y0), ReduceSum(dy0)))"}},
    {"Reshape", {"f[2,3]"}, {{"shape", Ints{6}}}, {"Reshape(dy0)"}},
    {"Transpose", {"f[2,3,4]"}, {{"perm", Ints{1, 2, 0}}}, {"Transpose(dy0)"}},
    {"Concat", {"f[2,3]", "f[2,4]"}, {{"axis", I{1}}}, {"Slice(dy0)", "Slice(dy0)"}},
    {"Slice", {"f[5]"}, {{"starts", Ints{1}}, {"ends", Ints{3}}}, {"SliceBackward(dy0)"}},
    {"Pad", {"f[5]"}, {{"pads", Ints{1, 1}}}, {"PadBackward(dy0)"}},
    {"Expand", {"f[1,3]"}, {{"shape", Ints{2, 3}}}, {"ReduceSum(dy0)"}},
    {"Tile", {"f[2,3]"}, {{"repeats", Ints{2, 1}}}, {"ReduceSum(Reshape(dy0))"}},
    {"Tile", {"f[2,3]"}, {{"repeats", Ints{1, 1}}}, {"dy0"}},
    {"Gather", {"f[2,3]", "i[4]"}, {}, {"GatherBackward(dy0, x1)"}},
    {"GatherElements", {"f[2,3]", "i[2,5]"}, {{"axis", I{1}}}, {"GatherElementsBackward(dy0, x1)"}},
    {"GatherND", {"f[2,3]", "i[4,2]"}, {}, {"ScatterND(Expand(0), x1, dy0)"}},
    {"ScatterND", {"f[2,3]", "i[4,2]", "f[4]"}, {}, {"ScatterND(dy0, x1, Expand(0))", "GatherND(dy0, x1)"}},
    {"ScatterND", {"f[2,3]", "i[4,2]", "f[4]"}, {{"reduction", std::string("add")}}, {"dy0", "GatherND(dy0, x1)"}},
    {"ScatterElements", {"f[2,3]", "i[2,2]", "f[2,2]"}, {{"axis", I{1}}}, {"ScatterElements(dy0, x1, Expand(0))", "GatherElements(dy0, x1)"}},
    {"ScatterElements", {"f[2,3]", "i[1,2]", "f[1,2]"}, {{"axis", I{1}}, {"reduction", std::string("add")}}, {"dy0", "GatherElements(Slice(dy0), x1)"}},
    {"CumSum", {"f[2,3]"}, {{"axis", I{1}}}, {"CumSum(dy0)"}},
    {"CumProd", {"f[2,3]"}, {{"axis", I{1}}}, {"CumProdBackward(dy0, x0)"}},
    {"Atan", {"f[2,3]"}, {}, {"Div(dy0, Add(Mul(x0, x0), 1))"}},
    {"Acos", {"f[2]"}, {}, {"Neg(Div(dy0, Sqrt(Sub(1, Mul(x0, x0)))))"}},
    {"Acosh", {"f[2]"}, {}, {"Div(dy0, Sqrt(Add(Mul(x0, x0), -1)))"}},
    {"Atanh", {"f[2]"}, {}, {"Div(dy0, Sub(1, Mul(x0, x0)))"}},
    {"Sinh", {"f[2]"}, {}, {"Mul(dy0, Cosh(x0))"}},
    {"Tan", {"f[2]"}, {}, {"Mul(dy0, Add(Mul(y0, y0), 1))"}},
    {"ReduceSum", {"f[2,3]"}, {{"axes", Ints{1}}, {"keepdims", I{0}}}, {"Expand(Reshape(dy0))"}},
    {"ReduceMean", {"f[2,4]"}, {{"axes", Ints{1}}}, {"Expand(Mul(dy0, 0.25))"}},
    {"ReduceMax", {"f[2,3]"}, {{"axes", Ints{1}}}, {"Mul(Cast(Equal(x0, y0)), Div(dy0, ReduceSum(Cast(Equal(x0, y0)))))"}},
    {"AttentionTraining", {"f[2,4,5,8]", "f[2,4,7,8]", "f[2,4,7,6]"}, {{"scale", 1.0F}},
     {"AttentionBackward(x0, x1, x2, y0, y1, dy0)", "AttentionBackward:1(x0, x1, x2, y0, y1, dy0)", "AttentionBackward:2(x0, x1, x2, y0, y1, dy0)"}},
    {"AttentionTraining", {"f[2,4,5,8]", "f[2,4,7,8]", "f[2,4,7,6]", "b[2,1,5,7]"}, {{"scale", 1.0F}},
     {"AttentionBackward(x0, x1, x2, y0, y1, Mul(dy0, Reshape(y2)), x3)", "AttentionBackward:1(x0, x1, x2, y0, y1, Mul(dy0, Reshape(y2)), x3)",
      "AttentionBackward:2(x0, x1, x2, y0, y1, Mul(dy0, Reshape(y2)), x3)"}},
    {"RecurrentTraining", {"f[7,2,9]", "f[1,9,3]", "f[1,2,3]", "-", "s[2]"}, {{"cell", std::string("GRU")}},
     {"RecurrentBackward(x1, y2, x4, dy0, dy1)", "RecurrentBackward:2(x1, y2, x4, dy0, dy1)", "RecurrentBackward:1(x1, y2, x4, dy0, dy1)"}},
    {"DropoutTraining", {"f[2,3]", "i[4]"}, {{"ratio", 0.5F}, {"layer", I{1}}}, {"DropoutTraining(dy0, x1)"}},
    {"Det", {"f[2,3,3]"}, {}, {"DetBackward(x0, dy0)"}},
    {"NegativeLogLikelihoodLoss", {"f[2,3]", "i[2]"}, {}, {"NegativeLogLikelihoodLossBackward(dy0, x1)"}},
};

TEST(Gradients, AreTheseExpressions) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.op);
    const int outputs = row.op == std::string_view("RecurrentTraining") || row.inputs.size() == 4 ? 3
                        : internal_operator(row.op).outputs.most > 1                              ? 2
                                                                                                  : 1;
    try {
      EXPECT_EQ(test::gradients(OneNode(row.op, row.inputs, row.attributes, outputs)), row.gradients);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(Gradients, OfClassWeightsAreRefusedAndNotLeftOut) {
  OneNode one("NegativeLogLikelihoodLoss", {"f[2,3]", "i[2]", "f[3]"}, {});
  const ValueId dy = one.graph.add_input("dy", test::type_of("f[]"));
  GradientContext context(one.graph, one.node, {dy}, {true, false, true});
  try {
    one.graph[one.node].op->differentiate(context);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("its class weights depend on a trainable parameter"), std::string::npos) << error.what();
  }
}

TEST(Gradients, OfUnwantedInputsAreNotEmitted) {
  OneNode one("Mul", {"f[2]", "f[2]"}, {});
  const ValueId dy = one.graph.add_input("dy", test::type_of("f[2]"));
  GradientContext context(one.graph, one.node, {dy}, {false, true});
  one.graph[one.node].op->differentiate(context);
  EXPECT_EQ(one.graph.nodes.size(), 2U);
  EXPECT_FALSE(context.dx()[0].present());
}

TEST(Gradients, OfAFrozenConvolutionsBiasAreASum) {
  OneNode one("Conv", {"f[1,3,8,8]", "f[4,3,3,3]", "f[4]"}, {});
  const ValueId dy = one.graph.add_input("dy", test::type_of("f[1,4,6,6]"));
  GradientContext context(one.graph, one.node, {dy}, {false, false, true});
  one.graph[one.node].op->differentiate(context);
  EXPECT_EQ(test::expression(one.graph, context.dx()[2]), "ReduceSum(dy)");
  EXPECT_EQ(one.graph[context.dx()[2]].type.shape, Shape{4});
}

struct ExpansionRow {
  const char* what;
  const char* op;
  std::vector<std::string> inputs;
  Attributes attributes;
  bool training;
  std::vector<std::string> outputs;
};

const ExpansionRow expansions[] = {
    {"of another domain", "com.microsoft::BiasGelu", {"f[2,4]", "f[4]"}, {}, false, {"GeluErf(Add(x0, x1))"}},
    {"by a weight", "Gemm", {"f[2,3]", "f[3,4]!", "f[4]!"}, {}, false, {"InnerProduct(x0, Transpose(x1), x2)"}},
    {"by a transposed weight", "Gemm", {"f[2,3]", "f[4,3]!", "f[1,4]!"}, {{"transB", I{1}}}, false, {"InnerProduct(x0, x1, Reshape(x2))"}},
    {"alpha and beta", "Gemm", {"f[2,3]", "f[4,3]!", "f[4]!"}, {{"transB", I{1}}, {"alpha", 0.5F}, {"beta", 2.0F}}, false, {"Add(Mul(InnerProduct(x0, x1), 0.5), Mul(x2, 2))"}},
    {"a bias a row", "Gemm", {"f[2,3]", "f[4,3]!", "f[2,1]"}, {{"transB", I{1}}}, false, {"Add(InnerProduct(x0, x1), x2)"}},
    {"of two activations", "Gemm", {"f[2,3]", "f[3,4]"}, {}, false, {"MatMul(x0, x1)"}},
    {"by a weight", "MatMul", {"f[5,2,3]", "f[3,4]!"}, {}, false, {"Reshape(InnerProduct(Reshape(x0), Transpose(x1)))"}},
    {"a vector by a weight", "MatMul", {"f[3]", "f[3,4]!"}, {}, false, {"Reshape(InnerProduct(Reshape(x0), Transpose(x1)))"}},
    {"of matrices stays", "MatMul", {"f[5,2,3]", "f[3,4]"}, {}, false, {"MatMul(x0, x1)"}},
    {"of vectors", "MatMul", {"f[3]", "f[3]"}, {}, false, {"Reshape(MatMul(Reshape(x0), Reshape(x1)))"}},
    {"stays for inference", "MaxPool", {"f[1,1,4]"}, {{"kernel_shape", Ints{2}}}, false, {"MaxPool(x0)"}},
    {"in training", "MaxPool", {"f[1,1,4]"}, {{"kernel_shape", Ints{2}}}, true, {"MaxPoolTraining(x0)"}},
    {"in training", "LRN", {"f[1,1,4]"}, {{"size", I{3}}}, true, {"LRNTraining(x0)"}},
    {"twice", "GlobalMaxPool", {"f[1,1,4]"}, {}, true, {"MaxPoolTraining(x0)"}},
    {"of many axes", "GlobalAveragePool", {"f[1,1,4,4,4,4]"}, {}, false, {"ReduceMean(x0)"}},
    {"for inference", "Dropout", {"f[2]"}, {}, false, {"x0"}},
    {"in training", "Dropout", {"f[2]"}, {}, true, {"DropoutTraining(x0, tandem.random, x0)"}},
    {"that drops nothing", "Dropout", {"f[2]"}, {{"ratio", 0.0F}}, true, {"x0"}},
    {"between", "RandomUniform", {}, {{"shape", Ints{2}}, {"low", -1.0F}, {"high", 2.0F}}, false, {"Add(Mul(RandomNumbers(tandem.random), 3), -1)"}},
    {"of another type", "RandomUniformLike", {"i[2]"}, {{"dtype", I{11}}}, true, {"RandomNumbers(tandem.random, x0)"}},
    {"by two", "RandomNormalLike", {"f[2]"}, {{"scale", 2.0F}}, true,
     {"Mul(Mul(Sqrt(Mul(Log(RandomNumbers(tandem.random, x0)), -2)), Cos(Mul(RandomNumbers(tandem.random, x0), 6.2831854820251465))), 2)"}},
    {"a comparison", "Bernoulli", {"f[2]"}, {}, true, {"Cast(Less(RandomNumbers(tandem.random, x0), x0))"}},
    {"the largest", "Multinomial", {"f[2,3]"}, {{"dtype", I{7}}}, true, {"ArgMax(Add(Reshape(x0), Neg(Log(Neg(Log(RandomNumbers(tandem.random, x0)))))))"}},
    {"in training", "BatchNormalization", {"f[2,3]", "f[3]!", "f[3]!", "f[3]!", "f[3]!"}, {}, true, {"BatchNormalizationTraining(x0, x1, x2)"}},
    {"stays for inference", "BatchNormalization", {"f[2,3]", "f[3]!", "f[3]!", "f[3]!", "f[3]!"}, {}, false, {"BatchNormalization(x0, x1, x2, x3, x4)"}},
    {"chained", "Sum", {"f[2]", "f[2]", "f[2]"}, {}, false, {"Add(Add(x0, x1), x2)"}},
    {"of one", "Sum", {"f[2]"}, {}, false, {"x0"}},
    {"divided", "Mean", {"f[2]", "f[2]"}, {}, false, {"Div(Add(x0, x1), 2)"}},
    {"chained", "Max", {"f[2]", "f[2]", "f[2]"}, {}, false, {"Max(Max(x0, x1), x2)"}},
    {"of integers", "Clip", {"i[2]"}, {{"min", I{1}}, {"max", I{5}}}, false, {"Min(Max(x0, 1), 5)"}},
    {"by a computed bound", "Clip", {"f[2]", "f[]"}, {{"max", 6.0F}}, false, {"Min(Max(x0, x1), 6)"}},
    {"by a bound of one element", "Clip", {"f[2]", "f[1]"}, {}, false, {"Max(x0, Reshape(x1))"}},
    {"a view", "Flatten", {"f[2,3,4]"}, {}, false, {"Reshape(x0)"}},
    {"its input", "Identity", {"f[2]"}, {}, false, {"x0"}},
    {"of one", "Concat", {"f[2]"}, {{"axis", I{0}}}, false, {"x0"}},
    {"to the same type", "Cast", {"f[2]"}, {{"to", I{1}}}, false, {"x0"}},
    {"of no axes", "ReduceSum", {"f[2]"}, {{"noop_with_empty_axes", I{1}}}, false, {"x0"}},
    {"of the negative", "ArgMin", {"f[2]"}, {}, false, {"ArgMax(Neg(x0))"}},
    {"shared", "SoftmaxCrossEntropyLoss", {"f[2,3]", "i[2]"}, {}, false, {"NegativeLogLikelihoodLoss(LogSoftmax(x0), x1)"}},
    {"of all that there is", "GatherElements", {"f[2,3]", "i[2,5]"}, {{"axis", I{1}}}, true, {"GatherElements(x0, x1)"}},
    {"of a part", "GatherElements", {"f[7,3,4]", "i[2,5,2]"}, {{"axis", I{1}}}, true, {"GatherElements(Slice(Slice(x0)), x1)"}},
    {"a product", "Einsum", {"f[2,3]", "f[3,4]"}, {{"equation", std::string("ij,jk->ik")}}, false, {"MatMul(x0, x1)"}},
    {"turned", "Einsum", {"f[2,3]", "f[4,3]"}, {{"equation", std::string("ij,kj->ki")}}, false, {"Transpose(MatMul(x0, Transpose(x1)))"}},
    {"of two axes", "Einsum", {"f[2,3,4]", "f[3,4,5]"}, {{"equation", std::string("bij,ijk->bk")}}, false, {"MatMul(Reshape(x0), Reshape(x1))"}},
    {"outer", "Einsum", {"f[2]", "f[3]"}, {{"equation", std::string("i,j->ij")}}, false, {"Mul(Reshape(x0), Reshape(x1))"}},
    {"of three", "Einsum", {"f[2,3]", "f[3,4]", "f[4]"}, {{"equation", std::string("ij,jk,k->i")}}, false, {"Reshape(MatMul(MatMul(x0, x1), Reshape(x2)))"}},
    {"a scaled sum", "Einsum", {"f[]", "f[2,3]"}, {{"equation", std::string(",ij->j")}}, false, {"Mul(Reshape(x0), ReduceSum(x1))"}},
    {"a trace", "Einsum", {"f[3,3]"}, {{"equation", std::string("ii->")}}, false, {"ReduceSum(Slice(Reshape(x0)))"}},
    {"of integers", "Einsum", {"i[2,3]", "i[3]"}, {{"equation", std::string("ij,j->i")}}, false, {"ReduceSum(Mul(x0, Reshape(x1)))"}},
    {"with another type's exponent", "Pow", {"f[2]", "i[2]"}, {}, false, {"Pow(x0, Cast(x1))"}},
    {"known", "Size", {"f[2,3]"}, {}, false, {"6"}},
    {"of both signs", "IsInf", {"f[2]"}, {}, false, {"Equal(Abs(x0), inf)"}},
    {"of one sign", "IsInf", {"f[2]"}, {{"detect_positive", I{0}}}, false, {"Equal(x0, -inf)"}},
    {"of none", "IsInf", {"f[2]"}, {{"detect_positive", I{0}}, {"detect_negative", I{0}}}, false, {"Less(Abs(x0), 0)"}},
    {"to booleans", "BitCast", {"u[2]"}, {{"to", I{9}}}, false, {"Cast(x0)"}},
    {"of length 1", "LpNormalization", {"f[2,3]"}, {{"p", I{1}}}, false, {"Div(x0, Where(Equal(ReduceSum(Abs(x0)), 0), 1, ReduceSum(Abs(x0))))"}},
};

TEST(Expansions, AreTheseExpressions) {
  for (const ExpansionRow& row : expansions) {
    SCOPED_TRACE(concat(row.op, ' ', row.what));
    EXPECT_EQ(test::expansion(OneNode(row.op, row.inputs, row.attributes), row.training), row.outputs);
  }
}

TEST(Expansions, OfBatchNormalizationRememberItsStatistics) {
  OneNode one("BatchNormalization", {"f[2,3]", "f[3]!", "f[3]!", "f[3]!", "f[3]!"}, {{"momentum", 0.75F}});
  ExpandContext context(one.graph, one.graph[one.node]);
  context.training = true;
  one.graph[one.node].op->expand(context);
  std::vector<Node> updates;
  for (const Node& node : one.graph.nodes)
    if (!node.op->in_place.empty()) updates.push_back(node);
  ASSERT_EQ(updates.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(test::expression(one.graph, updates[i].outputs[0]),
              concat("RunningStatistics(x", 3 + i, ", BatchNormalizationTraining:", 1 + i, "(x0, x1, x2))"));
    EXPECT_EQ(updates[i].attributes.real("momentum"), 0.75F);
  }
}

TEST(Expansions, OfDropoutsHaveStreamsOfTheirOwn) {
  Graph graph;
  ValueId x = graph.add_input("x", test::type_of("f[2]"));
  std::vector<std::int64_t> layers;
  for (const char* name : {"a", "b", "a"}) {
    const NodeId node = graph.add_node(internal_operator("Dropout"), name, {}, {x}, 1);
    ExpandContext context(graph, graph[node]);
    context.training = true;
    x = graph[node].op->expand(context)[0];
    layers.push_back(graph[graph[x].producer].attributes.integer("layer"));
  }
  EXPECT_NE(layers[0], layers[1]);
  EXPECT_NE(layers[0], layers[2]);
  EXPECT_NE(layers[1], layers[2]);
}

}  // namespace
}  // namespace tandem
