// What other readers of ONNX make of exports and training graphs: onnx's checker and reference evaluator, ONNX Runtime.
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

constexpr int packages_missing = 3;  // check_export.py's exit code

struct Row {
  const char* model;  // "models/..." are the project's own
  const char* loss = "softmax-cross-entropy";
  std::int64_t head = 0;  // so many classes and not the template's
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.model;
}

std::filesystem::path path_of(const std::string& model) {
  if (model.starts_with("models/")) return std::filesystem::path(TANDEM_SOURCE_DIR) / (model + ".onnx");
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "models" / (model + ".onnx");
}

Tensor noise(const TensorType& type) {
  Tensor t(type);
  std::mt19937 generator(11);
  std::normal_distribution<float> normal;
  if (type.dtype == DType::float32)
    for (float& v : t.write<float>()) v = normal(generator);
  return t;  // labels: class 0
}

// Trains for a step, and leaves the export, the training graph, an input and what the model computes from it in `folder`.
void write_material(const Row& row, const std::filesystem::path& path, const TemporaryFolder& folder) {
  const Backend* backends[] = {&cpu_backend()};
  ModelOptions options{.init = "he-normal"};
  options.plan.batch = 2;
  options.plan.loss.name = row.loss;
  options.plan.devices = parse_devices("cpu");
  WeightOptions weights;
  if (row.head > 0) weights.head = row.head;
  Model model = Model::load(path, weights);
  model.compile(options, backends);
  std::vector<Tensor> batch;
  for (const HostInput& input : model.plan().inputs)
    if (!input.name.starts_with("tandem.")) batch.push_back(noise(input.type));
  model.train_on_batch(batch, 1e-4);
  model.save(folder / "export.onnx");
  write_atomically(folder / "graph.onnx", model.source().training_graph(options));

  // One sample: the batch that all templates have, those with a fixed batch too.
  std::string bytes;
  ZipWriter values([&](std::string_view part) { bytes += part; });
  MemoryDataset sample("noise");
  for (const Field& field : model.data_request().inputs) {
    TensorType type = field.sample;
    type.shape.dims.insert(type.shape.dims.begin(), 1);
    values.add("in/" + field.name + ".npy", npy_of(noise(type)));
    sample.add({.name = field.name}, noise(type));
  }
  for (const NamedTensor& output : model.predict(sample, {.batch = 1})) values.add("out/" + output.name + ".npy", npy_of(output.tensor));
  values.finish();
  write_atomically(folder / "values.npz", bytes);
}

class ExportOracle : public testing::TestWithParam<Row> {};

TEST_P(ExportOracle, OtherReadersAgree) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with onnx, onnxruntime and numpy (./run-tests makes one)";
  const std::filesystem::path path = path_of(GetParam().model);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const TemporaryFolder folder;
  write_material(GetParam(), path, folder);
  const std::string log = (folder / "log").string();
  std::string command = concat(python, " ", TANDEM_SOURCE_DIR, "/tests/trainer/check_export.py");
  for (const char* file : {"export.onnx", "values.npz", "graph.onnx"}) command += ' ' + (folder / file).string();
  const int status = std::system((command + " >" + log + " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) GTEST_SKIP() << "TANDEM_PYTHON: " << read_file(log);
  EXPECT_EQ(status, 0) << read_file(log);
}

INSTANTIATE_TEST_SUITE_P(Models, ExportOracle,
                         testing::Values(Row{"light_bvlc_alexnet"}, Row{"light_densenet121"}, Row{"light_inception_v1"},
                                         Row{"light_inception_v2"}, Row{"light_resnet50"}, Row{"light_shufflenet"}, Row{"light_squeezenet"},
                                         Row{"light_vgg19"}, Row{"light_zfnet512"}, Row{"mnist_cntk"}, Row{"mnist_pytorch_conv_bn"},
                                         Row{"mnist_pytorch_logsoftmax"}, Row{"mnist_pytorch_logsoftmax", "softmax-cross-entropy", 5},
                                         Row{"mobilenetv2_100_dynamo"}, Row{"residual_block"}, Row{"resnet18_dynamo"},
                                         Row{"squeezenet_tensor_input"}, Row{"super_resolution", "mse"}, Row{"ultraface_rfb_320"},
                                         Row{"models/lenet"}, Row{"models/mini_googlenet"}, Row{"models/mlp"}, Row{"models/mobilenetv2"},
                                         Row{"models/resnet18"}, Row{"models/resnet50"}, Row{"models/xception"}),
                         [](const auto& row) {
                           return std::filesystem::path(row.param.model).filename().string() + (row.param.head > 0 ? "_new_head" : "");
                         });

}  // namespace
}  // namespace tandem
