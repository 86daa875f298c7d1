// The exported file is the template: only weights differ.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;
using Weights = std::vector<ModelFile::Weight>;

Tensor floats(Shape shape, float first) {
  Tensor t(TensorType{DType::float32, std::move(shape)});
  for (float& v : t.write<float>()) v = first++;
  return t;
}

onnx::ModelProto parsed(const fs::path& path) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(read_whole(path)));
  return proto;
}

// The bytes of a model but for the values of its float initializers.
std::string without_weights(onnx::ModelProto proto) {
  for (auto& t : *proto.mutable_graph()->mutable_initializer()) {
    if (t.data_type() != onnx::TensorProto::FLOAT) continue;
    t.clear_raw_data();
    t.clear_float_data();
  }
  return proto.SerializeAsString();
}

Model decorated() {
  Model m;
  m.input("x", "N,2").output("y");
  onnx::TensorProto typed = dims_only("b", {3});
  for (int i = 0; i < 3; ++i) typed.add_float_data(0.5F);
  typed.set_doc_string("a bias");
  m.add(filled_tensor("w", {2, 3})).add(typed).add(int_tensor("t", {2}, {0, 3})).add(filled_tensor("unused", {5}));
  m.add(node("Gemm", {"x", "w", "b"}, {"g"})).add(node("Reshape", {"g", "t"}, {"y"}));
  m.proto.set_producer_name("maker");
  m.proto.set_doc_string("text");
  auto& entry = *m.proto.add_metadata_props();
  entry.set_key("author");
  entry.set_value("somebody");
  m.proto.mutable_unknown_fields()->append("\xc2\x3e\x03new");  // field 1000, a string: of a newer IR version
  return m;
}

TEST(Export, ChangesNothingButWeights) {
  const TemporaryFolder folder;
  const Model m = decorated();
  const Tensor w = floats(Shape{2, 3}, 10);
  m.parse().write(folder / "out.onnx", {{"w", w}});
  const onnx::ModelProto out = parsed(folder / "out.onnx");
  EXPECT_EQ(without_weights(out), without_weights(m.proto));
  EXPECT_NE(out.unknown_fields().find("new"), std::string::npos);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(w.bytes().data()), w.bytes().size()), out.graph().initializer(0).raw_data());
  EXPECT_EQ(out.graph().initializer(1).float_data_size(), 3);  // its form is kept
  EXPECT_EQ(out.graph().initializer(1).float_data(0), 0.5F);
}

TEST(Export, OfNothingNewIsTheTemplate) {
  const TemporaryFolder folder;
  const Model m = decorated();
  m.parse().write(folder / "out.onnx", {});
  EXPECT_EQ(parsed(folder / "out.onnx").SerializeAsString(), m.proto.SerializeAsString());
}

TEST(Export, RoundTripsThroughAnotherImport) {
  const TemporaryFolder folder;
  const Tensor w = floats(Shape{2, 3}, -1), b = floats(Shape{3}, 7);
  decorated().parse().write(folder / "out.onnx", {{"w", w}, {"b", b}});
  const Graph graph = ModelFile::read(folder / "out.onnx").graph({.batch = 2});
  EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), w.to_doubles());
  EXPECT_EQ(graph[*graph.find("b")].data->to_doubles(), b.to_doubles());
}

// Weights that were nodes, or had no values.
TEST(Export, MakesInitializersOfWeightNodes) {
  for (const std::int64_t ir : {3, 8}) {
    Model m(9, ir);
    m.input("x", "N,2").output("y").add(int_tensor("shape", {2}, {2, 3}));
    if (ir == 3) m.input("shape", "2", onnx::TensorProto::INT64);
    m.add(node("ConstantOfShape", {"shape"}, {"w"}))
        .add(node("Constant", {}, {"b"}, {{"value", filled_tensor("", {3})}}))
        .add(node("Gemm", {"x", "w", "b"}, {"y"}));
    const TemporaryFolder folder;
    m.parse().write(folder / "out.onnx", {{"w", floats(Shape{2, 3}, 1)}, {"b", floats(Shape{3}, 2)}});
    const onnx::ModelProto out = parsed(folder / "out.onnx");
    ASSERT_EQ(out.graph().node_size(), 1);
    EXPECT_EQ(out.graph().node(0).op_type(), "Gemm");
    ASSERT_EQ(out.graph().initializer_size(), 2);  // the shape went with its only reader
    EXPECT_EQ(out.graph().initializer(0).name(), "w");
    EXPECT_EQ(out.graph().initializer(1).name(), "b");
    EXPECT_EQ(out.graph().input_size(), ir == 3 ? 3 : 1);  // IR 3 lists initializers among the inputs
    const Graph graph = ModelFile::read(folder / "out.onnx").graph({.batch = 2});
    EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), floats(Shape{2, 3}, 1).to_doubles());
  }
}

