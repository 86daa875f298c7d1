// Models whose labels are not one class a sample, end to end: what training, evaluation and prediction make of them, against
// numbers computed apart. Those of the files of TANDEM_SHARED are ONNX Runtime's.
#include <cmath>
#include <cstdlib>
#include <random>

#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::int_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

ModelOptions options(std::int64_t batch, const std::string& devices = "cpu", PlanMode mode = PlanMode::training) {
  ModelOptions o;
  o.plan.mode = mode;
  o.plan.batch = batch;
  o.plan.devices = parse_devices(devices);
  o.init = "keep";
  return o;
}

std::filesystem::path repro(const std::string& name) {
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "repro" / name;
}

Tensor noise(const TensorType& type, unsigned seed, std::int64_t below = 5) {
  Tensor t(type);
  std::mt19937 random(seed);
  if (type.dtype == DType::float32)
    for (float& v : t.write<float>()) v = std::uniform_real_distribution<float>(-1, 1)(random);
  else
    for (std::int64_t& v : t.write<std::int64_t>()) v = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
  return t;
}

MemoryDataset dataset(Tensor x, Tensor y) {
  MemoryDataset data("made here");
  data.add({.name = "x"}, std::move(x));
  data.add({.name = "y", .role = Role::label}, std::move(y));
  return data;
}

// Loss and accuracy of logits [rows, classes] and labels, in double.
Evaluation by_hand(const std::vector<double>& logits, const std::vector<std::int64_t>& labels) {
  const std::size_t classes = logits.size() / labels.size();
  Evaluation e{.loss = 0, .accuracy = 0};
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(r * classes);
    const auto most = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(row[static_cast<std::ptrdiff_t>(c)] - *most);
    e.loss -= (row[static_cast<std::ptrdiff_t>(labels[r])] - *most - std::log(sum)) / static_cast<double>(labels.size());
    e.accuracy += (most - row == labels[r]) / static_cast<double>(labels.size());
  }
  return e;
}

// Loss and accuracy of a template's own weights over all data: by a plan for training whose steps change nothing, and by
// evaluation. Both must agree.
Evaluation measured(const std::function<Model()>& load, const Dataset& data, ModelOptions o) {
  Model model = load();
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  double loss = 0, correct = 0;
  FitOptions fit{.epochs = 1, .learning_rate = 0, .shuffle = false};
  fit.callbacks.on_step = [&](const StepReport& r) {
    loss += r.loss * static_cast<double>(r.samples) / static_cast<double>(data.size());
    correct += r.accuracy * static_cast<double>(r.samples) / static_cast<double>(data.size());
  };
  model.fit(data, fit);
  const Evaluation e = model.evaluate(data);
  EXPECT_NEAR(e.loss, loss, 1e-5);
  EXPECT_NEAR(e.accuracy, correct, 1e-6);
  return e;
}

struct ReproRow {
  const char* name;
  const char* model;
  const char* data;
  std::int64_t labels_of_a_sample;  // made here, 0: the file's
  double loss, accuracy;            // ONNX Runtime's output and numpy
};
void PrintTo(const ReproRow& row, std::ostream* out) {
  *out << row.name;
}
class ReproLabels : public testing::TestWithParam<ReproRow> {};
TEST_P(ReproLabels, GiveOnnxRuntimesLoss) {
  const ReproRow& row = GetParam();
  if (!std::filesystem::exists(repro(row.model)))
    GTEST_SKIP() << repro(row.model) << " is not there: set TANDEM_SHARED to the folder of test material";
  const auto load = [&] { return Model::load(repro(row.model)); };
  const Splits file = open_data("npz:" + repro(row.data).string(), load().data_request(options(3)));
  const MemoryDataset* data = dynamic_cast<const MemoryDataset*>(file.train.get());
  MemoryDataset made("made here");
  if (row.labels_of_a_sample > 0) {
    Tensor y(TensorType{DType::int64, {data->size(), row.labels_of_a_sample}});
    std::int64_t i = 0;
    for (std::int64_t& v : y.write<std::int64_t>()) v = i++ * 7919 % 13 % 5;
    made = dataset(data->values(0), y);
    data = &made;
  }
  for (const auto& [batch, devices] : {std::pair<std::int64_t, const char*>{4, "cpu"}, {3, "cpu"}, {3, "cpu:0-1"}}) {
    const Evaluation e = measured(load, *data, options(batch, devices));
    EXPECT_NEAR(e.loss, row.loss, 1e-5) << batch << " on " << devices;
    EXPECT_NEAR(e.accuracy, row.accuracy, 1e-6) << batch << " on " << devices;
  }
}
INSTANTIATE_TEST_SUITE_P(All, ReproLabels,
                         testing::Values(ReproRow{"lm", "lm.onnx", "lm.npz", 0, 2.9941211103069656, 0.08333333333333333},
                                         ReproRow{"lm_softmax", "lm_softmax.onnx", "lm.npz", 0, 3.0157064711952413, 0.041666666666666664},
                                         ReproRow{"lm2", "lm2.onnx", "big.npz", 200, 1.677024577154171, 0.1975},
                                         ReproRow{"x_and_adj", "x_and_adj.onnx", "xa.npz", 0, 1.077123987703013, 0.5}),
                         [](const auto& info) { return info.param.name; });

