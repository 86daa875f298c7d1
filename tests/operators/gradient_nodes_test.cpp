// ai.onnx.preview.training's Gradient, against formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/importer/model_builder.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

using namespace test;
using Doubles = std::vector<double>;

// Attributes of a list of strings, which the builder has none of.
onnx::NodeProto gradient(const Names& inputs, const Names& outputs, const Names& xs, const Names& zs, const std::string& y) {
  onnx::NodeProto made = node("Gradient", inputs, outputs, {{"y", y}}, "ai.onnx.preview.training");
  for (const auto& [name, list] : {std::pair{"xs", xs}, {"zs", zs}}) {
    onnx::AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& s : list) attribute.add_strings(s);
  }
  return made;
}

Model model() {
  Model m;
  auto& import = *m.proto.add_opset_import();
  import.set_domain("ai.onnx.preview.training");
  import.set_version(1);
  return m;
}

std::vector<Doubles> results(const Model& m, const std::vector<NamedTensor>& inputs) {
  std::vector<Doubles> list;
  for (const NamedTensor& t : GraphRun(m.parse().graph({.batch = 0, .training = false}), LayoutPreference::blocked).run(inputs))
    list.push_back(t.tensor.to_doubles());
  return list;
}

NamedTensor numbers(const char* name, std::initializer_list<float> values) {
  return {name, Tensor::of<float>(Shape{static_cast<std::int64_t>(values.size())}, std::vector<float>(values))};
}

TEST(GradientNodes, AreTakenAtTheOperandsValues) {
  Model m = model();
  m.input("x", "3").input("other", "3").add(node("Mul", {"x", "x"}, {"square"})).add(node("Mul", {"square", "x"}, {"cube"}));
  m.add(gradient({"other"}, {"slope"}, {"x"}, {}, "cube")).add(node("Add", {"cube", "slope"}, {"both"})).output("both").output("slope");
  const auto got = results(m, {numbers("x", {1, 2, 3}), numbers("other", {2, 0, -1})});
  EXPECT_EQ(got[1], (Doubles{12, 0, 3}));
  EXPECT_EQ(got[0], (Doubles{13, 8, 30}));
}

// The file may have them in front of what they differentiate.
TEST(GradientNodes, TakeWhatTheyNameForIndependent) {
  Model m = model();
  m.input("w", "2").input("x", "2").add(gradient({"w", "h"}, {"dw", "dh"}, {"w", "h"}, {}, "y"));
  m.add(gradient({"w", "x"}, {"total"}, {"w"}, {"x"}, "y"))
      .add(gradient({"w", "h"}, {"held"}, {"w"}, {"h"}, "y"))
      .add(gradient({"x"}, {"nothing"}, {"x"}, {}, "y"));
  m.add(node("Mul", {"w", "w"}, {"h"})).add(node("Mul", {"h", "w"}, {"y"}));
  for (const char* out : {"dw", "dh", "total", "held", "nothing"}) m.output(out);
  const auto got = results(m, {numbers("w", {2, -3}), numbers("x", {1, 1})});
  EXPECT_EQ(got[0], (Doubles{4, 9}));
  EXPECT_EQ(got[1], (Doubles{2, -3}));
  EXPECT_EQ(got[2], (Doubles{12, 27}));
  EXPECT_EQ(got[3], (Doubles{4, 9}));
  EXPECT_EQ(got[4], (Doubles{0, 0}));
}

TEST(GradientNodes, AreDifferentiatedAgain) {
  Model m = model();
  m.input("w", "2").add(node("Mul", {"w", "w"}, {"square"})).add(node("Mul", {"square", "w"}, {"y"}));
  m.add(gradient({"w"}, {"first"}, {"w"}, {}, "y")).add(gradient({"w"}, {"second"}, {"w"}, {}, "first")).output("second");
  EXPECT_EQ(results(m, {numbers("w", {2, -3})})[0], (Doubles{12, -18}));
}

// d/dw of the mean cross-entropy of x·w is xᵀ(softmax − one-hot)/N.
TEST(GradientNodes, OfALossOverWeights) {
  Model m = model();
  m.input("x", "2,2").input("t", "2", onnx::TensorProto::INT64).add(float_tensor("w", {2, 2}, {0.5F, -1, 2, 1}));
  m.add(node("MatMul", {"x", "w"}, {"scores"})).add(node("SoftmaxCrossEntropyLoss", {"scores", "t"}, {"loss"}));
  m.add(gradient({"w", "x", "t"}, {"dw"}, {"w"}, {"x", "t"}, "loss")).output("dw");
  const double x[2][2] = {{1, 2}, {-1, 0.5}}, w[2][2] = {{0.5, -1}, {2, 1}};
  const int t[2] = {1, 0};
  Doubles want(4);
  for (int n = 0; n < 2; ++n) {
    double e[2], sum = 0;
    for (int c = 0; c < 2; ++c) sum += e[c] = std::exp(x[n][0] * w[0][c] + x[n][1] * w[1][c]);
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < 2; ++i) want[static_cast<std::size_t>(2 * i + c)] += x[n][i] * (e[c] / sum - (t[n] == c)) / 2;
  }
  const auto got = results(m, {{"x", Tensor::of<float>(Shape{2, 2}, std::vector<float>{1, 2, -1, 0.5F})},
                               {"t", Tensor::of<std::int64_t>(Shape{2}, std::vector<std::int64_t>{1, 0})}});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[0][i], want[i], 1e-6);
}

TEST(GradientNodes, NameWhatIsWrong) {
  Model m = model();
  m.input("x", "2").add(node("Mul", {"x", "x"}, {"y"})).add(gradient({"x"}, {"d"}, {"x"}, {"x"}, "z")).output("d");
  const std::string report = m.report();
  EXPECT_NE(report.find("'z', which it names, is not there"), std::string::npos) << report;
  EXPECT_NE(report.find("has 1 inputs, xs and zs name 2"), std::string::npos) << report;
}

}  // namespace
}  // namespace tandem
