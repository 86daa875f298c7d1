#include "trainer/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/operator.h"

namespace tandem {
namespace {

template <class Label>
Measure measured(std::string_view loss, Scores scores, Shape shape, std::vector<float> output, std::vector<Label> labels,
                 std::int64_t samples) {
  Measure sum;
  measure(sum, loss, scores, {DType::float32, std::move(shape)}, reinterpret_cast<const std::byte*>(output.data()), dtype_of<Label>(),
          reinterpret_cast<const std::byte*>(labels.data()), samples);
  return sum;
}

const double e = std::exp(1.0);

TEST(Metrics, CrossEntropyOfLogitsProbabilitiesAndLogs) {
  const std::vector<float> logits{1, 0, 0, 1};
  const double p = e / (e + 1);
  const auto probability = static_cast<float>(p), rest = static_cast<float>(1 - p);
  const Measure a = measured<std::int64_t>("softmax-cross-entropy", {}, {2, 2}, logits, {0, 0}, 2);
  const Measure b =
      measured<std::int64_t>("softmax-cross-entropy", {Scores::softmax, 1}, {2, 2}, {probability, rest, rest, probability}, {0, 0}, 2);
  const Measure c = measured<std::int64_t>("softmax-cross-entropy", {Scores::log_softmax, 1}, {2, 2},
                                           {static_cast<float>(std::log(p)), static_cast<float>(std::log(1 - p)),
                                            static_cast<float>(std::log(1 - p)), static_cast<float>(std::log(p))},
                                           {0, 0}, 2);
  for (const Measure& m : {a, b, c}) {
    EXPECT_NEAR(m.mean_loss(), (-std::log(p) - std::log(1 - p)) / 2, 1e-6);
    EXPECT_EQ(m.accuracy(), 0.5);
  }
  const Measure dense = measured<float>("softmax-cross-entropy", {}, {2, 2}, logits, {1, 0, 0.25, 0.75}, 2);
  EXPECT_NEAR(dense.mean_loss(), (-std::log(p) - 0.25 * std::log(1 - p) - 0.75 * std::log(p)) / 2, 1e-6);
  EXPECT_EQ(dense.accuracy(), 1);
}

TEST(Metrics, OnlyTheFirstSamplesCount) {
  const Measure m = measured<std::int64_t>("softmax-cross-entropy", {}, {3, 2}, {9, 0, 9, 0, 0, 9}, {0, 0, 0}, 2);
  EXPECT_EQ(m.samples, 2);
  EXPECT_EQ(m.accuracy(), 1);
}

TEST(Metrics, ClassesMayStandBeforePlaces) {  // [1, 2 classes, 3 places]
  const Measure m = measured<std::int64_t>("softmax-cross-entropy", {}, {1, 2, 3}, {5, 0, 5, 0, 5, 0}, {0, 1, 1}, 1);
  EXPECT_EQ(m.rows, 3);
  EXPECT_NEAR(m.accuracy(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(m.mean_loss(), (2 * std::log1p(std::exp(-5.0)) + 5 + std::log1p(std::exp(-5.0))) / 3, 1e-6);
}

TEST(Metrics, ElementwiseLosses) {
  EXPECT_NEAR(measured<float>("mse", {}, {2, 2}, {1, 2, 3, 4}, {1, 0, 0, 4}, 2).mean_loss(), (2.0 + 4.5) / 2, 1e-12);
  EXPECT_NEAR(measured<float>("l1", {}, {2, 2}, {1, 2, 3, 4}, {1, 0, 0, 4}, 2).mean_loss(), (1.0 + 1.5) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(measured<float>("l1", {}, {1, 1}, {1}, {1}, 1).accuracy()));
  const Measure logits = measured<std::int64_t>("binary-cross-entropy", {}, {2, 1}, {2, -1}, {1, 1}, 2);
  EXPECT_NEAR(logits.mean_loss(), (std::log1p(std::exp(-2.0)) + std::log1p(std::exp(1.0))) / 2, 1e-6);
  EXPECT_EQ(logits.accuracy(), 0.5);
  const Measure probabilities = measured<float>("binary-cross-entropy", {Scores::sigmoid, 1}, {2, 1}, {0.75f, 0.25f}, {1, 0}, 2);
  EXPECT_NEAR(probabilities.mean_loss(), -std::log(0.75), 1e-6);
  EXPECT_EQ(probabilities.accuracy(), 1);
}

struct LabelRow {
  const char* loss;
  Shape output;
  bool dense;
  const char* wanted;
  std::int64_t classes;
};

TEST(Metrics, LabelsFollowLossAndOutput) {
  const LabelRow rows[] = {
      {"softmax-cross-entropy", {8, 10}, false, "int64[]", 10},
      {"softmax-cross-entropy", {8, 10}, true, "float32[10]", 10},
      {"softmax-cross-entropy", {8, 10, 1, 1}, false, "int64[]", 10},
      {"softmax-cross-entropy", {8, 5, 4, 3}, false, "int64[4,3]", 5},
      {"binary-cross-entropy", {8, 1}, false, "int64[]", 2},
      {"binary-cross-entropy", {8, 6}, false, "float32[6]", 0},
      {"mse", {8, 3}, false, "float32[3]", 0},
  };
  for (const LabelRow& row : rows) {
    EXPECT_EQ(to_string(label_type({DType::float32, row.output}, {}, row.loss, row.dense)), row.wanted)
        << row.loss << to_string(row.output);
    EXPECT_EQ(classes_of(row.output, {}, row.loss), row.classes) << row.loss << to_string(row.output);
  }
}

TEST(Metrics, TheLastOperatorTellsWhatScoresAre) {
  for (const auto& [op, kind] : {std::pair<const char*, Scores::Kind>{"Softmax", Scores::softmax},
                                 {"LogSoftmax", Scores::log_softmax},
                                 {"Sigmoid", Scores::sigmoid},
                                 {"Relu", Scores::plain}}) {
    Graph g;
    const ValueId x = g.add_input("x", {DType::float32, {2, 3}});
    Attributes attributes;
    if (std::string_view(op).ends_with("oftmax")) attributes.set("axis", std::int64_t{-1});
    const ValueId y = g[g.add_node(*find_operator(op), "y", attributes, {x}, 1)].outputs[0];
    g.outputs = {g[g.add_node(*find_operator("Identity"), "z", {}, {y}, 1)].outputs[0]};
    EXPECT_EQ(scores_of(g).kind, kind) << op;
  }
}

}  // namespace
}  // namespace tandem
