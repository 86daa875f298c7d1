// The same numbers train the same weights, whatever the format they come in; a text trains a model of its tokens.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "base/file.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
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
  model.source().fit_labels(o, *data.train);
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

// Drawn digits as idx files.
void write_digits(const TemporaryFolder& folder, std::int64_t count) {
  const Splits data = open_data(concat("synthetic:digits,train=", count, ",test=10"));
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::string images(static_cast<std::size_t>(count) * 28 * 28, '\0'), bytes(static_cast<std::size_t>(count), '\0');
  data.train->read(0, all, reinterpret_cast<std::byte*>(images.data()));
  ASSERT_EQ(data.train->fields()[0].sample, (TensorType{DType::uint8, {1, 28, 28}}));
  visit_number(data.train->fields()[1].sample.dtype, [&]<class T>() {
    std::vector<std::byte> raw(bytes.size() * sizeof(T));
    data.train->read(1, all, raw.data());
    std::transform(reinterpret_cast<const T*>(raw.data()), reinterpret_cast<const T*>(raw.data()) + count, bytes.begin(),
                   [](T v) { return static_cast<char>(v); });
  });
  const std::string size{static_cast<char>(count >> 24), static_cast<char>(count >> 16), static_cast<char>(count >> 8),
                         static_cast<char>(count)};
  folder.write("train-images-idx3-ubyte", std::string("\0\0\x08\3", 4) + size + std::string("\0\0\0\x1c\0\0\0\x1c", 8) + images);
  folder.write("train-labels-idx1-ubyte", std::string("\0\0\x08\1", 4) + size + bytes);
}

struct Trained {
  std::vector<double> weights;
  double first_loss, last_loss, accuracy;
};
Trained trained_on_digits(const std::string& spec, std::int64_t workers) {
  test::Model m;
  m.input("x", "N,1,28,28")
      .add(filled_tensor("w", {784, 10}, 0.0F))
      .add(node("Flatten", {"x"}, {"f"}))
      .add(node("MatMul", {"f", "w"}, {"y"}))
      .output("y");
  Model model(ModelFile::parse(m.bytes(), {}));
  ModelOptions o = options();
  o.plan.batch = 20;
  const Splits data = open_data(spec, model.data_request(o));
  model.source().fit_labels(o, *data.train);
  model.source().check_data(*data.train, o, {});
  model.source().fit_inputs(o, *data.train, {});  // images are given as bytes, rows of a table as numbers
  model.compile(o, backends);
  FitOptions fit{.epochs = 6, .learning_rate = 0.4};
  fit.preprocess.workers = workers;
  const History history = model.fit(*data.train, fit);
  return {model.parameters()[0].tensor.to_doubles(), history.epochs.front().loss, history.epochs.back().loss,
          model.evaluate(*data.train).accuracy};
}

