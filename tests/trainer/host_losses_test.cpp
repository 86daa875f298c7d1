#include "tests/trainer/host_losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

// `scores`: of one sample, its classes on axis 0 where the loss has any.
template <class Label>
HostMeasure measured(std::string_view loss, OutputKind kind, Shape scores, std::vector<float> output, std::vector<Label> given,
                 std::int64_t samples, int axis = 0) {
  Labels labels{.kind = kind, .loss = std::string(loss), .scores = std::move(scores)};
  if (loss == "softmax-cross-entropy") labels.axis = axis;
  labels.sample = TensorType{dtype_of<Label>(), {}};
  HostMeasure sum;
  measure(sum, labels,
          {.dtype = DType::float32,
           .values = reinterpret_cast<const std::byte*>(output.data()),
           .given = reinterpret_cast<const std::byte*>(given.data()),
           .samples = samples});
  return sum;
}

const double e = std::exp(1.0);

TEST(HostLosses, CrossEntropyOfLogitsProbabilitiesAndLogs) {
  const std::vector<float> logits{1, 0, 0, 1};
  const double p = e / (e + 1);
  const auto probability = static_cast<float>(p), rest = static_cast<float>(1 - p);
  const HostMeasure a = measured<std::int64_t>("softmax-cross-entropy", OutputKind::plain, {2}, logits, {0, 0}, 2);
  const HostMeasure b =
      measured<std::int64_t>("softmax-cross-entropy", OutputKind::softmax, {2}, {probability, rest, rest, probability}, {0, 0}, 2);
  const HostMeasure c = measured<std::int64_t>("softmax-cross-entropy", OutputKind::log_softmax, {2},
                                           {static_cast<float>(std::log(p)), static_cast<float>(std::log(1 - p)),
                                            static_cast<float>(std::log(1 - p)), static_cast<float>(std::log(p))},
                                           {0, 0}, 2);
  for (const HostMeasure& m : {a, b, c}) {
    EXPECT_NEAR(m.mean_loss(), (-std::log(p) - std::log(1 - p)) / 2, 1e-6);
    EXPECT_EQ(m.accuracy(), 0.5);
  }
  const HostMeasure dense = measured<float>("softmax-cross-entropy", OutputKind::plain, {2}, logits, {1, 0, 0.25, 0.75}, 2);
  EXPECT_NEAR(dense.mean_loss(), (-std::log(p) - 0.25 * std::log(1 - p) - 0.75 * std::log(p)) / 2, 1e-6);
  EXPECT_EQ(dense.accuracy(), 1);
}

TEST(HostLosses, OnlyTheFirstSamplesCount) {
  const HostMeasure m = measured<std::int64_t>("softmax-cross-entropy", OutputKind::plain, {2}, {9, 0, 9, 0, 0, 9}, {0, 0, 0}, 2);
  EXPECT_EQ(m.samples, 2);
  EXPECT_EQ(m.accuracy(), 1);
}

TEST(HostLosses, ClassesMayStandBeforePlaces) {  // [1, 2 classes, 3 places]
  const HostMeasure m = measured<std::int64_t>("softmax-cross-entropy", OutputKind::plain, {2, 3}, {5, 0, 5, 0, 5, 0}, {0, 1, 1}, 1);
  EXPECT_EQ(m.rows, 3);
  EXPECT_NEAR(m.accuracy(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(m.mean_loss(), (2 * std::log1p(std::exp(-5.0)) + 5 + std::log1p(std::exp(-5.0))) / 3, 1e-6);
}

TEST(HostLosses, ClassesMayStandBehindPlaces) {  // [1, 3 places, 2 classes]
  const HostMeasure m = measured<std::int64_t>("softmax-cross-entropy", OutputKind::plain, {3, 2}, {5, 0, 0, 5, 5, 0}, {0, 1, 1}, 1, 1);
  EXPECT_EQ(m.rows, 3);
  EXPECT_NEAR(m.accuracy(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(m.mean_loss(), (2 * std::log1p(std::exp(-5.0)) + 5 + std::log1p(std::exp(-5.0))) / 3, 1e-6);
}

TEST(HostLosses, ElementwiseLosses) {
  EXPECT_NEAR(measured<float>("mse", OutputKind::plain, {2}, {1, 2, 3, 4}, {1, 0, 0, 4}, 2).mean_loss(), (2.0 + 4.5) / 2, 1e-12);
  EXPECT_NEAR(measured<float>("l1", OutputKind::plain, {2}, {1, 2, 3, 4}, {1, 0, 0, 4}, 2).mean_loss(), (1.0 + 1.5) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(measured<float>("l1", OutputKind::plain, {1}, {1}, {1}, 1).accuracy()));
  const HostMeasure logits = measured<std::int64_t>("binary-cross-entropy", OutputKind::plain, {1}, {2, -1}, {1, 1}, 2);
  EXPECT_NEAR(logits.mean_loss(), (std::log1p(std::exp(-2.0)) + std::log1p(std::exp(1.0))) / 2, 1e-6);
  EXPECT_EQ(logits.accuracy(), 0.5);
  const HostMeasure probabilities = measured<float>("binary-cross-entropy", OutputKind::sigmoid, {1}, {0.75f, 0.25f}, {1, 0}, 2);
  EXPECT_NEAR(probabilities.mean_loss(), -std::log(0.75), 1e-6);
  EXPECT_EQ(probabilities.accuracy(), 1);
}

}  // namespace
}  // namespace tandem
