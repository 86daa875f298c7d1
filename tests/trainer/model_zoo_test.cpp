// Real exporters' models, trained for three steps on a fixed batch of noise.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "kernels/cpu/backend.h"
#include "trainer/model.h"

namespace tandem {
namespace {

std::filesystem::path shared_models() {
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "models";
}

struct Row {
  std::string file;  // "models/..." are the project's own
  std::string loss = "softmax-cross-entropy";
  double rate = 0.01;  // smaller where nothing normalises the activations
  bool synchronize = false;  // its last layer normalises over the samples: two of them on a device would say nothing
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.file; }
std::string name_of(const testing::TestParamInfo<Row>& row) { return std::filesystem::path(row.param.file).stem().string(); }
// The first label classes and pixels of noise: what is learnt does not matter, that it is does.
Tensor noise(const TensorType& type, std::int64_t classes) {
  Tensor t(type);
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  if (type.dtype == DType::float32)
    for (float& v : t.write<float>()) v = normal(generator);
  else
    for (std::int64_t& v : t.write<std::int64_t>()) v = static_cast<std::int64_t>(generator() % static_cast<unsigned>(classes));
  return t;
}

class ModelZoo : public testing::TestWithParam<Row> {};

TEST_P(ModelZoo, LearnsAFixedBatch) {
  const Row& row = GetParam();
  const bool own = row.file.starts_with("models/");
  const std::filesystem::path path = own ? std::filesystem::path(TANDEM_SOURCE_DIR) / row.file : shared_models() / row.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const Backend* backends[] = {&cpu_backend()};
  std::vector<double> first_losses;
  for (const int devices : {1, 4}) {
    Model model = Model::load(path);
    ModelOptions options{.init = "he-normal"};
    options.plan.batch = 8;
    options.plan.loss.name = row.loss;
    options.plan.synchronize_batch_norm = row.synchronize;
    for (int d = 0; d < devices; ++d) options.plan.devices.push_back({{"cpu", d}, 1});
    model.compile(options, backends);
    std::vector<Tensor> batch;
    for (const HostInput& input : model.plan().inputs)
      if (!input.name.starts_with("tandem.")) batch.push_back(noise(input.type, 2));
    std::vector<double> losses;
    for (int step = 0; step < 3; ++step) losses.push_back(model.train_on_batch(batch, row.rate).loss);
    for (const double loss : losses) ASSERT_TRUE(std::isfinite(loss));
    EXPECT_LT(losses[2], losses[0]) << devices << " devices: " << losses[0] << ", " << losses[1] << ", " << losses[2];
    EXPECT_EQ(model.allocated_bytes(), model.predicted_peak_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelZoo,
                         testing::Values(Row{"light_bvlc_alexnet.onnx", "softmax-cross-entropy", 1e-4}, Row{"light_densenet121.onnx"}, Row{"light_inception_v1.onnx", "softmax-cross-entropy", 1e-4}, Row{"light_inception_v2.onnx"},
                                         Row{"light_resnet50.onnx"}, Row{"light_shufflenet.onnx"}, Row{"light_squeezenet.onnx"}, Row{"light_vgg19.onnx", "softmax-cross-entropy", 1e-4},
                                         Row{"light_zfnet512.onnx", "softmax-cross-entropy", 1e-4}, Row{"mnist_cntk.onnx"}, Row{"mnist_pytorch_conv_bn.onnx", "softmax-cross-entropy", 0.01, true}, Row{"mnist_pytorch_logsoftmax.onnx"},
                                         Row{"resnet18_dynamo.onnx"}, Row{"mobilenetv2_100_dynamo.onnx"}, Row{"residual_block.onnx"}, Row{"squeezenet_tensor_input.onnx"},
                                         Row{"super_resolution.onnx", "mse"}, Row{"ultraface_rfb_320.onnx"}, Row{"models/mlp.onnx"}, Row{"models/lenet.onnx"},
                                         Row{"models/mini_googlenet.onnx"}, Row{"models/resnet18.onnx"}, Row{"models/resnet50.onnx"}, Row{"models/mobilenetv2.onnx"},
                                         Row{"models/xception.onnx"}),
                         name_of);

}  // namespace
}  // namespace tandem