TEST(ReproLabels, ThatDoNotFitAreRefused) {
  if (!std::filesystem::exists(repro("lm2.onnx")))
    GTEST_SKIP() << repro("lm2.onnx") << " is not there: set TANDEM_SHARED to the folder of test material";
  const Splits data = open_data("npz:" + repro("big.npz").string());
  Model model = Model::load(repro("lm2.onnx"));
  ModelOptions o = options(64);
  model.source().fit_labels(o, *data.train);
  expect_error(ExitCode::data, "samples of 'y' are int64[], the model's labels take int64[200] per sample",
               [&] { model.source().check_data(*data.train, o, {}); });
  for (const char* name : {"no_batch_out.onnx", "no_batch_out3.onnx"}) {
    Model none = Model::load(repro(name));
    for (const PlanMode mode : {PlanMode::training, PlanMode::inference}) {
      ModelOptions l1 = options(3, "cpu", mode);
      l1.plan.loss.name = "l1";
      expect_error(ExitCode::model, "'y' does not grow with the batch along axis 0", [&] {
        none.compile(l1, backends);
        none.evaluate(dataset(noise({DType::float32, {24, 8}}, 1), noise({DType::float32, {24, 1}}, 2)));
      });
    }
    none.compile(options(3, "cpu", PlanMode::inference), backends);
    expect_error(ExitCode::model, "output 'y' float32", [&] {
      none.predict(dataset(noise({DType::float32, {24, 8}}, 1), noise({DType::float32, {24, 1}}, 2)));
    });
  }
}

// x [N,6,4] → MatMul [4,5] → logits, as the ending makes them of m [N,6,5]
test::Model head(const std::function<void(test::Model&)>& ending) {
  test::Model m;
  const Tensor w = noise({DType::float32, {4, 5}}, 7);
  m.input("x", "N,6,4")
      .add(float_tensor("w", {4, 5}, {w.values<float>().begin(), w.values<float>().end()}))
      .add(node("MatMul", {"x", "w"}, {"m"}));
  ending(m);
  return m;
}
const auto as_it_is = [](test::Model& m) { m.output("m"); };
const auto flattened = [](test::Model& m) { m.add(int_tensor("s", {2}, {-1, 5})).add(node("Reshape", {"m", "s"}, {"y"})).output("y"); };
const auto softmax_flattened = [](test::Model& m) {
  m.add(node("Softmax", {"m"}, {"p"}, {{"axis", std::int64_t{-1}}}))
      .add(int_tensor("s", {2}, {-1, 5}))
      .add(node("Reshape", {"p", "s"}, {"y"}))
      .output("y");
};
const auto classes_first = [](test::Model& m) {
  m.add(node("Transpose", {"m"}, {"y"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}})).output("y");
};

std::vector<double> product(const Tensor& x) {
  const Tensor w = noise({DType::float32, {4, 5}}, 7);
  const auto a = x.values<float>(), b = w.values<float>();
  std::vector<double> y(a.size() / 4 * 5);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t k = 0; k < 4; ++k) y[i] += static_cast<double>(a[i / 5 * 4 + k]) * static_cast<double>(b[k * 5 + i % 5]);
  return y;
}

struct HeadRow {
  const char* name;
  void (*ending)(test::Model&);
};
void PrintTo(const HeadRow& row, std::ostream* out) {
  *out << row.name;
}
class Heads : public testing::TestWithParam<HeadRow> {};
TEST_P(Heads, OfPlacesAndClassesAreExact) {
  const Tensor x = noise({DType::float32, {11, 6, 4}}, 3), y = noise({DType::int64, {11, 6}}, 4);
  const MemoryDataset data = dataset(x, y);
  const std::string bytes = head(GetParam().ending).bytes();
  const auto load = [&] { return Model(ModelFile::parse(bytes, {})); };
  const Evaluation wanted = by_hand(product(x), {y.values<std::int64_t>().begin(), y.values<std::int64_t>().end()});
  for (const auto& [batch, devices] : {std::pair<std::int64_t, const char*>{4, "cpu"}, {4, "cpu:0-2"}, {11, "cpu:0-1"}, {1, "cpu"}}) {
    const Evaluation e = measured(load, data, options(batch, devices));
    EXPECT_NEAR(e.loss, wanted.loss, 1e-5) << batch << " on " << devices;
    EXPECT_NEAR(e.accuracy, wanted.accuracy, 1e-6) << batch << " on " << devices;
  }
}
INSTANTIATE_TEST_SUITE_P(All, Heads,
                         testing::Values(HeadRow{"classes_last", as_it_is}, HeadRow{"flattened", flattened},
                                         HeadRow{"softmax_flattened", softmax_flattened}, HeadRow{"classes_first", classes_first}),
                         [](const auto& info) { return info.param.name; });

