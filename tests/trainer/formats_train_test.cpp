// The same numbers train the same weights, whatever the format they come in; a text trains a model of its tokens.
#include <fstream>
#include <numeric>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/data/npy.h"
#include "trainer/data/zip.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 60;

float value(std::int64_t i, std::int64_t k) { return static_cast<float>((i * 7 + k * 3) % 11) / 4 + (k == i % 3 ? 2.0f : 0.0f); }

ModelOptions options() {
  ModelOptions o;
  o.plan.batch = 12;
  o.plan.devices = parse_devices("cpu");
  o.init = "keep";
  return o;
}

// x [N,4] → [N,3]
std::string linear() {
  test::Model m;
  std::vector<float> w(12);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) / 8;
  m.input("x", "N,4").add(float_tensor("w", {4, 3}, w)).add(node("MatMul", {"x", "w"}, {"y"})).output("y");
  return m.bytes();
}

std::vector<double> trained_on(const std::string& spec, double* accuracy = nullptr) {
  Model model(ModelFile::parse(linear(), {}));
  ModelOptions o = options();
  const Splits data = open_data(spec, model.data_request(o));
  model.fit_labels(o, *data.train);
  model.compile(o, backends);
  FitOptions fit{.epochs = 20, .learning_rate = 0.1};
  model.fit(*data.train, fit);
  if (accuracy) *accuracy = model.evaluate(*data.train).accuracy;
  return model.parameters()[0].tensor.to_doubles();
}

TEST(Formats, TrainTheSameWeights) {
  const TemporaryFolder folder;
  std::string csv = "a,b,c,d,kind\n", lines;
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < samples; ++i) {
    std::string row;
    for (std::int64_t k = 0; k < 4; ++k) {
      x.push_back(value(i, k));
      row += concat(k ? "," : "", text_of(static_cast<double>(x.back())));
    }
    y.push_back(i % 3);
    csv += concat(row, ",", "xyz"[i % 3], '\n');
    lines += concat("{\"x\": [", row, "], \"label\": ", i % 3, "}\n");
  }
  const Tensor inputs = Tensor::of<float>({samples, 4}, x), labels = Tensor::of<std::int64_t>({samples}, y);
  std::string npz;
  ZipWriter zip([&](std::string_view part) { npz += part; });
  zip.add("x.npy", npy_of(inputs));
  zip.add("y.npy", npy_of(labels));
  zip.finish();
  double accuracy = 0;
  const std::vector<double> wanted = trained_on("npz:" + folder.write("a.npz", npz), &accuracy);
  EXPECT_GT(accuracy, 0.9);
  EXPECT_EQ(trained_on("csv:" + folder.write("a.csv", csv)), wanted);
  EXPECT_EQ(trained_on("jsonl:" + folder.write("a.jsonl", lines)), wanted);
  EXPECT_EQ(trained_on(concat("npy:", folder.write("x.npy", npy_of(inputs)), ',', folder.write("y.npy", npy_of(labels)))), wanted);
}

// What classes are called goes with the model: data of one class alone is numbered as in training.
TEST(Formats, NamesOfClassesStayWithTheModel) {
  const TemporaryFolder folder;
  std::string csv = "a,b,c,d,kind\n", z = csv;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::string row = concat(i % 3 == 0, ',', i % 3 == 1, ',', i % 3 == 2, ",1,", "xyz"[i % 3], '\n');
    csv += row;
    if (i % 3 == 2) z += row;
  }
  const std::string trained = (folder / "trained.onnx").string(), only = "csv:" + folder.write("z.csv", z);
  {
    Model model(ModelFile::parse(linear(), {}));
    const Splits data = open_data("csv:" + folder.write("a.csv", csv), model.data_request(options()));
    model.compile(options(), backends);
    model.fit(*data.train, {.epochs = 20, .learning_rate = 0.5});
    EXPECT_EQ(model.evaluate(*open_data(only, model.data_request()).train).accuracy, 1);
    model.save(trained);
  }
  Model model = Model::load(trained);
  ModelOptions o = options();
  o.plan.mode = PlanMode::inference;
  model.compile(o, backends);
  EXPECT_EQ(model.data_request().class_names, (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(model.evaluate(*open_data(only, model.data_request()).train).accuracy, 1);
  const std::string other = "csv:" + folder.write("w.csv", "a,b,c,d,kind\n1,0,0,1,w\n");
  expect_error(ExitCode::data, "class 'w' is not among those trained on: x=0, y=1, z=2", [&] { open_data(other, model.data_request()); });
}

TEST(Formats, ATextTrainsAModelOfItsCharacters) {
  // ids [N,8] → a row of a table each → logits [N,8,4]
  test::Model m;
  m.input("ids", "N,8", onnx::TensorProto::INT64).add(filled_tensor("table", {4, 4})).add(node("Gather", {"table", "ids"}, {"y"})).output("y");
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcd";  // each tells the next
  Model model(m.parse());
  ModelOptions o = options();
  const Splits data = open_data("text:" + folder.write("a.txt", text) + ",val=0.2", model.data_request(o));
  model.fit_labels(o, *data.train);
  model.check_data(*data.train, o, {});
  model.compile(o, backends);
  model.fit(*data.train, {.epochs = 50, .learning_rate = 2});
  EXPECT_EQ(model.evaluate(*data.validation).accuracy, 1);
  EXPECT_EQ(model.data_request().class_names, (std::vector<std::string>{"a", "b", "c", "d"}));
}

}  // namespace
}  // namespace tandem