// What else may read the shape of a ConstantOfShape that becomes an initializer.
struct ReaderRow {
  std::string name;
  std::function<void(Model&)> add;  // to a model whose weight "w" is of the shape "shape"
  bool kept;
};
void PrintTo(const ReaderRow& row, std::ostream* out) {
  *out << row.name;
}
// clang-format off
const ReaderRow reader_rows[] = {
    {"nothing", [](Model&) {}, false},
    {"another_replaced_node", [](Model& m) { m.add(node("ConstantOfShape", {"shape"}, {"w2"})).add(node("MatMul", {"h", "w2"}, {"h2"})).output("h2"); }, false},
    {"a_node", [](Model& m) { m.add(node("Cast", {"shape"}, {"c"}, {{"to", std::int64_t{1}}})).output("c"); }, true},
    {"an_output", [](Model& m) { m.output("shape"); }, true},
    {"a_subgraph", [](Model& m) { m.add(node("Constant", {}, {"yes"}, {{"value_int", std::int64_t{1}}})).add(node("If", {"yes"}, {"c"}, {{"then_branch", branch({node("Cast", {"shape"}, {"t"}, {{"to", std::int64_t{1}}})}, {"t"})}, {"else_branch", branch({node("Cast", {"shape"}, {"e"}, {{"to", std::int64_t{1}}})}, {"e"})}})).output("c"); }, true},
    {"a_subgraph_output", [](Model& m) { m.add(node("Constant", {}, {"yes"}, {{"value_int", std::int64_t{1}}})).add(node("If", {"yes"}, {"c"}, {{"then_branch", branch({}, {"shape"})}, {"else_branch", branch({}, {"shape"})}})).output("c"); }, true},
    {"a_caller", [](Model& m) { m.input("shape", "2", onnx::TensorProto::INT64); }, true},
    {"a_training_graph", [](Model& m) { *m.proto.add_training_info()->mutable_algorithm() = branch({node("Identity", {"shape"}, {"c"})}, {"c"}); }, true},
};
// clang-format on
class ShapeOfAWeight : public testing::TestWithParam<ReaderRow> {};
TEST_P(ShapeOfAWeight, StaysWhereSomethingReadsIt) {
  Model m;
  m.input("x", "N,3").output("y").add(filled_tensor("unused", {5})).add(int_tensor("shape", {2}, {3, 3}));
  m.add(node("ConstantOfShape", {"shape"}, {"w"})).add(node("MatMul", {"x", "w"}, {"h"})).add(node("Relu", {"h"}, {"y"}));
  GetParam().add(m);
  Weights weights;
  for (const Value& v : m.graph(1).values)
    if (v.kind == ValueKind::parameter && v.name.starts_with("w")) weights.push_back({v.name, floats(Shape{3, 3}, 1)});
  const TemporaryFolder folder;
  m.parse().write(folder / "out.onnx", weights);
  const onnx::ModelProto out = parsed(folder / "out.onnx");
  std::vector<std::string> names;
  for (const auto& t : out.graph().initializer()) names.push_back(t.name());
  EXPECT_EQ(std::count(names.begin(), names.end(), "shape"), GetParam().kept ? 1 : 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "unused"), 1);  // the template's own affair
  EXPECT_EQ(std::count(names.begin(), names.end(), "w"), 1);
  EXPECT_EQ(report_of_bytes(out.SerializeAsString()), "");
}
INSTANTIATE_TEST_SUITE_P(Rows, ShapeOfAWeight, testing::ValuesIn(reader_rows), [](const auto& row) { return row.param.name; });

