#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct CrossEntropy {
  double loss = 0;
  Values gradient;
};
CrossEntropy cross_entropy(const Values& x, const Values& target, std::size_t classes, double scale) {
  CrossEntropy r;
  for (std::size_t row = 0; row < x.size() / classes; ++row) {
    const double* const p = x.data() + row * classes;
    const double* const t = target.data() + row * classes;
    double sum = 0, weight = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      sum += std::exp(p[c]);
      weight += t[c];
    }
    for (std::size_t c = 0; c < classes; ++c) {
      r.loss += scale * t[c] * (std::log(sum) - p[c]);
      r.gradient.push_back(scale * (weight * std::exp(p[c]) / sum - t[c]));
    }
  }
  return r;
}

TEST(NativeLoss, SoftmaxCrossEntropyOfLabelsAndOfDenseTargets) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const std::int64_t classes : {3, 10, 64, 1000})
        for (const int threads : {1, 3}) {
          const std::int64_t rows = 37;
          const Operand logits = plain(dtype, {rows, classes});
          const Values x = random_values(rows * classes, 1, -5, 5);
          Values labels, one_hot(static_cast<std::size_t>(rows * classes), 0), soft = random_values(rows * classes, 2, 0, 1);
          for (std::int64_t r = 0; r < rows; ++r) {
            labels.push_back(static_cast<double>(r * 7 % classes));
            one_hot[static_cast<std::size_t>(r * classes + r * 7 % classes)] = 1;
          }
          const Attributes attributes{{"scale", 0.125F}};
          const double tolerance = 8 * std::sqrt(static_cast<double>(rows * classes)) * epsilon_of(dtype);
          const auto check = [&](const Operand& target, const Values& given, const Values& dense, const char* what) {
            const Case c{"SoftmaxCrossEntropyTraining", attributes, {logits, target}, {plain(dtype, {}), logits}, threads};
            const std::vector<Values> got = run_values(c, {x, given});
            const CrossEntropy wanted = cross_entropy(x, dense, static_cast<std::size_t>(classes), 0.125);
            expect_near(got[0], {wanted.loss}, tolerance, what);
            for (std::size_t i = 0; i < wanted.gradient.size(); ++i) ASSERT_NEAR(got[1][i], wanted.gradient[i], tolerance) << what;
          };
          check(plain(DType::int64, {rows}), labels, one_hot, "labels");
          check(logits, soft, soft, "dense");
        }
  }
}

// The loss is of what bfloat16 holds, in float32; the gradient is rounded once.
TEST(NativeLoss, ScoresOfBFloat16AreWidened) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const std::int64_t classes : {3, 64, 1001}) {
      const std::int64_t rows = 37;
      const Operand narrow = plain(DType::bfloat16, {rows, classes}), wide = plain(DType::float32, {rows, classes}),
                    labels = plain(DType::int64, {rows}), one = plain(DType::float32, {});
      Values x = random_values(rows * classes, 1, -5, 5), given;
      for (double& v : x) v = std::round(v * 16) / 16;
      for (std::int64_t r = 0; r < rows; ++r) given.push_back(static_cast<double>(r * 7 % classes));
      for (const int threads : {1, 3}) {
        const Attributes attributes{{"scale", 0.125F}};
        const std::vector<Values> got =
            run_values({"SoftmaxCrossEntropyTraining", attributes, {narrow, labels}, {one, narrow}, threads}, {x, given});
        const std::vector<Values> wanted =
            run_values({"SoftmaxCrossEntropyTraining", attributes, {wide, labels}, {one, wide}, threads}, {x, given});
        EXPECT_EQ(got[0], wanted[0]);
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(got[1][i], static_cast<double>(to_float(to_bfloat16(static_cast<float>(wanted[1][i])))));
        EXPECT_EQ(run_values({"CountCorrect", {}, {narrow, labels}, {one}, threads}, {x, given}),
                  run_values({"CountCorrect", {}, {wide, labels}, {one}, threads}, {x, given}));
      }
    }
  }
}

TEST(NativeLoss, ExtremeLogitsStayFinite) {
  const Case c{"SoftmaxCrossEntropyTraining",
               {{"scale", 1.0F}},
               {plain(DType::float32, {2, 3}), plain(DType::int64, {2})},
               {plain(DType::float32, {}), plain(DType::float32, {2, 3})}};
  const std::vector<Values> got = run_values(c, {{1e30, 0, -1e30, -500, -500, -500}, {0, 1}});
  EXPECT_NEAR(got[0][0], std::log(3.0), 1e-6);
  EXPECT_EQ(got[1][0], 0);
}

TEST(NativeLoss, LabelsOutsideSpoilTheLossAndIgnoredOnesDoNotCount) {
  const Operand logits = plain(DType::float32, {2, 3}), labels = plain(DType::int64, {2}), loss = plain(DType::float32, {});
  const Values x = {1, 2, 3, 1, 2, 3};
  const Case strict{"SoftmaxCrossEntropyTraining", {{"scale", 1.0F}}, {logits, labels}, {loss, logits}};
  EXPECT_TRUE(std::isnan(run_values(strict, {x, {0, 3}})[0][0]));
  EXPECT_TRUE(std::isnan(run_values(strict, {x, {-1, 0}})[0][0]));
  const Case ignoring{
      "SoftmaxCrossEntropyTraining", {{"scale", 1.0F}, {"ignore_index", std::int64_t{-1}}}, {logits, labels}, {loss, logits}};
  const std::vector<Values> got = run_values(ignoring, {x, {-1, 2}});
  EXPECT_NEAR(got[0][0], std::log(std::exp(-2) + std::exp(-1) + 1), 1e-6);
  EXPECT_EQ(Values(got[1].begin(), got[1].begin() + 3), (Values{0, 0, 0}));
}

