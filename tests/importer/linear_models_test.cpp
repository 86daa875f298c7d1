// scikit-learn's models: weights that stand in attributes are trained and go back there; what classifiers say is read as what it is.
#include <gtest/gtest.h>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using List = std::vector<float>;
constexpr const char* ml = "ai.onnx.ml";

Model table() {
  Model m;
  m.input("x", "N,3");
  auto& import = *m.proto.add_opset_import();
  import.set_domain(ml);
  import.set_version(3);
  return m;
}

onnx::AttributeProto strings(const char* name, std::initializer_list<const char*> values) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRINGS);
  for (const char* v : values) a.add_strings(v);
  return a;
}

onnx::NodeProto classifier(const List& coefficients, const List& intercepts, const std::string& post,
                           const std::vector<std::int64_t>& labels) {
  AttributeList a{{"coefficients", coefficients}, {"intercepts", intercepts}, {"post_transform", post}};
  if (!labels.empty()) a.push_back({"classlabels_ints", labels});
  onnx::NodeProto n = node("LinearClassifier", {"x"}, {"label", "y"}, a, ml);
  n.set_name("c");
  return n;
}

List floats_of(const onnx::ModelProto& m, const char* attribute) {
  for (const auto& a : m.graph().node(0).attribute())
    if (a.name() == attribute) return {a.floats().begin(), a.floats().end()};
  return {};
}

onnx::ModelProto written(const Model& m, std::vector<ModelFile::Weight> weights) {
  const TemporaryFolder folder;
  m.parse().write(folder / "out.onnx", std::move(weights));
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(read_whole(folder / "out.onnx")));
  return proto;
}

TEST(LinearModels, WeightsGoBackIntoTheAttributes) {
  Model m = table();
  m.output("label").output("y").add(classifier({1, 2, 3, 4, 5, 6, 7, 8, 9}, {0.5F, 1, 2}, "SOFTMAX", {4, 5, 6}));
  const Graph graph = m.graph(2);
  EXPECT_EQ(names_of(graph, ValueKind::parameter), (Names{"c.coefficients", "c.intercepts"}));
  EXPECT_TRUE(graph[*graph.find("c.coefficients")].trainable);
  EXPECT_EQ(shape_of(graph, "c.coefficients"), (Shape{3, 3}));
  EXPECT_EQ(shape_of(graph, "label"), (Shape{2}));
  EXPECT_EQ(graph[*graph.find("label")].type.dtype, DType::int64);

  onnx::ModelProto out = written(m, {{"c.coefficients", Tensor::of<float>({3, 3}, {9, 8, 7, 6, 5, 4, 3, 2, 1})}});
  EXPECT_EQ(floats_of(out, "coefficients"), (List{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(floats_of(out, "intercepts"), (List{0.5F, 1, 2}));
  // All else is the template.
  *out.mutable_graph()->mutable_node(0) = m.proto.graph().node(0);
  EXPECT_EQ(out.SerializeAsString(), m.proto.SerializeAsString());
}

TEST(LinearModels, ATrainedModelIsTheSameTemplate) {
  Model m = table();
  m.output("y").add(classifier({1, 2, 3}, {0.5F}, "LOGISTIC", {0, 1}));
  Model other = table();
  other.output("y").add(classifier({3, 2, 1}, {0.25F}, "LOGISTIC", {0, 1}));
  EXPECT_EQ(m.parse().fingerprint(), other.parse().fingerprint());
}

// As scikit-learn's converter writes two classes: −w stands before w. One is trained, both are written.
TEST(LinearModels, MirroredRowsAreOneWeight) {
  Model m = table();
  m.output("label").output("y").add(classifier({-1, 2, -3, 1, -2, 3}, {-0.5F, 0.5F}, "LOGISTIC", {0, 1}));
  const Graph graph = m.graph(2);
  EXPECT_EQ(shape_of(graph, "c.coefficients"), (Shape{1, 3}));
  const std::vector<std::string> ops = ops_of(graph);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "Softmax"), ops.end()) << "scores of two classes";
  const onnx::ModelProto out =
      written(m, {{"c.coefficients", Tensor::of<float>({1, 3}, {4, 5, 6})}, {"c.intercepts", Tensor::of<float>({1}, {7})}});
  EXPECT_EQ(floats_of(out, "coefficients"), (List{-4, -5, -6, 4, 5, 6}));
  EXPECT_EQ(floats_of(out, "intercepts"), (List{-7, 7}));
}

TEST(LinearModels, LabelsThatAreStringsGo) {
  Model m = table();
  onnx::NodeProto n = classifier({1, 2, 3, 4, 5, 6, 7, 8, 9}, {0.5F, 1, 2}, "SOFTMAX", {});
  *n.add_attribute() = strings("classlabels_strings", {"a", "b", "c"});
  m.output("name")
      .output("map")
      .add(n)
      .add(node("Identity", {"label"}, {"name"}))
      .add(node("Normalizer", {"y"}, {"p"}, {{"norm", std::string("L1")}}, ml));
  m.add(node("ZipMap", {"p"}, {"map"}, {}, ml));
  const Graph graph = m.graph(2);
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph[graph.outputs[0]].name, "p");
  EXPECT_EQ(ops_of(graph).back(), "Identity") << "what sums to 1 already is not divided by its sum";
}

// As scikit-learn's converter writes an MLP of two classes.
TEST(LinearModels, SigmoidBesideItsRestIsASoftmax) {
  Model m = table();
  m.output("y")
      .add(filled_tensor("w", {3, 1}))
      .add(float_tensor("one", {}, {1}))
      .add(node("Scaler", {"x"}, {"s"}, {{"offset", List{1}}, {"scale", List{2}}}, ml));
  m.add(node("MatMul", {"s", "w"}, {"score"}))
      .add(node("Sigmoid", {"score"}, {"p"}))
      .add(node("Sub", {"one", "p"}, {"q"}))
      .add(node("Concat", {"q", "p"}, {"y"}, {{"axis", std::int64_t{1}}}));
  const std::vector<std::string> ops = ops_of(m.graph(2));
  EXPECT_EQ(ops.back(), "Softmax");
  EXPECT_EQ(std::find(ops.begin(), ops.end(), "Sigmoid"), ops.end());
}

TEST(LinearModels, WhatIsNotTrainedIsSaid) {
  struct Row {
    const char* op;
    AttributeList attributes;
    const char* report;
  };
  const Row rows[] = {
      {"LinearRegressor", {{"coefficients", List{1, 2, 3}}, {"post_transform", std::string("PROBIT")}}, "with post_transform NONE, LOGISTIC or SOFTMAX"},
      {"TreeEnsembleRegressor", {}, "attribute 'nodes_treeids' is missing"},
      {"SVMRegressor", {}, "support vectors are not trained by gradients"},
      {"Normalizer", {{"norm", std::string("L3")}}, "norm is 'L3', expected MAX, L1 or L2"},
      {"Scaler", {{"offset", List{1, 2}}}, "offset has 2 entries, expected 1 or 3"},
  };
  for (const Row& row : rows) {
    Model m = table();
    m.output("y").add(node(row.op, {"x"}, {"y"}, row.attributes, ml));
    EXPECT_NE(m.report().find(row.report), std::string::npos) << m.report();
  }
}

}  // namespace
}  // namespace tandem::test
