// Models whose samples lie along another axis than the first, and inputs that hold none: what is trained, measured, predicted and written.
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::filled_tensor, test::int_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 11;

std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(static_cast<float>((i * 37 + seed * 11) % 23) / 23.0F - 0.5F);
  return list;
}
onnx::TensorProto weight(const std::string& name, const std::vector<std::int64_t>& dims, int seed) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  return float_tensor(name, dims, numbers(count, seed));
}

// Scores [T,N,5] of x [T,N,3] by a GRU whose first state is h [1,N,4]; or, `batch_first`, [N,T,5] of x [N,T,3].
std::string recurrent(bool batch_first) {
  const std::vector<std::int64_t> swap{1, 0, 2};
  test::Model m;
  m.input("x", batch_first ? "N,7,3" : "7,N,3").input("h", "1,N,4");
  m.add(weight("W", {1, 12, 3}, 1)).add(weight("R", {1, 12, 4}, 2)).add(weight("v", {4, 5}, 3)).add(int_tensor("one", {1}, {1}));
  if (batch_first) m.add(node("Transpose", {"x"}, {"t"}, {{"perm", swap}}));
  m.add(node("GRU", {batch_first ? "t" : "x", "W", "R", "", "", "h"}, {"Y", "last"}, {{"hidden_size", std::int64_t{4}}}));
  m.add(node("Squeeze", {"Y", "one"}, {"y"})).add(node("MatMul", {"y", "v"}, {batch_first ? "s" : "scores"}));
  if (batch_first) m.add(node("Transpose", {"s"}, {"scores"}, {{"perm", swap}}));
  return m.output("scores").output("last").bytes();
}

Tensor floats(const Shape& shape, int seed) {
  return Tensor::of<float>(shape, numbers(shape.elements(), seed));
}

MemoryDataset sequences(bool states = true) {
  MemoryDataset d("made here");
  d.add({.name = "x"}, floats({samples, 7, 3}, 5));
  if (states) d.add({.name = "h"}, floats({samples, 1, 4}, 6));
  Tensor y(TensorType{DType::int64, Shape{samples, 7}});
  for (std::size_t i = 0; i < y.write<std::int64_t>().size(); ++i) y.write<std::int64_t>()[i] = static_cast<std::int64_t>(i * 7 % 5);
  d.add({.name = "y", .role = Role::label}, y);
  return d;
}

ModelOptions options(const char* devices = "cpu", const char* shares = "") {
  ModelOptions o{.init = "keep"};
  o.plan.batch = 4;
  o.plan.devices = parse_devices(devices, shares);
  return o;
}

Model trained(const std::string& file, const Dataset& data, ModelOptions o) {
  Model model(ModelFile::parse(file, {}));
  model.source().fit_dims(o, data);
  model.source().fit_constants(o, data);
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  model.fit(data, {.epochs = 2, .learning_rate = 0.3, .shuffle = false, .validation = &data});
  return model;
}

double difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  double most = 0;
  for (std::size_t i = 0; i < a.values<float>().size() && a.type() == b.type(); ++i)
    most = std::max(most, static_cast<double>(std::abs(a.values<float>()[i] - b.values<float>()[i])));
  return most;
}

struct DeviceRow {
  const char *devices, *shares;
};
void PrintTo(const DeviceRow& row, std::ostream* out) {
  *out << row.devices << ' ' << row.shares;
}

class SampleAxes : public testing::TestWithParam<DeviceRow> {};
TEST_P(SampleAxes, TimeFirstIsAsBatchFirst) {
  const MemoryDataset data = sequences();
  Model wanted = trained(recurrent(true), data, options()),
        got = trained(recurrent(false), data, options(GetParam().devices, GetParam().shares));
  const auto a = wanted.parameters(), b = got.parameters();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i].tensor, b[i].tensor), 2e-6) << a[i].name;
  const auto first = wanted.predict(data), second = got.predict(data);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].tensor.shape(), (Shape{samples, 7, 5}));
  EXPECT_EQ(second[1].tensor.shape(), (Shape{samples, 1, 4}));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(difference(first[i].tensor, second[i].tensor), 2e-6);
  EXPECT_NEAR(wanted.evaluate(data).loss, got.evaluate(data).loss, 1e-6);
}
INSTANTIATE_TEST_SUITE_P(All, SampleAxes,
                         testing::Values(DeviceRow{"cpu", ""}, DeviceRow{"cpu:0-1", "3,1"}, DeviceRow{"cpu:0-2", "1,2,1"}));

TEST(SampleAxesOfFiles, StayAsTheyWere) {
  const TemporaryFolder folder;
  const std::string path = folder.text() + "/trained.onnx";
  trained(recurrent(false), sequences(), options()).save(path);
  const std::vector<ModelInput> inputs = ModelFile::read(path).inputs();
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].dims.at(0).size, 7);
  EXPECT_EQ(inputs[0].dims.at(1).symbol, "N");
  EXPECT_EQ(inputs[1].dims.at(1).symbol, "N");
}

TEST(GivenValues, AreAsTheSameInTheData) {
  MemoryDataset with = sequences(false);
  with.add({.name = "h"}, Tensor(TensorType{DType::float32, Shape{samples, 1, 4}}));
  ModelOptions zeros = options("cpu:0-1", "1,3");
  zeros.constants = {{"h", Tensor::scalar(std::int64_t{0})}};
  const MemoryDataset without = sequences(false);
  const auto a = trained(recurrent(false), with, options()).parameters(), b = trained(recurrent(false), without, zeros).parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i].tensor, b[i].tensor), 2e-6) << a[i].name;
}

