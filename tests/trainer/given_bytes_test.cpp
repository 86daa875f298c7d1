// Images of bytes go to the device as such: what is trained, measured and predicted is the same to the bit as with numbers.
#include <random>

#include "tests/trainer/model_runs.h"

namespace tandem {
namespace {

using namespace model_tests;

constexpr std::int64_t samples = 23, classes = 10;

// Noise around a level that is the class's.
MemoryDataset images(const Shape& sample, Axes axes, DType dtype = DType::uint8) {
  Shape all = sample;
  all.dims.insert(all.dims.begin(), samples);
  std::mt19937 random(7);
  Tensor x(TensorType{DType::uint8, all}), y(TensorType{DType::int64, {samples}});
  for (std::int64_t n = 0, i = 0; n < samples; ++n) {
    y.write<std::int64_t>()[static_cast<std::size_t>(n)] = n % classes;
    for (std::int64_t k = 0; k < sample.elements(); ++k)
      x.write<std::uint8_t>()[static_cast<std::size_t>(i++)] =
          static_cast<std::uint8_t>(n % classes * 20 + static_cast<std::int64_t>(random() % 60));
  }
  MemoryDataset data("images");
  data.add({.name = "images", .axes = axes, .pixels = true}, dtype == DType::uint8 ? x : x.cast(dtype));
  data.add({.name = "labels", .role = Role::label}, y);
  return data;
}

struct Row {
  const char* name;
  const char* model;
  Shape sample;
  Axes axes;
  const char *normalize, *augment;
  Shape given;  // of a batch of one
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {
    {"cifar", "mini_googlenet", {3, 32, 32}, Axes::channels_first, "0.49,0.48,0.45,0.25,0.24,0.26", "crop=4,flip", {1, 3, 32, 32}},
    {"channels_last", "mini_googlenet", {32, 32, 3}, Axes::channels_last, "imagenet", "flip", {1, 32, 32, 3}},
    {"as_it_is", "mini_googlenet", {32, 32, 3}, Axes::channels_last, "none", "", {1, 32, 32, 3}},
    {"recipe", "mini_googlenet", {3, 32, 32}, Axes::channels_first, "0.5,0.25", "rotate=10,crop=2", {1, 3, 32, 32}},
    {"cutmix", "mini_googlenet", {32, 32, 3}, Axes::channels_last, "imagenet", "cutmix", {1, 32, 32, 3}},
    {"digits", "lenet", {1, 28, 28}, Axes::channels_first, "0.1307,0.3081", "crop=2", {1, 1, 28, 28}},
    {"digits_without_a_channel", "mlp", {28, 28}, Axes::plain, "0.1307,0.3081", "", {1, 1, 28, 28}},
};

struct Result {
  std::vector<double> losses;
  std::vector<NamedTensor> parameters, predicted;
  Evaluation measured;
  Plan plan;
};

ModelOptions options_of(const Row& row) {
  ModelOptions o = options(10, "cpu:0-1");
  o.plan.loss.dense_labels = std::string_view(row.augment) == "cutmix";
  return o;
}

Preprocess preparation(const Row& row) {
  Preprocess p;
  parse_normalize(p, row.normalize);
  if (*row.augment) parse_augment(p, row.augment);
  return p;
}

// Trains as a plan for `planned` has it, two epochs with a short last batch each.
Result run(const Row& row, const ModelOptions& o, const Preprocess& preprocess, const Dataset& data) {
  Result r;
  Model model = compiled(row.model, o);
  FitOptions fit{.epochs = 2, .learning_rate = 0.01, .preprocess = preprocess, .validation = &data};
  fit.callbacks.on_step = [&](const StepReport& s) { r.losses.push_back(s.loss); };
  model.fit(data, fit);
  r.parameters = model.parameters();
  r.measured = model.evaluate(data, {.preprocess = preprocess});
  r.predicted = model.predict(data, {.preprocess = preprocess});
  r.plan = model.plan();
  return r;
}

void expect_same(const Result& got, const Result& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_TRUE(same(got.parameters, wanted.parameters));
  EXPECT_TRUE(same(got.predicted, wanted.predicted));
  EXPECT_EQ(got.measured.loss, wanted.measured.loss);
  EXPECT_EQ(got.measured.accuracy, wanted.measured.accuracy);
}

class GivenImages : public testing::TestWithParam<Row> {};

TEST_P(GivenImages, TrainAsNumbersDo) {
  const Row& row = GetParam();
  const MemoryDataset data = images(row.sample, row.axes);
  const Preprocess preprocess = preparation(row);
  ModelOptions o = options_of(row);
  const Result wanted = run(row, o, preprocess, data);
  Model::load(template_path(row.model)).source().fit_inputs(o, data, preprocess);
  ASSERT_EQ(o.plan.given_bytes.size(), 1);
  const Result got = run(row, o, preprocess, data);
  Shape batch = row.given;
  batch[0] = o.plan.batch;
  EXPECT_EQ(got.plan.inputs.at(0).type, (TensorType{DType::uint8, batch}));
  expect_same(got, wanted);
}
INSTANTIATE_TEST_SUITE_P(Rows, GivenImages, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// A plan for bytes is not run on what is prepared otherwise, or is no bytes: those are numbers for another one, whose kernels may sum in
// another order.
TEST(GivenImages, OtherDataIsGivenAsNumbers) {
  const Row& row = rows[5];
  const MemoryDataset data = images(row.sample, row.axes), floats = images(row.sample, row.axes, DType::float32);
  ModelOptions plain = options_of(row), o = plain;
  Model::load(template_path(row.model)).source().fit_inputs(o, data, preparation(row));
  Row other = row;
  other.normalize = "0.5,0.5";
  for (const auto& [given, preprocess] : {std::pair<const Dataset*, Preprocess>{&floats, preparation(row)}, {&data, preparation(other)}}) {
    const Result got = run(row, o, preprocess, *given), wanted = run(row, plain, preprocess, *given);
    ASSERT_EQ(got.losses.size(), wanted.losses.size());
    for (std::size_t i = 0; i < wanted.losses.size(); ++i) EXPECT_NEAR(got.losses[i], wanted.losses[i], 1e-4 * wanted.losses[0]);
    EXPECT_NEAR(got.measured.loss, wanted.measured.loss, 1e-4 * wanted.losses[0]);
  }
}

// A caller's batch is of the model's own types.
TEST(GivenImages, BatchesOfACallerAreNumbers) {
  const Row& row = rows[5];
  const MemoryDataset data = images(row.sample, row.axes);
  ModelOptions o = options_of(row);
  Model::load(template_path(row.model)).source().fit_inputs(o, data, preparation(row));
  Model model = compiled(row.model, o);
  const Tensor x(TensorType{DType::float32, {4, 1, 28, 28}}), y(TensorType{DType::int64, {4}}), both[] = {x, y};
  EXPECT_TRUE(std::isfinite(model.train_on_batch(both, 0.01).loss));
  EXPECT_EQ(model.predict_on_batch({&x, 1}).at(0).shape(), (Shape{4, classes}));
  EXPECT_FALSE(model.gradients(both).empty());
}

TEST(GivenImages, NumbersAndMixturesAreNotBytes) {
  const Row& row = rows[0];
  const MemoryDataset data = images(row.sample, row.axes), floats = images(row.sample, row.axes, DType::float32);
  const Model model = Model::load(template_path(row.model));
  ModelOptions o = options_of(row);
  Preprocess mixes = preparation(row);
  parse_augment(mixes, "mixup");
  ModelOptions dense = o;
  dense.plan.loss.dense_labels = true;
  model.source().fit_inputs(dense, data, mixes);
  EXPECT_TRUE(dense.plan.given_bytes.empty());
  model.source().fit_inputs(o, floats, preparation(row));
  EXPECT_TRUE(o.plan.given_bytes.empty());
}

}  // namespace
}  // namespace tandem
