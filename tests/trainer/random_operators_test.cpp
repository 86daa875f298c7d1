// Models that draw random numbers: each step and each sample its own, and on any number of devices the same.
#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::node;
using List = std::vector<std::int64_t>;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 8, features = 6;

// x [N,6] → h = x · a, noise, h · noise · b → y [N,3]
struct Row {
  const char* name;
  const char* batch;  // of x: N, or what a file says
  void (*noise)(test::Model&);
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
void dropped(test::Model& m, const char* x, const char* y) {
  onnx::TensorProto yes;
  yes.set_data_type(onnx::TensorProto::BOOL);
  yes.add_int32_data(1);
  m.add(test::float_tensor("half", {}, {0.5F}))
      .add(node("Constant", {}, {"yes"}, {{"value", yes}}))
      .add(node("Dropout", {x, "half", "yes"}, {y}));
}
const Row rows[] = {
    {"like_samples", "N", [](test::Model& m) { m.add(node("RandomNormalLike", {"h"}, {"noise"})); }},
    {"of_a_shape_that_follows_the_batch", "N",
     [](test::Model& m) {
       m.add(test::int_tensor("zero", {}, {0})).add(test::int_tensor("six", {1}, {features})).add(test::int_tensor("axes", {1}, {0}));
       m.add(node("Shape", {"x"}, {"s"})).add(node("Gather", {"s", "zero"}, {"n"})).add(node("Unsqueeze", {"n", "axes"}, {"n1"}));
       m.add(node("Concat", {"n1", "six"}, {"shape"}, {{"axis", std::int64_t{0}}})).add(node("ConstantOfShape", {"shape"}, {"zeros"}));
       m.add(node("RandomUniformLike", {"zeros"}, {"u"}, {{"low", 0.5F}})).add(node("Sqrt", {"u"}, {"noise"}));
     }},
    {"of_the_file_s_batch", "2",
     [](test::Model& m) {
       m.add(node("RandomNormal", {}, {"noise"}, {{"shape", List{2, features}}, {"mean", 1.0F}}));
     }},
    {"of_one_sample", "1",
     [](test::Model& m) {
       m.add(node("RandomUniform", {}, {"noise"}, {{"shape", List{1, features}}}));
     }},
    {"a_number_a_sample", "1",
     [](test::Model& m) {
       m.add(node("RandomUniform", {}, {"noise"}, {{"shape", List{1, 1}}}));
     }},
    {"samples_along_another_axis", "N",
     [](test::Model& m) {
       m.add(node("Transpose", {"h"}, {"t"}, {{"perm", List{1, 0}}})).add(node("RandomNormalLike", {"t"}, {"r"}));
       m.add(node("Transpose", {"r"}, {"noise"}, {{"perm", List{1, 0}}}));
     }},
    {"several_rows_a_sample", "N",
     [](test::Model& m) {
       m.add(test::int_tensor("pairs", {2}, {-1, 2})).add(test::int_tensor("back", {2}, {-1, features}));
       m.add(node("Reshape", {"h", "pairs"}, {"p"}))
           .add(node("RandomNormalLike", {"p"}, {"r"}))
           .add(node("Reshape", {"r", "back"}, {"noise"}));
     }},
    {"dropped", "N", [](test::Model& m) { dropped(m, "h", "noise"); }},
    {"dropped_with_samples_along_another_axis", "N",
     [](test::Model& m) {
       m.add(node("Transpose", {"h"}, {"t"}, {{"perm", List{1, 0}}}));
       dropped(m, "t", "r");
       m.add(node("Transpose", {"r"}, {"noise"}, {{"perm", List{1, 0}}}));
     }},
    {"several_dropped_rows_a_sample", "N",
     [](test::Model& m) {
       m.add(test::int_tensor("pairs", {2}, {-1, 2}))
           .add(test::int_tensor("back", {2}, {-1, features}))
           .add(node("Reshape", {"h", "pairs"}, {"p"}));
       dropped(m, "p", "r");
       m.add(node("Reshape", {"r", "back"}, {"noise"}));
     }},
    {"drawn_with_a_probability", "N",
     [](test::Model& m) { m.add(node("Sigmoid", {"h"}, {"p"})).add(node("Bernoulli", {"p"}, {"noise"})); }},
    {"drawn_classes", "N",
     [](test::Model& m) {
       m.add(node("Multinomial", {"h"}, {"k"}, {{"sample_size", std::int64_t{features}}}))
           .add(node("Cast", {"k"}, {"noise"}, {{"to", std::int64_t{1}}}));
     }},
};

test::Model file_of(const Row& row) {
  test::Model m;
  std::vector<float> a(features * features), b(features * 3);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i * i));  // rows of sines would be taken for a filter bank
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i * i));
  m.input("x", concat(row.batch, ",", features))
      .add(test::float_tensor("a", {features, features}, a))
      .add(test::float_tensor("b", {features, 3}, b));
  m.add(node("MatMul", {"x", "a"}, {"h"}));
  row.noise(m);
  m.add(node("Mul", {"h", "noise"}, {"scaled"})).add(node("MatMul", {"scaled", "b"}, {"y"})).output("y");
  return m;
}

