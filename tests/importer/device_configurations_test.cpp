// Device configurations (IR 11): what is read of them, what is refused though ONNX's checker takes it, and that what is written is read
// again.
#include <gtest/gtest.h>

#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

// A product whose weight lies in two parts by columns.
onnx::ModelProto product() {
  test::Model m(18, 11);
  m.input("x", "2,4").add(test::filled_tensor("W", {4, 4})).add(test::node("MatMul", {"x", "W"}, {"y"})).output("y");
  m.proto.mutable_graph()->mutable_node(0)->set_name("mm");
  auto& c = *m.proto.add_configuration();
  c.set_name("c");
  c.set_num_devices(2);
  c.add_device("GPU:0");
  c.add_device("GPU:1");
  auto& node = *m.proto.mutable_graph()->mutable_node(0)->add_device_configurations();
  node.set_configuration_id("c");
  node.set_pipeline_stage(0);
  auto& spec = *node.add_sharding_spec();
  spec.set_tensor_name("W");
  spec.add_device(0);
  spec.add_device(1);
  auto& dim = *spec.add_sharded_dim();
  dim.set_axis(1);
  auto& simple = *dim.add_simple_sharding();
  simple.set_dim_value(4);
  simple.set_num_shards(2);
  return m.proto;
}
ModelFile parsed(const onnx::ModelProto& proto) { return ModelFile::parse(proto.SerializeAsString(), {}); }

TEST(DeviceConfigurations, AreRead) {
  const std::vector<DeviceConfiguration> all = parsed(product()).configurations();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "c");
  EXPECT_EQ(all[0].devices, 2);
  EXPECT_EQ(all[0].nodes.at("mm").stage, 0);
  EXPECT_EQ(all[0].nodes.at("mm").devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(all[0].tensors.at("W"), (TensorSharding{{{0}, {1}}, {{1, 2}}}));
  EXPECT_TRUE(parsed([] {
                test::Model m;
                m.input("x", "2,4").add(test::filled_tensor("W", {4, 4})).add(test::node("MatMul", {"x", "W"}, {"y"})).output("y");
                return m.proto;
              }())
                  .configurations()
                  .empty());
}