TEST(Export, FillsWeightsThatHadNoValues) {
  Model m;
  m.input("x", "N,2").output("y").add(dims_only("w", {2, 3})).add(node("MatMul", {"x", "w"}, {"y"}));
  const TemporaryFolder folder;
  EXPECT_THROW(m.parse().write(folder / "out.onnx", {}), Error);
  EXPECT_FALSE(fs::exists(folder / "out.onnx"));
  m.parse().write(folder / "out.onnx", {{"w", floats(Shape{2, 3}, 1)}});
  EXPECT_EQ(without_weights(parsed(folder / "out.onnx")), without_weights(m.proto));
  EXPECT_EQ(report_of_bytes(read_whole(folder / "out.onnx")), "");
}

struct BadRow {
  std::string name;
  Weights weights;
  std::string reason;
};
void PrintTo(const BadRow& row, std::ostream* out) {
  *out << row.name;
}
// clang-format off
const BadRow bad_rows[] = {
    {"unknown", {{"v", floats(Shape{2, 3}, 0)}}, "'v' is none of the template's"},
    {"constant", {{"t", Tensor::of<std::int64_t>(Shape{2}, {0, 3})}}, "'t' is none of the template's"},
    {"shape", {{"w", floats(Shape{3, 2}, 0)}}, "the template's is float32[2,3]"},
    {"dtype", {{"w", floats(Shape{2, 3}, 0).cast(DType::float64)}}, "the template's is float32[2,3]"},
    {"twice", {{"w", floats(Shape{2, 3}, 0)}, {"w", floats(Shape{2, 3}, 0)}}, "given twice"},
};
// clang-format on
class BadWeights : public testing::TestWithParam<BadRow> {};
TEST_P(BadWeights, AreRefusedAndTheOldFileStays) {
  const TemporaryFolder folder;
  write_file(folder / "out.onnx", "old");
  try {
    decorated().parse().write(folder / "out.onnx", GetParam().weights);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().reason), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_whole(folder / "out.onnx"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);  // no temporary file
}
INSTANTIATE_TEST_SUITE_P(Rows, BadWeights, testing::ValuesIn(bad_rows), [](const auto& row) { return row.param.name; });

TEST(Export, ToAFolderThatIsNotThereFails) {
  const TemporaryFolder folder;
  try {
    decorated().parse().write(folder / "none" / "out.onnx", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
  }
}

TEST(Export, ReplacesALinkInsteadOfFollowingIt) {
  const TemporaryFolder folder;
  write_file(folder / "precious", "old");
  fs::create_symlink("precious", folder / "out.onnx");
  decorated().parse().write(folder / "out.onnx", {});
  EXPECT_EQ(read_whole(folder / "precious"), "old");
  EXPECT_FALSE(fs::is_symlink(folder / "out.onnx"));
}

TEST(Export, NeverReplacesAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    try {
      decorated().parse().write(folder / name, {});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::io);
    }
  }
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

// Inference mode.

TEST(Export, SwitchesTrainingNodesToInference) {
  Model m(14);
  m.input("x", "N,3,4").output("y").output("z");
  for (const char* n : {"s", "b", "m", "v"}) m.add(filled_tensor(n, {3}));
  onnx::TensorProto yes;
  yes.set_data_type(onnx::TensorProto::BOOL);
  yes.add_int32_data(1);
  m.add(node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"n", "m2", "v2"}, {{"training_mode", std::int64_t{1}}, {"epsilon", 0.01F}}));
  m.add(node("Constant", {}, {"yes"}, {{"value", yes}})).add(node("Dropout", {"n", "", "yes"}, {"y"}));
  m.add(function("F", {"a", "s", "b", "m", "v"}, {"c"},
                 {node("BatchNormalization", {"a", "s", "b", "m", "v"}, {"c", "d", "e"}, {{"training_mode", std::string("@mode")}})},
                 {"mode"}));
  m.add(node("F", {"y", "s", "b", "m", "v"}, {"z"}, {{"mode", std::int64_t{1}}}, function_domain));
  const TemporaryFolder folder;
  m.parse().write(folder / "out.onnx", {});
  const onnx::ModelProto out = parsed(folder / "out.onnx");
  const auto& norm = out.graph().node(0);
  EXPECT_EQ(norm.output_size(), 1);
  EXPECT_EQ(norm.attribute(0).i(), 0);
  EXPECT_EQ(norm.attribute(1).f(), 0.01F);
  EXPECT_EQ(out.graph().node(2).input_size(), 1);
  const auto& inner = out.functions(0).node(0);
  EXPECT_EQ(inner.output_size(), 1);
  EXPECT_EQ(inner.attribute(0).ref_attr_name(), "");
  EXPECT_EQ(inner.attribute(0).i(), 0);
  EXPECT_EQ(report_of_bytes(out.SerializeAsString()), "");
}

