// Real models, where they are at hand.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

std::filesystem::path models_folder() {
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "models";
}

struct Row {
  std::string name;
  int trained;         // parameters
  int kept;            // parameters that are not trained: running statistics
  std::string output;  // shape of the first output at batch 8
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// clang-format off
const Row usable[] = {
    {"light_bvlc_alexnet", 16, 0, "[8,1000]"},
    {"light_densenet121", 606, 242, "[8,1000,1,1]"},
    {"light_inception_v1", 116, 0, "[8,1000]"},
    {"light_inception_v2", 347, 138, "[8,1000]"},
    {"light_resnet50", 161, 106, "[8,1000]"},
    {"light_shufflenet", 150, 98, "[8,1000]"},
    {"light_squeezenet", 52, 0, "[8,1000,1,1]"},
    {"light_vgg19", 38, 0, "[8,1000]"},
    {"light_zfnet512", 16, 0, "[8,1000]"},
    {"mnist_cntk", 6, 0, "[8,10]"},
    {"mnist_pytorch_conv_bn", 14, 4, "[8,10]"},
    {"mnist_pytorch_logsoftmax", 8, 0, "[8,10]"},
    {"mobilenetv2_100_dynamo", 158, 104, "[8,1000]"},
    {"residual_block", 15, 10, "[8,256,56,56]"},
    {"resnet18_dynamo", 62, 40, "[8,1000]"},
    {"squeezenet_tensor_input", 54, 2, "[8,10]"},
    {"super_resolution", 8, 0, "[8,1,672,672]"},
    {"ultraface_rfb_320", 107, 0, "[8,4420,2]"},
};
// clang-format on

class UsableModel : public testing::TestWithParam<Row> {};

TEST_P(UsableModel, ImportsAtBatch1And8) {
  const auto path = models_folder() / (GetParam().name + ".onnx");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const ModelFile model = ModelFile::read(path);
  for (const std::int64_t batch : {1, 8}) {
    const Graph graph = model.graph({.batch = batch});
    int trained = 0, kept = 0;
    for (const Value& v : graph.values)
      if (v.kind == ValueKind::parameter) ++(v.trainable ? trained : kept);
    EXPECT_EQ(trained, GetParam().trained);
    EXPECT_EQ(kept, GetParam().kept);
    ASSERT_EQ(graph.inputs.size(), 1U);
    EXPECT_EQ(graph[graph.inputs[0]].type.shape[0], batch);
    EXPECT_TRUE(graph[graph.outputs.at(0)].depends_on_batch);
    EXPECT_EQ(graph[graph.outputs.at(0)].type.shape[0], batch);
    if (batch == 8) {
      EXPECT_EQ(to_string(graph[graph.outputs[0]].type.shape), GetParam().output);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shared, UsableModel, testing::ValuesIn(usable), [](const auto& row) { return row.param.name; });

// Its masks were folded for the two samples of the exporter's example.
TEST(SharedModel, AMaskForTheFilesBatchIsFollowed) {
  const auto path = models_folder() / "decoder_lm_torchscript.onnx";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const Graph graph = ModelFile::read(path).graph({.batch = 8});
  EXPECT_EQ(graph[graph.outputs.at(0)].type.shape[0], 8);
  EXPECT_EQ(graph[graph.outputs.at(0)].batch, (BatchPlace{.axis = 0}));
}

struct MissingRow {
  std::string name;
  std::vector<std::string> reasons;  // each stands in the report
};
void PrintTo(const MissingRow& row, std::ostream* out) {
  *out << row.name;
}

// clang-format off
const MissingRow missing[] = {
    {"bert_mlm_training_dropout", {"option dims sequence_length=SIZE", "SoftmaxCrossEntropyLossInternal"}},
    {"gpt2_one_layer", {"option dims seq_len=SIZE"}},
    {"gpt2_past", {"'284' is defined twice", "input 'past_11' axis 3 has no size: give one by option dims seq_len=SIZE"}},
    {"lstm_as_scan_cntk", {"it cuts axis 0 of [11,1,3], which holds the samples"}},
    {"lstm_bidirectional_sequence", {"option dims length=SIZE"}},
};
// clang-format on

class MissingModel : public testing::TestWithParam<MissingRow> {};

TEST_P(MissingModel, IsReportedWhole) {
  const auto path = models_folder() / (GetParam().name + ".onnx");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  try {
    ModelFile::read(path).graph({.batch = 8});
    FAIL() << "was imported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model);
    for (const std::string& reason : GetParam().reasons)
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Shared, MissingModel, testing::ValuesIn(missing), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem::test