Model model_of(const Row& row, const char* devices, std::uint64_t seed = 1) {
  ModelOptions o;
  o.plan.batch = samples;
  o.plan.devices = parse_devices(devices);
  o.seed = seed;
  o.init = "keep";
  Model model(file_of(row).parse());
  model.compile(o, backends);
  return model;
}

Tensor inputs(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n * features));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.5F + std::sin(static_cast<float>(i) * 0.7F);
  return Tensor::of<float>({n, features}, x);
}

std::vector<double> losses(Model model, double rate) {
  std::vector<std::int64_t> labels(samples);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
  const std::vector<Tensor> batch{inputs(samples), Tensor::of<std::int64_t>({samples}, labels)};
  std::vector<double> list;
  for (int step = 0; step < 4; ++step) list.push_back(model.train_on_batch(batch, rate).loss);
  return list;
}

// What no sample is in is dropped alike by all devices.
TEST(RandomOperators, DropOfAWeightTheSameOnAnyNumberOfDevices) {
  const Row row{"of_a_weight", "N", [](test::Model& m) {
                  m.add(test::float_tensor("c", {features, features}, std::vector<float>(features * features, 1.0F)));
                  dropped(m, "c", "d");
                  m.add(node("MatMul", {"h", "d"}, {"noise"}));
                }};
  const std::vector<double> one = losses(model_of(row, "cpu:0"), 0.1);
  for (const char* devices : {"cpu:0-1", "cpu:0-3"}) {
    const std::vector<double> several = losses(model_of(row, devices), 0.1);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(several[i], one[i], 1e-5 * std::abs(one[i])) << devices << ", step " << i;
  }
  EXPECT_NE(losses(model_of(row, "cpu:0", 2), 0.1), one) << "another seed";
}

class RandomOperatorRows : public testing::TestWithParam<Row> {};

TEST_P(RandomOperatorRows, DrawTheSameOnAnyNumberOfDevices) {
  const std::vector<double> one = losses(model_of(GetParam(), "cpu:0"), 0.1);
  for (const char* devices : {"cpu:0-1", "cpu:0-3"}) {
    const std::vector<double> several = losses(model_of(GetParam(), devices), 0.1);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(several[i], one[i], 1e-5 * std::abs(one[i])) << devices << ", step " << i;
  }
  EXPECT_NE(losses(model_of(GetParam(), "cpu:0", 2), 0.1), one) << "another seed";
}

TEST_P(RandomOperatorRows, DrawAnewInEachStep) {
  const std::vector<double> same_weights = losses(model_of(GetParam(), "cpu:0"), 0);
  EXPECT_NE(same_weights[0], same_weights[1]);
  EXPECT_NE(same_weights[1], same_weights[2]);
}

// A sample's numbers follow from its row of the data, not from the batch that it comes in; each sample has its own.
TEST_P(RandomOperatorRows, PredictTheSameInBatchesOfAnySize) {
  Model model = model_of(GetParam(), "cpu:0"), two = model_of(GetParam(), "cpu:0-1");
  MemoryDataset data("made here");
  data.add({.name = "x"}, inputs(10));
  const std::vector<double> whole = model.predict(data, {.batch = 10}).at(0).tensor.to_doubles();
  const std::vector<double> again = model.predict(data, {.batch = 10}).at(0).tensor.to_doubles(),
                            parts = model.predict(data, {.batch = 4}).at(0).tensor.to_doubles();
  const std::vector<double> on_two = two.predict(data, {.batch = 4}).at(0).tensor.to_doubles();
  EXPECT_EQ(again, whole);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(parts[i], whole[i], 1e-5) << i;
    EXPECT_NEAR(on_two[i], whole[i], 1e-5) << i;
  }
  // The same sample twice.
  MemoryDataset twins("twins");
  const Tensor x = inputs(1);
  std::vector<float> both(x.values<float>().begin(), x.values<float>().end());
  both.insert(both.end(), x.values<float>().begin(), x.values<float>().end());
  twins.add({.name = "x"}, Tensor::of<float>({2, features}, both));
  const std::vector<double> y = model.predict(twins, {.batch = 2}).at(0).tensor.to_doubles();
  EXPECT_NE(std::vector<double>(y.begin(), y.begin() + 3), std::vector<double>(y.begin() + 3, y.end()));
}

INSTANTIATE_TEST_SUITE_P(Rows, RandomOperatorRows, testing::ValuesIn(rows), [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