// Digits as files of every format train, to the same bits by any number of workers; and, where the format loses nothing, whatever it is.
TEST(Formats, OfDigitsTrain) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with numpy, pyarrow and Pillow (./run-tests makes one)";
  const TemporaryFolder folder;
  write_digits(folder, 200);
  const std::string log = (folder / "log").string();
  const int status =
      std::system(concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/digit_files.py ", folder.text(), " >", log, " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "TANDEM_PYTHON: " << read_file(log);
  ASSERT_EQ(status, 0) << read_file(log);
  const std::vector<double> wanted = trained_on_digits(concat("npz:", folder.text(), "/digits.npz"), 1).weights;
  const std::string decoders = image_formats();
  for (const auto& [spec, decoder] : {std::pair{"images:TMP/png", "PNG"},
                                      {"images:TMP/jpg", "JPEG"},
                                      {"csv:TMP/digits.csv", ""},
                                      {"npz:TMP/digits.npz", ""},
                                      {"npy:TMP/x.npy,TMP/y.npy", ""},
                                      {"jsonl:TMP/digits.jsonl", ""},
                                      {"webdataset:TMP/digits-{0..1}.tar", "PNG"},
                                      {"tfrecord:TMP/digits.tfrecord", "PNG"},
                                      {"parquet:TMP/digits.parquet", ""}}) {
    SCOPED_TRACE(spec);
    if (decoders.find(decoder) == std::string::npos) continue;
    std::string at = spec;
    for (std::size_t i; (i = at.find("TMP")) != std::string::npos;) at.replace(i, 3, folder.text());
    const Trained one = trained_on_digits(at, 1);
    EXPECT_LT(one.last_loss, 0.6 * one.first_loss);
    EXPECT_GT(one.accuracy, 0.85);
    EXPECT_TRUE(std::string_view(decoder) == "JPEG" || one.weights == wanted) << "other weights than of npz";
    for (const std::int64_t workers : {2, 4}) EXPECT_TRUE(trained_on_digits(at, workers).weights == one.weights) << workers << " workers";
  }
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

// What stood for missing values in training stands for them wherever the model is used.
TEST(Formats, MeansOfColumnsStayWithTheModel) {
  const TemporaryFolder folder;
  std::string csv = "a,b,c,d,kind\n", other = csv;
  for (std::int64_t i = 0; i < samples; ++i)
    csv += concat(i % 3 == 0, ',', i % 3 == 1, ',', i % 3 == 2, ',', i % 5 == 0 ? "NA" : i % 2 ? "1" : "5", ',', "xyz"[i % 3], '\n');
  other += "1,0,0,NA,x\n0,1,0,40,y\n";
  const std::string trained = (folder / "trained.onnx").string(), path = folder.write("other.csv", other);
  {
    Model model(ModelFile::parse(linear(), {}));
    const Splits data = open_data("csv:" + folder.write("a.csv", csv) + ",missing=mean", model.data_request(options()));
    model.compile(options(), backends);
    model.fit(*data.train, {.epochs = 2, .learning_rate = 0.05});
    EXPECT_EQ(data.train->means().at("d"), 3);
    model.save(trained);
  }
  Model model = Model::load(trained);
  ModelOptions o = options();
  o.plan.mode = PlanMode::inference;
  model.compile(o, backends);
  EXPECT_EQ(model.data_request().means.at("d"), 3);
  const auto fourth = [](const Dataset& data) {  // number of the first row
    std::vector<float> x(4);
    const std::int64_t first = 0;
    const auto input = std::ranges::find(data.fields(), Role::input, &Field::role);
    data.read(static_cast<std::size_t>(input - data.fields().begin()), {&first, 1}, reinterpret_cast<std::byte*>(x.data()));
    return x[3];
  };
  for (const char* how : {"", ",missing=mean"}) {
    const Splits data = open_data("csv:" + path + how, model.data_request());
    EXPECT_EQ(fourth(*data.train), 3) << how;
    bool told = false;
    for (const std::string& note : data.train->notes())
      told = told || note.find("1 missing values are their column's mean (as the model was trained)") != std::string::npos;
    EXPECT_TRUE(told);
  }
  EXPECT_EQ(fourth(*open_data("csv:" + path + ",missing=7", model.data_request()).train), 7);
}

TEST(Formats, ATextTrainsAModelOfItsCharacters) {
  // ids [N,8] → a row of a table each → logits [N,8,4]
  test::Model m;
  m.input("ids", "N,8", onnx::TensorProto::INT64)
      .add(filled_tensor("table", {4, 4}))
      .add(node("Gather", {"table", "ids"}, {"y"}))
      .output("y");
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abcd";  // each tells the next
  const std::string spec = "text:" + folder.write("a.txt", text) + ",val=0.2";
  std::vector<std::vector<double>> weights;
  for (const std::int64_t workers : {1, 2, 4}) {
    Model model(m.parse());
    ModelOptions o = options();
    const Splits data = open_data(spec, model.data_request(o));
    model.source().fit_labels(o, *data.train);
    model.source().check_data(*data.train, o, {});
    model.compile(o, backends);
    FitOptions fit{.epochs = 50, .learning_rate = 2};
    fit.preprocess.workers = workers;
    const History history = model.fit(*data.train, fit);
    EXPECT_LT(history.epochs.back().loss, 0.5 * history.epochs.front().loss);
    EXPECT_EQ(model.evaluate(*data.validation).accuracy, 1);
    EXPECT_EQ(model.data_request().class_names, (std::vector<std::string>{"a", "b", "c", "d"}));
    weights.push_back(model.parameters()[0].tensor.to_doubles());
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(weights[0], weights[2]);
}

}  // namespace
}  // namespace tandem
