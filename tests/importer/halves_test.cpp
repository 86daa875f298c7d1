// Weights of 16 bits: float32 in the graph, and written back in their own type.
#include <gtest/gtest.h>

#include "graph/half.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

onnx::TensorProto half_tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& dims,
                              const std::vector<float>& values) {
  const Tensor t = Tensor::of<float>(Shape(dims), values).cast(dtype);
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(static_cast<int>(dtype));
  for (const std::int64_t d : dims) proto.add_dims(d);
  proto.set_raw_data(t.bytes().data(), t.bytes().size());
  return proto;
}

Model half_model(DType dtype) {
  Model m(20, 9);
  m.input("x", "N,2", static_cast<int>(dtype)).output("y");
  m.add(half_tensor("w", dtype, {2, 2}, {1, 2, 3, 4})).add(half_tensor("eps", dtype, {}, {0.5F}));
  m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("Cast", {"h"}, {"f"}, {{"to", std::int64_t{1}}})).add(node("Exp", {"f"}, {"e"}));
  m.add(node("Cast", {"e"}, {"g"}, {{"to", static_cast<std::int64_t>(dtype)}})).add(node("Add", {"g", "eps"}, {"y"}));
  return m;
}

class Halves : public testing::TestWithParam<DType> {};

TEST_P(Halves, AreTrainedInFloat32) {
  const Model m = half_model(GetParam());
  const Graph graph = m.graph(4);
  for (const Value& v : graph.values) EXPECT_EQ(v.type.dtype, DType::float32) << v.name;
  EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), (std::vector<double>{1, 2, 3, 4}));
  ASSERT_FALSE(graph.warnings.empty());
  EXPECT_NE(concat(graph.warnings[0], graph.warnings.back())
                .find(concat("in ", GetParam(), ": they are trained in float32 and written back in ", GetParam())),
            std::string::npos);
  EXPECT_EQ(m.parse().tensors()[0].type.dtype, GetParam());
  const Graph kept = m.parse().graph({.batch = 4, .keep_halves = true});
  EXPECT_EQ(kept[*kept.find("w")].type.dtype, GetParam());
}

TEST_P(Halves, AreWrittenBackInTheirType) {
  const Model m = half_model(GetParam());
  const TemporaryFolder folder;
  m.parse().write(folder / "out.onnx", {{"w", Tensor::of<float>({2, 2}, {1.5F, -2, 3.1415926F, 1e-3F})}});
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(read_whole(folder / "out.onnx")));
  EXPECT_EQ(proto.graph().initializer(0).data_type(), static_cast<int>(GetParam()));
  const Graph graph = ModelFile::read(folder / "out.onnx").graph({.batch = 4, .keep_halves = true});
  const Tensor want = Tensor::of<float>({2, 2}, {1.5F, -2, 3.1415926F, 1e-3F}).cast(GetParam());
  EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), want.to_doubles());
  *proto.mutable_graph()->mutable_initializer(0) = m.proto.graph().initializer(0);
  EXPECT_EQ(proto.SerializeAsString(), m.proto.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Types, Halves, testing::Values(DType::float16, DType::bfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// A table of sines stays one when it is rounded.
TEST(HalvesInTables, AreFoundForWhatTheyAre) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    std::vector<float> sines;
    for (int i = 0; i < 12; ++i)
      for (int j = 0; j < 4; ++j) sines.push_back(std::sin(static_cast<float>(i) / static_cast<float>(1 << j)));
    Model m(20, 9);
    m.input("x", "N,12,4", static_cast<int>(dtype))
        .output("y")
        .add(half_tensor("p", dtype, {12, 4}, sines))
        .add(half_tensor("w", dtype, {4, 1}, {1, 2, -3, 5}));
    m.add(node("Add", {"x", "p"}, {"s"})).add(node("MatMul", {"s", "w"}, {"y"}));
    EXPECT_EQ(m.parse().tensors()[0].holding, Holding::constant) << name_of(dtype);
  }
}

TEST(HalfTwins, AreTold) {
  const std::vector<float> values{1, 2, -3, 5};
  Model m;
  m.input("x", "N,2", onnx::TensorProto::FLOAT16)
      .output("y")
      .add(half_tensor("v", DType::float16, {2, 2}, values))
      .add(half_tensor("w", DType::float16, {2, 2}, values));
  m.add(node("MatMul", {"x", "v"}, {"h"})).add(node("MatMul", {"h", "w"}, {"y"}));
  const Graph graph = m.graph(2);
  EXPECT_TRUE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
    return s.starts_with("equal values that are trained apart: v=w");
  })) << testing::PrintToString(graph.warnings);
}

}  // namespace
}  // namespace tandem::test