// A weight that is normalized: of the statistics in the file, those of a copy that the exporter turned do not follow its training.
TEST(Export, AWeightIsNormalizedByItsOwnStatistics) {
  struct Row {
    bool weight;    // is normalized, not samples
    bool computed;  // statistics, not held
    bool own;
  };
  for (const Row& row : {Row{true, true, true}, {true, false, false}, {false, true, false}}) {
    SCOPED_TRACE(testing::Message() << row.weight << row.computed);
    Model m;
    m.input("x", "N,8").output("y").add(filled_tensor("w", {3, 8})).add(filled_tensor("copy", {8, 3}));
    for (const char* n : {"s", "b", "mean", "variance"}) m.add(filled_tensor(n, {8}));
    m.add(node("Mul", {"copy", "copy"}, {"square"}));
    for (const auto& [of, to] : {std::pair("copy", "m"), std::pair("square", "v")})
      m.add(node("ReduceMean", {of}, {to}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}));
    m.add(node("BatchNormalization", {row.weight ? "w" : "x", "s", "b", row.computed ? "m" : "mean", row.computed ? "v" : "variance"},
               {"n", "m2", "v2"}, {{"training_mode", std::int64_t{1}}}));
    if (row.weight) m.add(node("Gemm", {"x", "n"}, {"y"}, {{"transB", std::int64_t{1}}}));
    if (!row.weight) m.add(node("Relu", {"n"}, {"y"}));
    const TemporaryFolder folder;
    m.parse().write(folder / "out.onnx", {});
    const onnx::NodeProto norm = parsed(folder / "out.onnx").graph().node(3);
    ASSERT_EQ(norm.op_type(), "BatchNormalization");
    EXPECT_EQ(norm.attribute(0).i(), row.own);
    EXPECT_EQ(norm.output_size(), row.own ? 3 : 1);
    const Graph graph = m.graph(4);
    const auto made =
        std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op->name == "BatchNormalization"; });
    ASSERT_NE(made, graph.nodes.end());
    EXPECT_EQ(made->attributes.integer("training_mode", 0), row.own);
  }
}

// For viewers.

TEST(Viewer, ShowsNodesTypesAndInternalOperators) {
  Model m;
  m.input("x", "N,3,8,8").output("y").add(filled_tensor("w", {4, 3, 3, 3})).add(float_tensor("hi", {}, {6}));
  m.add(node("Conv", {"x", "w"}, {"c"})).add(node("Clip", {"c", "", "hi"}, {"y"}));
  Graph graph = m.graph(2);
  graph.outputs.push_back(GraphBuilder(graph, "more", {"node_y"}).emit("ReluBackward", {graph.outputs[0], graph.outputs[0]}));
  onnx::ModelProto out;
  ASSERT_TRUE(out.ParseFromString(onnx_of(graph)));
  ASSERT_EQ(out.graph().node_size(), 3);
  EXPECT_EQ(out.graph().node(1).input_size(), 3);  // the bound is an operand again
  EXPECT_EQ(out.graph().node(2).domain(), "tandem");
  EXPECT_EQ(out.graph().node(2).doc_string(), "from node_y");
  EXPECT_EQ(out.graph().output(0).type().tensor_type().shape().dim(1).dim_value(), 4);
  EXPECT_EQ(out.graph().input_size(), 2);  // x, and w without its values
}

}  // namespace
}  // namespace tandem::test
