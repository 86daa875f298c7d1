// A batch computes what its samples do: predictions in batches of 1, 3 and 4 are those that ONNX Runtime makes of the same
// samples in batches of the file's own size.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

constexpr int packages_missing = 3;  // batch_oracle.py's exit code
constexpr std::int64_t samples = 12;
constexpr int random_models = 90;

struct Row {
  const char* model;  // "models/..." are the project's own, "repro/..." and "shared_models/..." those of the test material
  bool initialized = false;  // the file's weights have no values, or all the same: it gets some
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.model;
}

std::filesystem::path path_of(const std::string& model) {
  if (model.starts_with("models/")) return std::filesystem::path(TANDEM_SOURCE_DIR) / (model + ".onnx");
  const char* shared = std::getenv("TANDEM_SHARED");
  const std::string file = model.substr(model.starts_with("shared_") ? 7 : 0) + ".onnx";
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / file;
}

const char* python() {
  return std::getenv("TANDEM_PYTHON");
}
constexpr const char* no_python = "TANDEM_PYTHON does not name a Python with onnx, onnxruntime and numpy (./run-tests makes one)";

// Runs batch_oracle.py. False where its packages are missing; `log` holds what it says.
bool run_oracle(const std::string& arguments, const TemporaryFolder& folder, std::string& log) {
  const std::string file = (folder / "log").string();
  const std::string command = concat(python(), ' ', TANDEM_SOURCE_DIR, "/tests/trainer/batch_oracle.py ", arguments, " >", file, " 2>&1");
  const int status = std::system(command.c_str());
  log = read_file(file);
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) return false;
  EXPECT_EQ(status, 0) << log;
  return true;
}

Tensor noise(const TensorType& type) {
  Tensor t(type);
  std::mt19937 generator(11);
  std::normal_distribution<float> normal;
  if (type.dtype == DType::float32)
    for (float& v : t.write<float>()) v = normal(generator);
  if (type.dtype == DType::int64)
    for (std::int64_t& v : t.write<std::int64_t>()) v = static_cast<std::int64_t>(generator() % 3);
  if (type.dtype == DType::int32)
    for (std::int32_t& v : t.write<std::int32_t>()) v = static_cast<std::int32_t>(generator() % 3);
  return t;
}

// What the model computes from `samples` samples, as batch_oracle.py takes it.
std::string predictions(const std::filesystem::path& path) {
  const Backend* backends[] = {&cpu_backend()};
  std::string bytes;
  ZipWriter values([&](std::string_view part) { bytes += part; });
  for (const std::int64_t batch : {1, 3, 4}) {
    ModelOptions options;
    options.plan.mode = PlanMode::inference;
    options.plan.batch = batch;
    options.plan.devices = parse_devices("cpu");
    Model model = Model::load(path);
    model.compile(options, backends);
    MemoryDataset data("noise");
    for (const Field& field : model.data_request().inputs) {
      TensorType type = field.sample;
      type.shape.dims.insert(type.shape.dims.begin(), samples);
      if (batch == 1) values.add("in/" + field.name + ".npy", npy_of(noise(type)));
      data.add({.name = field.name}, noise(type));
    }
    for (const NamedTensor& output : model.predict(data, {.batch = batch}))
      values.add(concat("out", batch, '/', output.name, ".npy"), npy_of(output.tensor));
  }
  values.finish();
  return bytes;
}

// Writes the model with random weights.
void initialize(const std::filesystem::path& from, const std::filesystem::path& to) {
  const Backend* backends[] = {&cpu_backend()};
  ModelOptions options{.init = "he-normal"};
  options.plan.batch = 2;
  options.plan.devices = parse_devices("cpu");
  options.plan.loss.name = "mse";
  Model model = Model::load(from);
  model.compile(options, backends);
  model.save(to);
}

class BatchOracleOf : public testing::TestWithParam<Row> {};