TEST(FlattenedHeads, PredictAllRowsOfAllSamples) {
  const Tensor x = noise({DType::float32, {11, 6, 4}}, 3);
  const std::vector<double> wanted = product(x);
  for (const char* devices : {"cpu", "cpu:0-2"}) {
    Model model(head(flattened).parse());
    model.compile(options(4, devices, PlanMode::inference), backends);
    const std::vector<NamedTensor> results = model.predict(dataset(x, noise({DType::int64, {11, 6}}, 4)));
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(to_string(results[0].tensor.type()), "float32[66,5]");
    const std::vector<double> got = results[0].tensor.to_doubles();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-5) << i << " on " << devices;
  }
}

// [6·N,5]: as many rows as a flattened head has, in another order.
TEST(FlattenedHeads, OfPlacesBeforeSamplesAreRefused) {
  const Model model(head([](test::Model& m) {
                      m.add(node("Transpose", {"m"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
                      m.add(int_tensor("s", {2}, {-1, 5})).add(node("Reshape", {"t", "s"}, {"y"})).output("y");
                    }).parse());
  const MemoryDataset data = dataset(noise({DType::float32, {8, 6, 4}}, 3), noise({DType::int64, {8, 6}}, 4));
  expect_error(ExitCode::model, "'y' float32[24,5] holds its 4 samples along axis 0, 6 times",
               [&] { model.source().check_data(data, options(4), {}); });
}

TEST(FlattenedHeads, TakeLabelsInOneRow) {
  const Tensor x = noise({DType::float32, {11, 6, 4}}, 3), y = noise({DType::int64, {66}}, 4);
  const TemporaryFolder folder;
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  zip.add("x.npy", npy_of(x));
  zip.add("y.npy", npy_of(y));
  zip.finish();
  const std::string path = "npz:" + folder.write("d.npz", bytes);
  Model model(head(flattened).parse());
  const Splits data = open_data(path, model.data_request(options(4)));
  EXPECT_EQ(to_string(data.train->fields()[1].sample), "int64[6]");
  expect_error(ExitCode::data, "'y' has 66 samples, 'x' has 11", [&] { open_data(path); });
}

TEST(LossOn, AnyValueTrainsAndIsMeasured) {
  // The first output has nothing to do with the loss, which is on the inner value m.
  const std::string bytes = head([](test::Model& m) {
                              m.add(filled_tensor("v", {4, 3})).add(node("MatMul", {"x", "v"}, {"other"})).output("other");
                              m.add(node("Relu", {"m"}, {"r"})).output("r");
                            }).bytes();
  const Tensor x = noise({DType::float32, {11, 6, 4}}, 3), y = noise({DType::int64, {11, 6}}, 4);
  const Evaluation wanted = by_hand(product(x), {y.values<std::int64_t>().begin(), y.values<std::int64_t>().end()});
  ModelOptions o = options(4);
  o.plan.loss.on = "m";
  const Evaluation e = measured([&] { return Model(ModelFile::parse(bytes, {})); }, dataset(x, y), o);
  EXPECT_NEAR(e.loss, wanted.loss, 1e-5);
  // Evaluation alone, and prediction writes the model's outputs and no others.
  Model model(ModelFile::parse(bytes, {}));
  o.plan.mode = PlanMode::inference;
  o.plan.loss.class_axis = 2;
  model.compile(o, backends);
  EXPECT_NEAR(model.evaluate(dataset(x, y)).loss, wanted.loss, 1e-5);
  const auto results = model.predict(dataset(x, y));
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].name, "other");
  o.plan.loss.on = "mm";
  expect_error(ExitCode::usage, "option loss_on mm: model '", [&] { model.source().check_data(dataset(x, y), o, {}); });
  expect_error(ExitCode::usage, "did you mean 'm'?", [&] { model.source().check_data(dataset(x, y), o, {}); });
}

TEST(Predict, LeavesOutWhatIsOfNoSample) {
  Model model(head([](test::Model& m) {
                m.add(node("ReduceMean", {"m"}, {"mean"}, {{"keepdims", std::int64_t{0}}})).output("mean").output("m");
              }).parse());
  model.compile(options(4, "cpu", PlanMode::inference), backends);
  const auto results = model.predict(dataset(noise({DType::float32, {11, 6, 4}}, 3), noise({DType::int64, {11, 6}}, 4)));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].name, "m");
  EXPECT_EQ(model.notes().back(), "output 'mean' float32[] does not hold its samples along axis 0 and is left out");
}

