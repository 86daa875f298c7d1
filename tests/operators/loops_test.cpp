// Loops whose end is computed from data give what their iterations say, and no numbers where more iterations were wanted than are planned;
// and what else holds graphs of its own: Scan of opset 8, FlexAttention.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/importer/model_builder.h"
#include "tests/operators/run_graph.h"

namespace tandem::test {
namespace {

onnx::GraphProto body(const std::vector<onnx::NodeProto>& nodes, const Names& outputs) {
  onnx::GraphProto graph = branch(nodes, outputs);
  for (const char* name : {"i", "c", "v"}) graph.add_input()->set_name(name);
  return graph;
}

// x [2] doubled until its largest is 9 or more; or as often as its largest says.
Model doubled(bool counted) {
  Model m;
  m.input("x", "2").output("y").add(float_tensor("limit", {}, {9})).add(int_tensor("none", {}, {0}));
  m.add(node("ReduceMax", {"x"}, {"first"}, {{"keepdims", std::int64_t{0}}})).add(node("Less", {"first", "limit"}, {"begin"}));
  m.add(node("Cast", {"first"}, {"count"}, {{"to", std::int64_t{onnx::TensorProto::INT64}}}));
  if (counted)
    m.add(node("Loop", {"count", "", "x"}, {"y"},
               {{"body", body({node("Identity", {"c"}, {"c2"}), node("Add", {"v", "v"}, {"v2"})}, {"c2", "v2"})}}));
  else
    m.add(node("Loop", {"", "begin", "x"}, {"y"},
               {{"body", body({node("Add", {"v", "v"}, {"v2"}), node("ReduceMax", {"v2"}, {"top"}, {{"keepdims", std::int64_t{0}}}),
                               node("Less", {"top", "limit"}, {"c2"})},
                              {"c2", "v2"})}}));
  return m;
}

std::vector<double> run(bool counted, std::int64_t iterations, float x0, float x1) {
  GraphRun run(doubled(counted).parse().graph({.batch = 0, .training = false, .max_loop_iterations = iterations}));
  return run.run({{"x", Tensor::of<float>(Shape{2}, std::vector<float>{x0, x1})}})[0].tensor.to_doubles();
}

TEST(Loops, EndWhereTheDataSays) {
  EXPECT_EQ(run(false, 6, 1, 0.5), (std::vector<double>{16, 8}));
  EXPECT_EQ(run(false, 6, 20, 0.5), (std::vector<double>{20, 0.5}));  // no iteration at all
  EXPECT_EQ(run(false, 4, 1, 0.5), (std::vector<double>{16, 8}));     // just so many
  EXPECT_EQ(run(true, 6, 3, 0.5), (std::vector<double>{24, 4}));
  EXPECT_EQ(run(true, 6, 0, -1), (std::vector<double>{0, -1}));
  EXPECT_EQ(run(true, 3, 3, 0.5), (std::vector<double>{24, 4}));
}

TEST(Loops, ThatWouldGoOnGiveNoNumbers) {
  for (const bool counted : {false, true})
    for (const double v : run(counted, 2, 3 - static_cast<float>(!counted) * 2, 0.5)) EXPECT_TRUE(std::isnan(v)) << counted;
}

TEST(Loops, WithoutABoundAreRefused) {
  for (const bool counted : {false, true})
    EXPECT_NE(doubled(counted).report().find("option max_loop_iterations says how many are planned at most"), std::string::npos);
}

// Scan of opset 8: the samples of x [2,3,1] are summed up by themselves, the second for as many iterations as it is long.
Model summed_up(bool backwards, bool lengths, std::vector<std::int64_t> given = {3, 2}) {
  Model m(8, 3);
  m.input("x", "2,3,1")
      .output("last")
      .output("sums")
      .add(float_tensor("start", {2, 1}, {0, 100}))
      .add(int_tensor("lengths", {static_cast<std::int64_t>(given.size())}, given));
  onnx::GraphProto iteration = branch({node("Add", {"s", "v"}, {"t"}), node("Identity", {"t"}, {"u"})}, {"t", "u"});
  for (const char* name : {"s", "v"}) iteration.add_input()->set_name(name);
  m.add(node("Scan", {lengths ? "lengths" : "", "start", "x"}, {"last", "sums"},
             {{"num_scan_inputs", std::int64_t{1}}, {"directions", std::vector<std::int64_t>{backwards ? 1 : 0}}, {"body", iteration}}));
  return m;
}

TEST(Loops, OfSamplesEndWithEachSequence) {
  const auto run = [](bool backwards, bool lengths) {
    GraphRun run(summed_up(backwards, lengths).parse().graph({.batch = 0, .training = false}));
    const std::vector<NamedTensor> results = run.run({{"x", Tensor::of<float>(Shape{2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
    EXPECT_EQ(results.at(0).tensor.shape(), (Shape{2, 1}));
    EXPECT_EQ(results.at(1).tensor.shape(), (Shape{2, 3, 1}));
    std::vector<double> all = results[0].tensor.to_doubles(), sums = results[1].tensor.to_doubles();
    all.insert(all.end(), sums.begin(), sums.end());
    return all;
  };
  EXPECT_EQ(run(false, false), (std::vector<double>{6, 115, 1, 3, 6, 104, 109, 115}));
  EXPECT_EQ(run(true, false), (std::vector<double>{6, 115, 3, 5, 6, 106, 111, 115}));
  EXPECT_EQ(run(false, true), (std::vector<double>{6, 109, 1, 3, 6, 104, 109, 0}));
  EXPECT_EQ(run(true, true), (std::vector<double>{6, 109, 3, 5, 6, 105, 109, 0}));  // backwards from its own end
}

TEST(Loops, OfSamplesNameLengthsThatCannotBe) {
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{3, 4}, {0, 2}, {3}})
    EXPECT_NE(summed_up(false, true, lengths).report().find("expected for each of 2 samples a length of 1 to 3"), std::string::npos)
        << summed_up(false, true, lengths).report();
}

// FlexAttention of one head more in Q than in K, whose scores are bent by tanh and whose shares are halved, against its formula.
TEST(FlexAttention, IsItsFormula) {
  Model m(26, 13);
  auto& preview = *m.proto.add_opset_import();
  preview.set_domain("ai.onnx.preview");
  preview.set_version(1);
  const auto graph_of = [](const std::vector<onnx::NodeProto>& nodes) {
    onnx::GraphProto graph = branch(nodes, {"after"});
    graph.add_input()->set_name("before");
    return graph;
  };
  m.input("q", "1,2,2,2").input("k", "1,1,3,2").input("v", "1,1,3,1").output("y").add(float_tensor("half", {}, {0.5F}));
  m.add(node("FlexAttention", {"q", "k", "v"}, {"y"},
             {{"scale", 0.25F},
              {"score_mod", graph_of({node("Tanh", {"before"}, {"after"})})},
              {"prob_mod", graph_of({node("Mul", {"before", "half"}, {"after"})})}},
             "ai.onnx.preview"));
  const std::vector<float> q{1, -2, 0.5F, 3, -1, 0.25F, 2, 2}, k{0.5F, 1, -1, 2, 3, -0.5F}, v{1, -4, 2};
  GraphRun run(m.parse().graph({.batch = 0, .training = false}));
  const std::vector<double> y = run.run({{"q", Tensor::of<float>(Shape{1, 2, 2, 2}, q)},
                                         {"k", Tensor::of<float>(Shape{1, 1, 3, 2}, k)},
                                         {"v", Tensor::of<float>(Shape{1, 1, 3, 1}, v)}})[0]
                                    .tensor.to_doubles();
  ASSERT_EQ(y.size(), 4U);
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0, of_values = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      const double e =
          std::exp(std::tanh(0.25 * (static_cast<double>(q[2 * row]) * k[2 * j] + static_cast<double>(q[2 * row + 1]) * k[2 * j + 1])));
      sum += e;
      of_values += e * v[j];
    }
    EXPECT_NEAR(y[row], 0.5 * of_values / sum, 1e-6) << row;
  }
}

TEST(FlexAttention, SaysWhatDoesNotFit) {
  const auto report = [](const char* k, const char* v, const AttributeList& attributes) {
    Model m(26, 13);
    auto& preview = *m.proto.add_opset_import();
    preview.set_domain("ai.onnx.preview");
    preview.set_version(1);
    m.input("q", "1,4,2,2")
        .input("k", k)
        .input("v", v)
        .output("y")
        .add(node("FlexAttention", {"q", "k", "v"}, {"y"}, attributes, "ai.onnx.preview"));
    return m.report();
  };
  onnx::GraphProto narrower = branch({node("ReduceMax", {"before"}, {"after"})}, {"after"});
  narrower.add_input()->set_name("before");
  EXPECT_EQ(report("1,2,3,2", "1,2,3,5", {}), "");
  EXPECT_NE(report("1,3,3,2", "1,3,3,2", {}).find("expected a multiple"), std::string::npos);
  EXPECT_NE(report("1,2,3,1", "1,2,3,2", {}).find("do not fit"), std::string::npos);
  EXPECT_NE(report("2,3,2", "1,2,3,2", {}).find("4 axes"), std::string::npos);
  EXPECT_NE(report("1,2,3,2", "1,2,3,2", {{"softmax_precision", std::int64_t{7}}}).find("softmax_precision is 7"), std::string::npos);
  EXPECT_NE(report("1,2,3,2", "1,2,3,2", {{"score_mod", narrower}}).find("score_mod does not give"), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