TEST(NativeLoss, GradientMayOverwriteTheLogits) {
  const Case c{"SoftmaxCrossEntropyTraining",
               {{"scale", 1.0F}},
               {plain(DType::float32, {40, 10}), plain(DType::int64, {40})},
               {plain(DType::float32, {}), plain(DType::float32, {40, 10})}};
  const KernelDescription d = described(c);
  const Values x = random_values(400, 1), labels(40, 3);
  std::vector<Buffer> inputs = {Buffer(d.inputs[0], x), Buffer(d.inputs[1], labels)};
  const std::vector<Values> apart = run_values(c, {x, labels});
  std::vector<Buffer> over = run(d, inputs, {-1, 0});
  EXPECT_EQ(over[0].values(), apart[0]);
  EXPECT_EQ(over[1].values(), apart[1]);
}

struct Likelihood {
  const char* reduction;
  bool weighted, ignoring;
};

TEST(NativeLoss, NegativeLogLikelihoodAndItsGradient) {
  for (const Likelihood& l : {Likelihood{"mean", false, false}, Likelihood{"mean", true, true}, Likelihood{"sum", true, false},
                              Likelihood{"none", true, true}, Likelihood{"none", false, true}}) {
    const Shape x{3, 4, 2}, places{3, 2};
    const Values logp = random_values(24, 1, -3, 0), labels = {0, 1, 3, 2, 1, 1}, weight = {0.5, 2, 1, 3};
    Attributes attributes{{"reduction", l.reduction}, {"input_shape", x.dims}};
    if (l.ignoring) attributes.set("ignore_index", std::int64_t{3});
    const bool none = std::string_view(l.reduction) == "none", mean = std::string_view(l.reduction) == "mean";
    double loss = 0, total = 0;
    Values each, chosen;
    for (std::size_t i = 0; i < 6; ++i) {
      const auto label = static_cast<std::size_t>(labels[i]);
      const double w = l.ignoring && label == 3 ? 0 : l.weighted ? weight[label] : 1;
      chosen.push_back(w);
      each.push_back(-w * logp[(i / 2 * 4 + label) * 2 + i % 2]);
      loss += each.back();
      total += w;
    }
    std::vector<Operand> inputs = {plain(DType::float64, x), plain(DType::int64, places)};
    std::vector<Values> values = {logp, labels};
    if (l.weighted) {
      inputs.push_back(plain(DType::float64, {4}));
      values.push_back(weight);
    }
    const Operand y = plain(DType::float64, none ? places : Shape{});
    expect_near(run_values({"NegativeLogLikelihoodLoss", attributes, inputs, {y}}, values)[0],
                none ? each : Values{mean ? loss / total : loss}, 1e-14, l.reduction);

    const Values dy = none ? random_values(6, 5) : Values{1.5};
    Values wanted(24, 0);
    for (std::size_t i = 0; i < 6; ++i)
      wanted[(i / 2 * 4 + static_cast<std::size_t>(labels[i])) * 2 + i % 2] = -dy[none ? i : 0] * chosen[i] / (mean ? total : 1);
    inputs[0] = y;
    values[0] = dy;
    expect_near(run_values({"NegativeLogLikelihoodLossBackward", attributes, inputs, {plain(DType::float64, x)}}, values)[0], wanted, 1e-14,
                l.reduction);
  }
}

TEST(NativeLoss, CountsRowsWhoseFirstLargestScoreIsTheLabel) {
  const Operand scores = plain(DType::float32, {4, 3}), count = plain(DType::float32, {});
  const Values x = {1, 2, 3, 5, 5, 1, 0, 9, 1, 3, 2, 1};
  EXPECT_EQ(run_values({"CountCorrect", {}, {scores, plain(DType::int64, {4})}, {count}}, {x, {2, 1, 1, 0}})[0], Values{3});
  EXPECT_EQ(run_values({"CountCorrect", {}, {scores, scores}, {count}}, {x, {0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0}})[0], Values{3});
  EXPECT_EQ(run_values({"CountCorrect", {}, {scores, plain(DType::int64, {4})}, {count}}, {x, {-1, 3, 1, 0}})[0], Values{2})
      << "labels outside count for nothing";
}

TEST(NativeLoss, CountsRowsOfManyScores) {
  constexpr std::int64_t n = 40, classes = 700;
  Values x = random_values(n * classes, 3), labels(n);
  double correct = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double* const row = x.data() + i * classes;
    const std::int64_t at = i * 97 % (classes - 1);
    labels[static_cast<std::size_t>(i)] = static_cast<double>(at);
    row[at] = 5;
    if (i % 4 == 1) row[classes - 1] = 5;                                              // behind it: it is the first yet
    if (i % 4 == 2) row[0] = 5;                                                        // before it
    if (i % 4 == 3) row[(at + 1) % classes] = std::numeric_limits<double>::quiet_NaN();  // there is no largest
    correct += i % 4 < 2 || (i % 4 == 2 && at == 0);
  }
  for (const int threads : {1, 3})
    EXPECT_EQ(
        run_values(
            {"CountCorrect", {}, {plain(DType::float32, {n, classes}), plain(DType::int64, {n})}, {plain(DType::float32, {})}, threads},
            {x, labels})[0],
        Values{correct})
        << threads << " threads";
}

}  // namespace
}  // namespace tandem::native_tests