// tokens [N,3] → embedding of 7 rows → sum of places → [N,4]
test::Model embedding() {
  test::Model m;
  m.input("tokens", "N,3", onnx::TensorProto::INT32)
      .add(filled_tensor("e", {7, 4}))
      .add(node("Cast", {"tokens"}, {"t"}, {{"to", std::int64_t{7}}}));
  m.add(node("Gather", {"e", "t"}, {"g"}))
      .add(node("ReduceSum", {"g", "axes"}, {"y"}, {{"keepdims", std::int64_t{0}}}))
      .add(int_tensor("axes", {1}, {1}))
      .output("y");
  return m;
}

TEST(Indices, RandomOnesLieInTheTable) {
  Model model(embedding().parse());
  const Splits data = open_data("random,samples=200", model.data_request(options(4)));
  std::vector<std::int32_t> tokens(600);
  std::vector<std::int64_t> all(200);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  data.train->read(0, all, reinterpret_cast<std::byte*>(tokens.data()));
  EXPECT_EQ(*std::min_element(tokens.begin(), tokens.end()), 0);
  EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), 6);
}

TEST(Indices, OutOfRangeAreRefusedBySampleAndValue) {
  Model model(embedding().parse());
  ModelOptions o = options(2);
  const auto with = [&](std::vector<std::int64_t> tokens, std::vector<std::int64_t> labels) {
    MemoryDataset data("made here");
    data.add({.name = "tokens"}, Tensor::of<std::int64_t>({2, 3}, tokens));
    data.add({.name = "y", .role = Role::label}, Tensor::of<std::int64_t>({2}, labels));
    return data;
  };
  model.source().check_data(with({0, 1, 6, -7, 2, 3}, {0, 3}), o, {});
  expect_error(ExitCode::data, "sample 1 has 7 in 'tokens', the model's input 'tokens' takes one of 7 (-7 to 6)",
               [&] { model.source().check_data(with({0, 1, 2, 7, 2, 3}, {0, 3}), o, {}); });
  expect_error(ExitCode::data, "sample 0 has -8 in 'tokens'", [&] { model.source().check_data(with({0, -8, 2, 1, 2, 3}, {0, 3}), o, {}); });
  expect_error(ExitCode::data, "sample 1 has label 4, the model's output has 4 classes (0 to 3)",
               [&] { model.source().check_data(with({0, 1, 2, 1, 2, 3}, {0, 4}), o, {}); });
  expect_error(ExitCode::data, "option ignore_index -100 leaves such places out", [&] {
    model.source().check_data(with({0, 1, 2, 1, 2, 3}, {0, -100}), o, {});
  });
  model.compile(options(2, "cpu", PlanMode::inference), backends);
  expect_error(ExitCode::data, "sample 1 has 7 in 'tokens'", [&] { model.predict(with({0, 1, 2, 7, 2, 3}, {0, 3})); });
}

TEST(Indices, MustBeIntegers) {
  Model model(head(as_it_is).parse());
  ModelOptions o = options(4);
  const MemoryDataset data = dataset(noise({DType::float32, {11, 6, 4}}, 3), noise({DType::float32, {11}}, 4));
  model.source().fit_labels(o, data);
  expect_error(ExitCode::data, "'y' is float32[] per sample, the loss takes class indices, which are integers: store them as int64",
               [&] { model.source().check_data(data, o, {}); });
}

// An input without samples has a value, or nothing runs.
TEST(Inputs, WithoutSamplesHaveAValue) {
  test::Model m;
  m.input("x", "N,4").input("table", "5,3").add(filled_tensor("w", {4, 3})).add(node("MatMul", {"x", "w"}, {"h"}));
  m.add(node("ReduceSum", {"table"}, {"t"}, {{"keepdims", std::int64_t{0}}})).add(node("Add", {"h", "t"}, {"y"})).output("y");
  Model model(m.parse());
  expect_error(ExitCode::usage, "its input 'table' float32[5,3] holds no samples and has no value: option set table=VALUE gives one",
               [&] { model.compile(options(2), backends); });
}

}  // namespace
}  // namespace tandem
