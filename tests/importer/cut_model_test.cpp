// A model that ends at other values: what of the file is left, and that it is a model.
#include <gtest/gtest.h>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

Model three_layers() {
  Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("u", {4, 6})).add(filled_tensor("v", {6, 5})).add(filled_tensor("w", {5, 3}));
  m.add(function("Half", {"i"}, {"o"},
                 {node("Constant", {}, {"c"}, {{"value_float", 0.5F}}), node("Mul", {"i", "c"}, {"h"}), node("Relu", {"h"}, {"o"})}));
  m.add(node("MatMul", {"x", "u"}, {"a"})).add(node("Half", {"a"}, {"b"}, {}, function_domain)).add(node("MatMul", {"b", "v"}, {"c"}));
  m.add(node("MatMul", {"c", "w"}, {"y"}));
  return m;
}

ModelFile cut(const Names& values) {
  WeightOptions options;
  options.outputs = values;
  return ModelFile::parse(three_layers().bytes(), {}, options);
}

TEST(CutModel, KeepsWhatItsValuesNeed) {
  const ModelFile file = cut({"c", "a"});
  EXPECT_EQ(file.outputs(), (Names{"c", "a"}));
  const Graph graph = file.graph({.batch = 2});
  EXPECT_EQ(names_of(graph, ValueKind::parameter), (Names{"u", "v"}));
  EXPECT_EQ(to_string(shape_of(graph, "c")), "[2,5]");
}

TEST(CutModel, IsWrittenWithTypesOfItsOutputs) {
  const TemporaryFolder folder;
  cut({"node_c"}).write(folder / "c.onnx", {});
  onnx::ModelProto out;
  ASSERT_TRUE(out.ParseFromString(read_whole(folder / "c.onnx")));
  ASSERT_EQ(out.graph().output_size(), 1);
  const auto& type = out.graph().output(0).type().tensor_type();
  EXPECT_EQ(out.graph().output(0).name(), "c");
  EXPECT_EQ(type.elem_type(), onnx::TensorProto::FLOAT);
  EXPECT_EQ(type.shape().dim(0).dim_param(), "N");
  EXPECT_EQ(type.shape().dim(1).dim_value(), 5);
  EXPECT_EQ(out.graph().node_size(), 3);
  EXPECT_EQ(out.graph().initializer_size(), 2);
}

TEST(CutModel, ReachesIntoAFunction) {
  const ModelFile file = cut({"node_b/h"});
  EXPECT_EQ(ops_of(file.graph({.batch = 2})), (Names{"MatMul", "Mul"}));
}

TEST(CutModel, OfAnUnknownValueNamesTheNearest) {
  try {
    cut({"node_d"});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("option cut 'node_d': the model's graph has no node and computes no value of that name"),
              std::string::npos)
        << e.what();
  }
  EXPECT_THROW(cut({"a", "node_a"}), Error);
}

}  // namespace
}  // namespace tandem::test