// Ones that ONNX's checker takes. Each but the first is told with node, tensor and field.
struct Malformed {
  const char* name;
  void (*change)(onnx::ModelProto& model, onnx::NodeDeviceConfigurationProto& node, onnx::ShardingSpecProto& spec,
                 onnx::ShardedDimProto& dim);
  const char* message;
};
void PrintTo(const Malformed& row, std::ostream* out) { *out << row.name; }
#define CHANGE [](onnx::ModelProto & model, onnx::NodeDeviceConfigurationProto & node, onnx::ShardingSpecProto & spec, onnx::ShardedDimProto & dim)
#define UNUSED (void)model, (void)node, (void)spec, (void)dim;
const Malformed malformed[] = {
    {"earlier_ir", CHANGE { UNUSED model.set_ir_version(10); }, "field ir_version: 10, expected 11 or more"},
    {"unknown_configuration", CHANGE { UNUSED node.set_configuration_id("d"); }, "node 'mm', field configuration_id: the model has no configuration 'd'"},
    {"no_configuration", CHANGE { UNUSED model.clear_configuration(); }, "node 'mm', field configuration_id: the model has no configuration 'c'"},
    {"unknown_tensor", CHANGE { UNUSED spec.set_tensor_name("V"); }, "node 'mm', tensor 'V', field sharding_spec.tensor_name: the node has no such input or output"},
    {"device_outside", CHANGE { UNUSED spec.add_device(7); }, "node 'mm', tensor 'W', field sharding_spec.device: device 7, configuration 'c' has 2: expected 0 to 1"},
    {"axis_outside", CHANGE { UNUSED dim.set_axis(9); }, "node 'mm', tensor 'W', field sharded_dim.axis: 9, the tensor has 2 axes"},
    {"parts_that_do_not_divide", CHANGE { UNUSED dim.mutable_simple_sharding(0)->set_num_shards(3); }, "tensor 'W', field simple_sharding.num_shards: axis 1 of 4 has no 3 equal parts"},
    {"no_parts", CHANGE { UNUSED dim.mutable_simple_sharding(0)->set_num_shards(0); }, "tensor 'W', field simple_sharding.num_shards: 0, expected 1 to 1024"},
    {"negative_stage", CHANGE { UNUSED node.set_pipeline_stage(-5); }, "node 'mm', field pipeline_stage: -5, expected 0 or more"},
    {"names_unlike_the_number", CHANGE { UNUSED model.mutable_configuration(0)->set_num_devices(3); }, "field configuration.device: 'c' has 3 devices and names 2"},
    // and others of their kinds
    {"two_of_a_name", CHANGE { UNUSED *model.add_configuration() = model.configuration(0); }, "field configuration.name: 'c' is there twice"},
    {"without_a_name", CHANGE { UNUSED model.mutable_configuration(0)->clear_name(); }, "field configuration.name: is missing"},
    {"no_devices", CHANGE { UNUSED model.mutable_configuration(0)->set_num_devices(0); }, "field configuration.num_devices: 'c' has 0 devices"},
    {"too_many_devices", CHANGE { UNUSED model.mutable_configuration(0)->set_num_devices(2000000000); }, "expected 1 to 1024"},
    {"a_node_twice", CHANGE { UNUSED model.mutable_graph()->mutable_node(0)->add_device_configurations()->set_configuration_id("c"); }, "node 'mm', field device_configurations: there are two for configuration 'c'"},
    {"a_tensor_twice", CHANGE { UNUSED *node.add_sharding_spec() = onnx::ShardingSpecProto(spec); }, "tensor 'W', field sharding_spec.tensor_name: is there twice"},
    {"a_device_twice", CHANGE { UNUSED spec.set_device(1, 0); }, "field sharding_spec.device: device 0 has all of its 2 parts"},
    {"more_parts_for_one_device", CHANGE { UNUSED spec.add_device(1); dim.mutable_simple_sharding(0)->set_num_shards(3); dim.mutable_simple_sharding(0)->clear_dim_value(); model.mutable_graph()->mutable_initializer(0)->set_dims(1, 3); }, "field sharding_spec.device: device 1 has 2 of its parts, device 0 has 1: expected as many for each"},
    {"no_device", CHANGE { UNUSED spec.clear_device(); }, "field sharding_spec.device: is missing"},
    {"fewer_devices_than_parts", CHANGE { UNUSED spec.mutable_device()->RemoveLast(); }, "field simple_sharding.num_shards: 2 parts for 1 devices"},
    {"axis_missing", CHANGE { UNUSED dim.clear_axis(); }, "field sharded_dim.axis: is missing"},
    {"axis_before_the_first", CHANGE { UNUSED dim.set_axis(-3); }, "field sharded_dim.axis: -3, the tensor has 2 axes"},
    {"axis_twice", CHANGE { UNUSED *spec.add_sharded_dim() = onnx::ShardedDimProto(dim); }, "field sharded_dim.axis: axis 1 is there twice"},
    {"sharding_missing", CHANGE { UNUSED dim.clear_simple_sharding(); }, "field sharded_dim.simple_sharding: axis 1 has none"},
    {"another_size", CHANGE { UNUSED dim.mutable_simple_sharding(0)->set_dim_value(8); }, "field simple_sharding.dim_value: 8, axis 1 has 4"},
    {"a_huge_size", CHANGE { UNUSED dim.mutable_simple_sharding(0)->set_dim_value(INT64_MAX); }, "field simple_sharding.dim_value: 9223372036854775807"},
    {"an_inner_axis", CHANGE { UNUSED auto& inner = *dim.add_simple_sharding(); inner.set_dim_value(2); inner.set_num_shards(2); }, "field simple_sharding: axis 1 is several axes of which an inner one is split"},
    {"an_empty_group", CHANGE { UNUSED spec.add_index_to_device_group_map()->set_key(-1); }, "field sharding_spec.index_to_device_group_map: group -1 has no device"},
    {"a_group_outside", CHANGE { UNUSED auto& e = *spec.add_index_to_device_group_map(); e.set_key(-1); e.add_value(5); }, "field sharding_spec.index_to_device_group_map: device 5"},
    {"a_group_twice", CHANGE { UNUSED for (int i = 0; i < 2; ++i) { auto& e = *spec.add_index_to_device_group_map(); e.set_key(-1); e.add_value(0); } }, "group -1 is there twice"},
    {"a_group_that_is_not_there", CHANGE { UNUSED spec.set_device(0, -4); }, "field sharding_spec.device: device -4"},
    {"readers_that_disagree", CHANGE { UNUSED auto& other = *model.mutable_graph()->add_node(); other = model.graph().node(0); other.set_name("again"); other.set_output(0, "z");
other.mutable_device_configurations(0)->mutable_sharding_spec(0)->mutable_sharded_dim(0)->set_axis(0);
}
, "node 'again', tensor 'W', field sharding_spec: node 'mm' says otherwise of it"
}
,
};
class MalformedConfigurations : public testing::TestWithParam<Malformed> {};
TEST_P(MalformedConfigurations, AreRefusedWhereTheyAreAsked) {
  onnx::ModelProto model = product();
  auto& node = *model.mutable_graph()->mutable_node(0)->mutable_device_configurations(0);
  GetParam().change(model, node, *node.mutable_sharding_spec(0), *node.mutable_sharding_spec(0)->mutable_sharded_dim(0));
  const ModelFile file = parsed(model);  // on one device nobody asks
  try {
    file.configurations();
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::model);
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, MalformedConfigurations, testing::ValuesIn(malformed),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DeviceConfigurations, AreWrittenAndKept) {
  const test::TemporaryFolder folder;
  onnx::ModelProto proto = product();
  proto.set_ir_version(8);
  proto.clear_configuration();
  proto.mutable_graph()->mutable_node(0)->clear_device_configurations();
  const DeviceConfiguration wanted{.name = "mine",
                                   .devices = 4,
                                   .device_names = {"cpu:0", "cpu:1", "cpu:2", "cpu:3"},
                                   .nodes = {{"mm", {.devices = {0, 1, 2, 3}, .stage = 3}}},
                                   .tensors = {{"W", {{{0, 2}, {1, 3}, {0, 2}, {1, 3}}, {{0, 4}}}}, {"x", {{{0, 1, 2, 3}}, {}}}}};
  parsed(proto).write(folder / "annotated.onnx", {}, {.configuration = wanted});
  const ModelFile file = ModelFile::read(folder / "annotated.onnx");
  EXPECT_EQ(file.ir_version(), 11);
  const auto read = file.configurations();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].device_names, wanted.device_names);
  EXPECT_EQ(read[0].nodes, wanted.nodes);
  EXPECT_EQ(read[0].tensors.at("W"), wanted.tensors.at("W"));
  EXPECT_EQ(read[0].tensors.at("x"), wanted.tensors.at("x"));
  file.write(folder / "trained.onnx", {{"W", Tensor::of<float>(Shape{4, 4}, std::vector<float>(16, 2.0F))}});
  EXPECT_EQ(ModelFile::read(folder / "trained.onnx").configurations()[0].tensors, read[0].tensors);
  file.write(folder / "again.onnx", {}, {.configuration = wanted});  // in place of that of its name
  EXPECT_EQ(ModelFile::read(folder / "again.onnx").configurations().size(), 1U);
}

TEST(NodeNotes, AreReadOfMetadata) {
  onnx::ModelProto proto = product();
  auto& node = *proto.mutable_graph()->mutable_node(0);
  const auto add = [&](const char* key, const char* value) {
    auto& entry = *node.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("pkg.torch.onnx.name_scopes", "['', 'encoder', 'encoder.layer.1', 'linear']");
  add("tandem.device", "cpu:1");
  const auto notes = parsed(proto).node_notes();
  ASSERT_TRUE(notes.contains("mm"));
  EXPECT_EQ(notes.at("mm").modules, (std::vector<std::string>{"encoder", "encoder.layer.1", "linear"}));
  EXPECT_EQ(notes.at("mm").device, "cpu:1");
}

}  // namespace
}  // namespace tandem
