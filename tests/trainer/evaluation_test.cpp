// What plans that evaluate compute, against the same formulas in double on the host: every loss, with each option that it takes, of
// scores and of what a model makes of them, on one device, on three, and where some have no samples.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/host_losses.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 11, batch = 4;  // the last batch is short

enum class Given { classes, shares, bits, dense_bits, numbers, counts, signs, sequences, none };
struct Row {
  const char* name;
  const char* loss;
  Shape x;  // of one sample
  Given labels;
  const char* last = nullptr;  // the model's last operator, where it gives no scores
  void (*options)(CompileOptions&) = nullptr;
  bool weighted = false;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const auto smooth = [](CompileOptions& o) { o.loss.smoothing = 0.1; };
const auto weighted = [](CompileOptions& o) { o.loss.class_weights = {1, 2, 0.5, 0, 3}; };
const auto ignoring = [](CompileOptions& o) { o.loss.ignore_index = -100; };
const auto ignoring_a_class = [](CompileOptions& o) { o.loss.ignore_index = 1; };
const auto last_axis = [](CompileOptions& o) {
  o.loss.class_axis = -1;
  o.loss.ignore_index = -100;
};
const auto all_of_them = [](CompileOptions& o) {
  smooth(o);
  weighted(o);
  ignoring_a_class(o);
};
const auto weighted_last_axis = [](CompileOptions& o) {
  last_axis(o);
  weighted(o);
};
const auto of_yes = [](CompileOptions& o) { o.loss.class_weights = {1, 3}; };
const auto in_16_bits = [](CompileOptions& o) { o.precision = Precision::bf16; };
const auto tokens_in_16_bits = [](CompileOptions& o) {
  last_axis(o);
  in_16_bits(o);
};

const Row rows[] = {
    {"cross_entropy", "softmax-cross-entropy", {5}, Given::classes},
    {"cross_entropy_of_softmax", "softmax-cross-entropy", {5}, Given::classes, "Softmax"},
    {"cross_entropy_of_log_softmax", "softmax-cross-entropy", {5}, Given::classes, "LogSoftmax"},
    {"cross_entropy_samples", "softmax-cross-entropy", {5}, Given::classes, nullptr, nullptr, true},
    {"cross_entropy_smooth", "softmax-cross-entropy", {5}, Given::classes, nullptr, smooth},
    {"cross_entropy_weighted", "softmax-cross-entropy", {5}, Given::classes, nullptr, weighted, true},
    {"cross_entropy_ignoring", "softmax-cross-entropy", {5}, Given::classes, nullptr, ignoring_a_class},
    {"cross_entropy_all", "softmax-cross-entropy", {5}, Given::classes, nullptr, all_of_them, true},
    {"cross_entropy_in_16_bits", "softmax-cross-entropy", {5}, Given::classes, nullptr, in_16_bits},
    {"cross_entropy_dense", "softmax-cross-entropy", {5}, Given::shares, nullptr, nullptr, true},
    {"cross_entropy_dense_smooth", "softmax-cross-entropy", {5}, Given::shares, nullptr, smooth},
    {"cross_entropy_dense_weighted", "softmax-cross-entropy", {5}, Given::shares, nullptr, weighted},
    {"tokens_last", "softmax-cross-entropy", {6, 5}, Given::classes, nullptr, last_axis},
    {"tokens_last_weighted", "softmax-cross-entropy", {6, 5}, Given::classes, nullptr, weighted_last_axis, true},
    {"tokens_last_in_16_bits", "softmax-cross-entropy", {6, 5}, Given::classes, nullptr, tokens_in_16_bits},
    {"tokens_last_dense", "softmax-cross-entropy", {6, 5}, Given::shares, nullptr, [](CompileOptions& o) { o.loss.class_axis = -1; }},
    {"tokens_first", "softmax-cross-entropy", {5, 6}, Given::classes, nullptr, ignoring, true},
    {"tokens_first_smooth", "softmax-cross-entropy", {5, 6}, Given::classes, nullptr, smooth},
    {"tokens_between", "softmax-cross-entropy", {2, 5, 6}, Given::classes, nullptr, [](CompileOptions& o) { o.loss.class_axis = 2; }},
    {"focal", "focal:gamma=1.5:alpha=0.5", {5}, Given::classes},
    {"focal_weighted", "focal", {5}, Given::classes, nullptr, weighted, true},
    {"focal_tokens_ignoring", "focal", {6, 5}, Given::classes, nullptr, last_axis},
    {"kl", "kl-divergence", {5}, Given::shares, "Softmax"},
    {"categorical_hinge", "categorical-hinge", {5}, Given::classes, nullptr, nullptr, true},
    {"multi_margin", "multi-margin", {5, 6}, Given::classes, nullptr, ignoring},
    {"binary", "binary-cross-entropy", {1}, Given::bits, nullptr, nullptr, true},
    {"binary_of_sigmoid", "binary-cross-entropy", {1}, Given::bits, "Sigmoid"},
    {"binary_weighted_smooth", "binary-cross-entropy:pos-weight=3", {1}, Given::bits, nullptr,
     [](CompileOptions& o) {
       of_yes(o);
       smooth(o);
     },
     true},
    {"binary_dense", "binary-cross-entropy", {3, 4}, Given::dense_bits, nullptr, smooth, true},
    {"binary_in_16_bits", "binary-cross-entropy", {3, 4}, Given::dense_bits, nullptr, in_16_bits},
    {"binary_focal", "binary-focal", {4}, Given::dense_bits},
    {"binary_focal_weighted", "binary-focal", {1}, Given::bits, nullptr, of_yes, true},
    {"hinge", "hinge", {3}, Given::signs},
    {"squared_hinge", "squared-hinge", {3}, Given::signs, nullptr, nullptr, true},
    {"soft_margin", "soft-margin", {3}, Given::signs},
    {"mse", "mse", {3, 50}, Given::numbers, nullptr, nullptr, true},
    {"mse_in_16_bits", "mse", {3, 50}, Given::numbers, nullptr, in_16_bits},
    {"l1", "l1", {3}, Given::numbers},
    {"smooth_l1", "smooth-l1:beta=0.5", {3}, Given::numbers},
    {"huber", "huber:delta=0.7", {3}, Given::numbers, nullptr, nullptr, true},
    {"log_cosh", "log-cosh", {3}, Given::numbers},
    {"poisson", "poisson", {3}, Given::counts},
    {"cosine", "cosine", {2, 5}, Given::numbers, nullptr, nullptr, true},
    {"triplet", "triplet:margin=2", {3, 4}, Given::none},
    {"ctc", "ctc", {12, 5}, Given::sequences, nullptr, nullptr, true},
    {"ctc_of_softmax", "ctc:zero-infinity=1:per-label=0", {4, 5}, Given::sequences, "Softmax"},
};

std::int64_t classes_of(const Row& row) { return row.x.elements() % 5 == 0 ? 5 : 2; }

Tensor noise(Shape sample, std::mt19937& random) {
  sample.dims.insert(sample.dims.begin(), samples);
  Tensor t(TensorType{DType::float32, sample});
  for (float& v : t.write<float>()) v = std::normal_distribution<float>()(random);
  return t;
}

Tensor labels_of(const Row& row, const Labels& labels, std::mt19937& random) {
  const TensorType& sample = *labels.sample;
  Tensor t = noise(sample.shape, random);
  const auto values = t.write<float>();
  const std::int64_t classes = classes_of(row);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& v = values[i];
    if (row.labels == Given::classes)
      v = labels.ignore == -100 && random() % 3 == 0 ? -100.0F : static_cast<float>(static_cast<std::int64_t>(random()) % classes);
    if (row.labels == Given::bits || row.labels == Given::dense_bits) v = v > 0 ? 1.0F : 0.0F;
    if (row.labels == Given::counts) v = std::floor(std::abs(3 * v));
    if (row.labels == Given::signs) v = v > 0 ? 1.0F : -1.0F;
    if (row.labels == Given::sequences) v = i % 2 == 0 || random() % 2 == 0 ? static_cast<float>(1 + random() % 4) : -1.0F;
    if (row.labels == Given::shares) v = std::abs(v);
  }
  for (std::size_t i = 0; row.labels == Given::shares && i < values.size(); i += 5) {
    const float sum = values[i] + values[i + 1] + values[i + 2] + values[i + 3] + values[i + 4];
    for (std::size_t c = i; c < i + 5; ++c) values[c] /= sum;
  }
  return t.cast(sample.dtype);
}

