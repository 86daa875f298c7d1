// Exports of real exporters' models and of the bundled templates: against the template, only the weights differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

std::filesystem::path path_of(const std::string& model) {
  if (model.starts_with("models/")) return std::filesystem::path(TANDEM_SOURCE_DIR) / (model + ".onnx");
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "models" / (model + ".onnx");
}

onnx::ModelProto parsed(const std::filesystem::path& path) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(read_whole(path))) << path;
  return proto;
}

using Weights = std::map<std::string, Tensor>;

// Every parameter with new values.
Weights new_weights(const ModelFile& file) {
  Weights weights;
  const Graph graph = file.graph({.batch = 1});
  float next = 0.5F;
  for (const Value& v : graph.values) {
    if (v.kind != ValueKind::parameter) continue;
    Tensor tensor(v.type);
    for (float& element : tensor.write<float>()) element = next = next > 9 ? 0.5F : next + 0.25F;
    weights.emplace(v.name, std::move(tensor));
  }
  return weights;
}

template <class Items, class Predicate>
void remove_where(Items& items, Predicate&& drop) {
  for (int i = items.size(); i-- > 0;)
    if (drop(items.Get(i))) items.DeleteSubrange(i, 1);
}

// In the form that the template has them in: raw bytes or floats.
bool holds(const onnx::TensorProto& t, const Tensor& tensor) {
  if (t.float_data_size() > 0) return std::ranges::equal(t.float_data(), tensor.values<float>());
  const auto bytes = tensor.bytes();
  return t.raw_data() == std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Takes the weights out of both: values from initializers that both have, and the nodes that made weights in the
// template with the initializers (and, up to IR 3, inputs) that stand for them in the export.
void take_weights_out(onnx::ModelProto& model, onnx::ModelProto& exported, const Weights& weights) {
  onnx::GraphProto &from = *model.mutable_graph(), &to = *exported.mutable_graph();
  std::map<std::string, int> made;
  remove_where(*from.mutable_node(), [&](const onnx::NodeProto& n) {
    const bool maker = (n.op_type() == "Constant" || n.op_type() == "ConstantOfShape") && weights.contains(n.output(0));
    if (maker) made.emplace(n.output(0), 0);
    return maker;
  });
  remove_where(*to.mutable_initializer(), [&](const onnx::TensorProto& t) {
    const auto weight = weights.find(t.name());
    if (weight == weights.end()) return false;
    EXPECT_TRUE(holds(t, weight->second)) << t.name();
    return made.contains(t.name());
  });
  // A shape that only such a node read goes with it.
  std::set<std::string> read, kept, gone;
  for (const onnx::NodeProto& n : from.node()) read.insert(n.input().begin(), n.input().end());
  for (const onnx::TensorProto& t : to.initializer()) kept.insert(t.name());
  remove_where(*from.mutable_initializer(), [&](const onnx::TensorProto& t) {
    const bool goes = t.data_type() == onnx::TensorProto::INT64 && !read.contains(t.name()) && !kept.contains(t.name());
    if (goes) gone.insert(t.name());
    return goes;
  });
  remove_where(*from.mutable_input(), [&](const onnx::ValueInfoProto& input) { return gone.contains(input.name()); });
  remove_where(*to.mutable_input(), [&](const onnx::ValueInfoProto& input) { return made.contains(input.name()); });
  for (onnx::GraphProto* graph : {&from, &to})
    for (onnx::TensorProto& t : *graph->mutable_initializer())
      if (weights.contains(t.name())) {
        t.clear_raw_data();
        t.clear_float_data();
      }
}

class RealExport : public testing::TestWithParam<const char*> {};

TEST_P(RealExport, DiffersInWeightsOnly) {
  const auto path = path_of(GetParam());
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  const ModelFile file = ModelFile::read(path);
  const Weights weights = new_weights(file);
  ASSERT_FALSE(weights.empty());
  const TemporaryFolder folder;
  {
    std::vector<ModelFile::Weight> list;
    for (const auto& [name, tensor] : weights) list.push_back({name, tensor});
    file.write(folder / "out.onnx", list);
  }
  onnx::ModelProto model = parsed(path), exported = parsed(folder / "out.onnx");
  take_weights_out(model, exported, weights);
  ASSERT_EQ(exported.graph().node_size(), model.graph().node_size());
  for (int i = 0; i < model.graph().node_size(); ++i)
    ASSERT_EQ(exported.graph().node(i).SerializeAsString(), model.graph().node(i).SerializeAsString()) << model.graph().node(i).name();
  EXPECT_EQ(exported.graph().initializer_size(), model.graph().initializer_size());
  EXPECT_EQ(exported.graph().input_size(), model.graph().input_size());
  EXPECT_TRUE(exported.SerializeAsString() == model.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Models, RealExport,
                         testing::Values("light_bvlc_alexnet", "light_densenet121", "light_inception_v1", "light_inception_v2",
                                         "light_resnet50", "light_shufflenet", "light_squeezenet", "light_vgg19", "light_zfnet512",
                                         "mnist_cntk", "mnist_pytorch_conv_bn", "mnist_pytorch_logsoftmax", "mobilenetv2_100_dynamo",
                                         "residual_block", "resnet18_dynamo", "squeezenet_tensor_input", "super_resolution",
                                         "ultraface_rfb_320", "models/lenet", "models/mini_googlenet", "models/mlp", "models/mobilenetv2",
                                         "models/resnet18", "models/resnet50", "models/xception"),
                         [](const auto& row) { return std::filesystem::path(row.param).filename().string(); });

}  // namespace
}  // namespace tandem::test