TEST_P(BatchOracleOf, ABatchComputesWhatItsSamplesDo) {
  if (!python()) GTEST_SKIP() << no_python;
  const std::filesystem::path path = path_of(GetParam().model);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const TemporaryFolder folder;
  if (GetParam().initialized) {
    initialize(path, folder / "model.onnx");
    write_atomically(folder / "model.npz", predictions(folder / "model.onnx"));
  } else {
    write_atomically(folder / "model.npz", predictions(path));
    write_atomically(folder / "model.path", std::filesystem::absolute(path).string());
  }
  std::string log;
  if (!run_oracle("check " + folder.text(), folder, log)) GTEST_SKIP() << "TANDEM_PYTHON: " << log;
}

INSTANTIATE_TEST_SUITE_P(Models, BatchOracleOf,
                         testing::Values(Row{"shared_models/decoder_lm_torchscript", true}, Row{"shared_models/light_shufflenet", true},
                                         Row{"shared_models/light_squeezenet", true},
                                         Row{"repro/seqfirst"}, Row{"repro/seqfirst_relu"}, Row{"repro/seqfirst_b1"},
                                         Row{"repro/seqfirst_b2"}, Row{"repro/class_token"}, Row{"repro/class_token1"},
                                         Row{"repro/zeros_state"}, Row{"repro/zeros_state1"}, Row{"models/lenet"},
                                         Row{"models/mini_googlenet"}, Row{"models/mlp"}, Row{"models/mobilenetv2"},
                                         Row{"models/resnet18"}, Row{"models/resnet50"}, Row{"models/xception"},
                                         Row{"shared_models/mnist_cntk"}, Row{"shared_models/mnist_pytorch_conv_bn"},
                                         Row{"shared_models/mnist_pytorch_logsoftmax"}, Row{"shared_models/mobilenetv2_100_dynamo", true},
                                         Row{"shared_models/residual_block"}, Row{"shared_models/resnet18_dynamo", true},
                                         Row{"shared_models/squeezenet_tensor_input"}, Row{"shared_models/super_resolution"},
                                         Row{"shared_models/ultraface_rfb_320"}),
                         [](const auto& row) {
                           std::string name = row.param.model;
                           return name.replace(name.find('/'), 1, "_");
                         });

// A class token that the file holds once for each of its two samples: what is exported holds it twice again.
TEST(BatchOracle, AWeightHeldTwiceIsTrainedAsOne) {
  if (!python()) GTEST_SKIP() << no_python;
  const std::filesystem::path path = path_of("repro/class_token");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const TemporaryFolder folder;
  const Backend* backends[] = {&cpu_backend()};
  ModelOptions options;
  options.plan.batch = 4;
  options.plan.devices = parse_devices("cpu:0-1");
  Model model = Model::load(path);
  model.compile(options, backends);
  const auto token = [&] {
    for (const NamedTensor& p : model.parameters())
      if (p.name == "c") return p.tensor.to_doubles();
    return std::vector<double>{};
  };
  const std::vector<double> before = token();
  ASSERT_EQ(before.size(), 8U);
  std::vector<Tensor> batch;
  for (const HostInput& input : model.plan().inputs)
    if (!input.name.starts_with("tandem.")) batch.push_back(noise(input.type));
  model.train_on_batch(batch, 0.1);
  EXPECT_NE(token(), before);
  model.save(folder / "model.onnx");
  write_atomically(folder / "model.npz", predictions(folder / "model.onnx"));
  std::string log;
  if (!run_oracle("check " + folder.text(), folder, log)) GTEST_SKIP() << "TANDEM_PYTHON: " << log;
}

TEST(BatchOracle, RandomGraphsComputeSampleBySample) {
  if (!python()) GTEST_SKIP() << no_python;
  const TemporaryFolder folder;
  std::string log;
  if (!run_oracle(concat("make ", folder.text(), ' ', random_models), folder, log)) GTEST_SKIP() << "TANDEM_PYTHON: " << log;
  for (int seed = 0; seed < random_models; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    const std::string name = concat("random_", seed);
    write_atomically(folder / (name + ".npz"), predictions(folder / (name + ".onnx")));
  }
  run_oracle("check " + folder.text(), folder, log);
}

}  // namespace
}  // namespace tandem