// x [N,3] · w, scaled by s [4], which is as long as the batch.
std::string scaled() {
  test::Model m;
  m.input("x", "N,3")
      .input("s", "4")
      .add(weight("w", {3, 4}, 1))
      .add(node("MatMul", {"x", "w"}, {"h"}))
      .add(node("Mul", {"h", "s"}, {"y"}));
  return m.output("y").bytes();
}
MemoryDataset rows_of_three() {
  MemoryDataset d("made here");
  d.add({.name = "x"}, floats({samples, 3}, 5));
  Tensor y(TensorType{DType::int64, Shape{samples}});
  d.add({.name = "y", .role = Role::label}, y);
  return d;
}

TEST(GivenValues, OfTheDataFeedEveryBatchAndEveryDevice) {
  MemoryDataset data = rows_of_three();
  data.add_constant("s", Tensor::of<float>(Shape{4}, {1, 2, 3, 4}));
  Model one = trained(scaled(), data, options()), two = trained(scaled(), data, options("cpu:0-1"));  // a batch of 4, slices of 2
  EXPECT_LT(difference(one.parameters()[0].tensor, two.parameters()[0].tensor), 2e-6);
  ModelOptions given = options();
  given.constants = {{"s", Tensor::of<std::int64_t>(Shape{4}, {1, 2, 3, 4})}};
  EXPECT_LT(difference(one.parameters()[0].tensor, trained(scaled(), rows_of_three(), given).parameters()[0].tensor), 1e-9);
}

TEST(GivenValues, AreAskedFor) {
  Model model(ModelFile::parse(scaled(), {}));
  ModelOptions o = options();
  const DataRequest request = model.data_request(o);
  ASSERT_EQ(request.inputs.size(), 1U);
  ASSERT_EQ(request.constants.size(), 1U);
  EXPECT_EQ(request.constants[0].sample, (TensorType{DType::float32, Shape{4}}));
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& e) {
      return concat(static_cast<int>(e.code()), ": ", e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message([&] { model.source().fit_constants(o, rows_of_three()); }),
            "4: made here has no value for the model's input 's' float32[4], which holds no samples: an array of its shape (npz, npy) or "
            "option set s=VALUE gives one");
  EXPECT_NE(message([&] { model.compile(o, backends); }).find("2: model '"), std::string::npos);
  MemoryDataset data = rows_of_three(), other = rows_of_three();
  data.add_constant("s", Tensor::of<float>(Shape{4}, {1, 2, 3, 4}));
  other.add_constant("s", Tensor::of<float>(Shape{4}, {1, 2, 3, 5}));
  model.source().fit_constants(o, data);
  EXPECT_NE(message([&] { model.source().fit_constants(o, other); }).find("is another than that of the training data"), std::string::npos);
}

TEST(Inputs, ThatNoLossNeedsAreNotAskedFor) {
  test::Model m;
  m.input("x", "N,3").input("state", "N").input("ids", "N,6", onnx::TensorProto::INT64).add(weight("w", {3, 4}, 1));
  m.add(node("MatMul", {"x", "w"}, {"y"})).add(node("Identity", {"state"}, {"states"})).output("y").output("states");
  const MemoryDataset data = rows_of_three();
  Model model = trained(m.bytes(), data, options("cpu:0-1"));
  EXPECT_EQ(model.data_request().inputs.size(), 1U);
  EXPECT_EQ(model.predict(data).size(), 1U);
  EXPECT_NE(model.notes().back().find("output 'states' is left out"), std::string::npos);
  ModelOptions o = options();
  o.plan.mode = PlanMode::inference;
  Model whole(m.parse());
  EXPECT_EQ(whole.data_request(o).inputs.size(), 2U);  // all but that which nothing reads
  o.outputs = {"y"};
  EXPECT_EQ(whole.data_request(o).inputs.size(), 1U);
  o.outputs.clear();
  o.measures = true;
  EXPECT_EQ(whole.data_request(o).inputs.size(), 1U);
}

TEST(Inputs, SizesAreToldByTheData) {
  test::Model m;
  m.input("x", "T,N,3").add(filled_tensor("W", {1, 12, 3})).add(filled_tensor("R", {1, 12, 4})).add(int_tensor("one", {1}, {1}));
  m.add(node("GRU", {"x", "W", "R"}, {"Y"}, {{"hidden_size", std::int64_t{4}}})).add(node("Squeeze", {"Y", "one"}, {"y"})).output("y");
  Model model(m.parse());
  ModelOptions o = options();
  const auto request = model.source().dims_request(o);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->inputs.at(0).name, "x");
  model.source().fit_dims(o, sequences(false));
  EXPECT_EQ(o.dims, (std::map<std::string, std::int64_t>{{"T", 7}}));
  EXPECT_FALSE(model.source().dims_request(o).has_value());
}

TEST(Inputs, OfAFileForOneSample) {
  test::Model m;
  m.input("x", "3")
      .add(weight("w", {3, 4}, 1))
      .add(node("MatMul", {"x", "w"}, {"s"}))
      .add(node("Softmax", {"s"}, {"y"}, {{"axis", std::int64_t{0}}}))
      .output("y");
  test::Model usual;
  usual.input("x", "N,3")
      .add(weight("w", {3, 4}, 1))
      .add(node("MatMul", {"x", "w"}, {"s"}))
      .add(node("Softmax", {"s"}, {"y"}, {{"axis", std::int64_t{1}}}))
      .output("y");
  const MemoryDataset data = rows_of_three();
  ModelOptions o = options();
  o.plan.batch = 1;
  Model one = trained(m.bytes(), data, o), many = trained(usual.bytes(), data, o);
  EXPECT_LT(difference(one.parameters()[0].tensor, many.parameters()[0].tensor), 1e-6);
  EXPECT_LT(difference(one.predict(data)[0].tensor, many.predict(data)[0].tensor), 1e-6);
}

}  // namespace
}  // namespace tandem