class Evaluations : public testing::TestWithParam<Row> {};
TEST_P(Evaluations, AreThoseOfTheHost) {
  const Row& row = GetParam();
  test::Model m;
  std::string dims = "N";
  for (const std::int64_t d : row.x) dims += concat(",", d);
  m.input("x", dims).add(node("Mul", {"x", "two"}, {row.last ? "z" : "y"})).add(test::float_tensor("two", {}, {2}));
  if (row.last)
    m.add(row.last == std::string_view("Sigmoid") ? node("Sigmoid", {"z"}, {"y"})
                                                  : node(row.last, {"z"}, {"y"}, {{"axis", std::int64_t{-1}}}));
  const std::string bytes = m.output("y").bytes();
  const ModelFile file = ModelFile::parse(bytes, {});
  std::mt19937 random(7);
  ModelOptions o{.init = "keep"};
  o.plan.mode = PlanMode::inference;
  o.plan.batch = batch;
  o.plan.loss.name = row.loss;
  o.plan.loss.dense_labels = row.labels == Given::shares || row.labels == Given::dense_bits || row.labels == Given::signs;
  o.plan.loss.label_length = 2;
  o.plan.loss.sample_weights = row.weighted;
  o.plan.devices = parse_devices("cpu");
  if (row.options) row.options(o.plan);
  const Labels labels = losses_of([&](std::int64_t n) { return file.graph({.batch = n}); }, o.plan)[0];
  MemoryDataset data("made here");
  const Tensor x = noise(row.x, random), given = labels.sample ? labels_of(row, labels, random) : Tensor();
  Tensor weights(TensorType{DType::float32, Shape{samples}});
  for (float& v : weights.write<float>()) v = static_cast<float>(random() % 4);
  data.add({.name = "x"}, x);
  if (labels.sample) data.add({.name = "t", .role = Role::label}, given);
  if (row.weighted) data.add({.name = "w", .role = Role::weight}, weights);
  for (const auto& [devices, shares] : {std::pair{"cpu", ""}, {"cpu:0-2", ""}, {"cpu:0-2", "1,0,3"}}) {
    SCOPED_TRACE(concat(devices, ' ', shares));
    o.plan.devices = parse_devices(devices, shares);
    Model model(ModelFile::parse(bytes, {}));
    model.compile(o, backends);
    const Tensor y = model.predict(data)[0].tensor;
    HostMeasure host;
    measure(host, labels,
            {.dtype = y.dtype(),
             .values = y.bytes().data(),
             .given = given.bytes().data(),
             .samples = samples,
             .weights = row.weighted ? weights.values<float>().data() : nullptr});
    // Each number of a sum is rounded a few times, relatively by `unit`. The host has log(1 - p) of a sigmoid p that was rounded.
    constexpr double unit = 6e-8;
    double least = 1;
    if (labels.kind == OutputKind::sigmoid)
      for (const float p : y.values<float>()) least = std::min(least, static_cast<double>(1 - p));
    const double roundings = 30 + std::sqrt(static_cast<double>(row.x.elements())) + 1 / least;
    for (const std::int64_t by : {batch, samples}) {
      const Evaluation e = model.evaluate(data, {.batch = by});
      EXPECT_NEAR(e.loss, host.mean_loss(), unit * roundings * (1 + std::abs(host.mean_loss()))) << by;
      EXPECT_EQ(e.samples, samples);
      if (std::isnan(host.accuracy()))
        EXPECT_TRUE(std::isnan(e.accuracy));
      else
        EXPECT_EQ(e.accuracy, host.accuracy());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Evaluations, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(Evaluations, KnowEveryLoss) {
  for (const LossRow& loss : loss_rows())
    EXPECT_TRUE(loss.over == LossOver::batch ||
                std::any_of(std::begin(rows), std::end(rows), [&](const Row& row) { return parse_loss(row.loss)[0].loss == loss.name; }))
        << loss.name;
}

// The plan gives numbers of samples, and what metrics ask for, not the scores of all classes.
TEST(Evaluations, GiveWhatMetricsTake) {
  struct Asked {
    std::vector<std::string> metrics;
    std::string outputs;
  };
  test::Model m;
  m.input("x", "N,6,5").add(node("Mul", {"x", "x"}, {"z"})).add(node("Softmax", {"z"}, {"y"}, {{"axis", std::int64_t{2}}}));
  const std::string bytes = m.output("y").bytes();
  for (const Asked& asked : {Asked{{}, "top int64[4,6,1]; loss float32[4]"},
                             {{"perplexity"}, "top int64[4,6,1]; loss float32[4]; likelihood float32[4]"},
                             {{"top3", "f1", "top9"}, "top int64[4,6,5]; loss float32[4]"},
                             {{"roc-auc"}, "y float32[4,6,5]; top int64[4,6,1]; loss float32[4]"}}) {
    Model model(ModelFile::parse(bytes, {}));
    ModelOptions o{.measures = true, .metrics = asked.metrics};
    o.plan.mode = PlanMode::inference;
    o.plan.batch = 4;
    o.plan.devices = parse_devices("cpu");
    model.compile(o, backends);
    std::string outputs;
    for (const HostOutput& out : model.plan().outputs) {
      outputs += concat(outputs.empty() ? "" : "; ", out.name, ' ', out.type);
      EXPECT_EQ(out.role, out.name == "y" ? ValueRole::plain : ValueRole::measure);
    }
    EXPECT_EQ(outputs, asked.outputs);
  }
}

// A label that is no class: nothing that is computed with it is a number.
TEST(Evaluations, AreNoNumbersOfALabelThatIsNoClass) {
  test::Model m;
  m.input("x", "N,5").add(node("Mul", {"x", "x"}, {"y"}));
  const std::string bytes = m.output("y").bytes();
  Tensor x(TensorType{DType::float32, Shape{2, 5}}), t(TensorType{DType::int64, Shape{2}});
  x.write<float>()[0] = 1;
  for (const char* loss : {"softmax-cross-entropy", "focal"})
    for (const std::int64_t label : {std::int64_t{4}, std::int64_t{5}, std::int64_t{-1}}) {
      t.write<std::int64_t>()[1] = label;
      Model model(ModelFile::parse(bytes, {}));
      ModelOptions o;
      o.plan.mode = PlanMode::inference;
      o.plan.batch = 2;
      o.plan.devices = parse_devices("cpu");
      o.plan.loss.name = loss;
      model.compile(o, backends);
      EXPECT_EQ(std::isnan(model.test_on_batch(std::vector<Tensor>{x, t}).loss), label != 4) << loss << " " << label;
    }
}

}  // namespace
}  // namespace tandem
