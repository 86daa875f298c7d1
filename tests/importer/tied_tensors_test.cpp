// Tensors that an exporter merged, and parameters of which the file holds several.
#include <gtest/gtest.h>

#include "tests/importer/exporter_notes.h"

namespace tandem::test {
namespace {

// Two layers whose norms an exporter merged, and a head that was tied to its embedding.
Model merged() {
  Model m;
  m.input("i", "N", onnx::TensorProto::INT64).output("y").add(float_tensor("e", {16, 8}, arbitrary(128)));
  std::vector<float> turned;
  for (std::size_t c = 0; c < 8; ++c)
    for (std::size_t r = 0; r < 16; ++r) turned.push_back(arbitrary(128)[r * 8 + c]);
  m.add(float_tensor("head", {8, 16}, turned))
      .add(filled_tensor("one", {8}, 1))
      .add(filled_tensor("zero", {8}, 0))
      .add(float_tensor("w", {8, 8}, arbitrary(64)));
  m.add(node("Gather", {"e", "i"}, {"a"}))
      .add(node("LayerNormalization", {"a", "one", "zero"}, {"b"}))
      .add(node("MatMul", {"b", "w"}, {"c"}));
  return m.add(node("LayerNormalization", {"c", "one", "zero"}, {"d"})).add(node("MatMul", {"d", "head"}, {"y"}));
}

std::string said(const Graph& graph, const std::string& begin) {
  for (const std::string& s : graph.warnings)
    if (s.starts_with(begin)) return s;
  return "";
}

TEST(MergedTensors, AreToldApart) {
  const Graph graph = merged().graph(2);
  EXPECT_NE(said(graph, "read by several nodes").find("all values alike: one, zero; taken for merged by the exporter"), std::string::npos)
      << testing::PrintToString(graph.warnings);
  for (const char* name : {"one@2", "zero@2"}) EXPECT_TRUE(graph.find(name)) << name;
}

TEST(MergedTensors, OfALayerThatIsUsedTwiceStayOne) {
  Model m = merged();
  m.add(node("MatMul", {"d", "w"}, {"again"})).add(node("LayerNormalization", {"again", "one", "zero"}, {"z"})).output("z");
  const Graph graph = m.graph(2);
  EXPECT_NE(said(graph, "read by several nodes").find("'one' (3 times), 'zero' (3 times), 16 values"), std::string::npos)
      << testing::PrintToString(graph.warnings);
  EXPECT_FALSE(graph.find("one@2"));
}

TEST(MergedTensors, AreTold) {
  const Graph graph = ModelFile::parse(merged().bytes(), {}, {.untie = {"none"}}).graph({.batch = 2});
  EXPECT_NE(said(graph, "read by several nodes").find("'one' (2 times), 'zero' (2 times), 16 values"), std::string::npos)
      << testing::PrintToString(graph.warnings);
  EXPECT_NE(said(graph, "equal values that are trained apart").find("e=head"), std::string::npos) << testing::PrintToString(graph.warnings);
}

TEST(MergedTensors, AreUntiedAndWrittenSo) {
  const ModelFile file = ModelFile::parse(merged().bytes(), {}, {.untie = {"*"}});
  const Graph graph = file.graph({.batch = 2});
  EXPECT_EQ(said(graph, "read by several nodes"), "");
  EXPECT_EQ(said(graph, "option untie: "), "option untie: the trained model has 2 initializers besides the template's");
  for (const char* name : {"one", "one@2", "zero", "zero@2"}) {
    ASSERT_TRUE(graph.find(name)) << name;
    EXPECT_TRUE(graph[*graph.find(name)].trainable) << name;
  }
  const TemporaryFolder folder;
  const std::vector<float> now(8, 3.0F);
  file.write(folder / "out.onnx", {{"one@2", Tensor::of<float>(Shape{8}, now)}});
  const ModelFile written = ModelFile::read(folder / "out.onnx");
  const Graph again = written.graph({.batch = 2});
  EXPECT_EQ(again[*again.find("one@2")].data->to_doubles()[0], 3);
  EXPECT_EQ(again[*again.find("one")].data->to_doubles()[0], 1);
}

TEST(TiedTensors, CopiesThatTheFileNotesFollow) {
  std::vector<float> other = arbitrary(129);
  other.erase(other.begin());
  for (const bool equal : {true, false}) {
    Model m = merged();
    sign(m, "p_e: PARAMETER target='e'\np_w: PARAMETER target='w'\n");
    for (const char* name : {"e", "w"}) state_kind(m, name, "PARAMETER");
    state_computed(m, "head", "['e']");
    if (!equal) *m.proto.mutable_graph()->mutable_initializer(1) = float_tensor("head", {8, 16}, other);
    ASSERT_EQ(m.proto.graph().initializer(1).name(), "head");
    const Graph graph = m.graph(2);
    EXPECT_EQ(said(graph, "equal values that are trained apart"), "");
    EXPECT_EQ(graph[*graph.find("head")].kind == ValueKind::activation, equal);
  }
}

// A layer that is used twice, of which the exporter turned the matrix for each use; the file does not hold the matrix itself.
TEST(TiedTensors, CopiesOfAParameterThatTheFileDoesNotHoldAreOne) {
  for (const bool same : {true, false}) {
    Model m;
    m.input("x", "N,8").output("y").add(vector_of(arbitrary(8), "p"));
    m.add(float_tensor("a", {8, 8}, arbitrary(64))).add(float_tensor("b", {8, 8}, arbitrary(64)));
    m.add(int_tensor("s", {2}, {-1, 8})).add(int_tensor("t", {2}, {-1, 8}));  // of the parameter's shape
    m.add(node("Mul", {"x", "p"}, {"h"}))
        .add(node("MatMul", {"h", "a"}, {"i"}))
        .add(node("Reshape", {"i", "s"}, {"j"}))
        .add(node("MatMul", {"j", "b"}, {"k"}));
    m.add(node("Reshape", {"k", "t"}, {"y"}));
    sign(m, "p_p: PARAMETER target='p'\np_w: PARAMETER target='w'\np_v: PARAMETER target='v'\n");
    state_kind(m, "p", "PARAMETER");
    state_computed(m, "a", "['w']");
    state_computed(m, "b", same ? "['w']" : "['v']");
    for (const char* shape : {"s", "t"}) state_computed(m, shape, "['w']");
    const ModelFile file = m.parse();
    const Graph graph = file.graph({.batch = 2});
    EXPECT_EQ(names_of(graph, ValueKind::parameter), same ? Names({"p", "a"}) : Names({"p", "a", "b"}));
    EXPECT_EQ(said(graph, "equal values that are trained apart"), "");  // of two parameters the module has two
    if (!same) continue;
    const TemporaryFolder folder;
    file.write(folder / "out.onnx", {{"a", Tensor::of<float>(Shape{8, 8}, std::vector<float>(64, 3.0F))}});
    const Graph fixed = ModelFile::read(folder / "out.onnx", {.constant = {"b"}}).graph({.batch = 2});
    EXPECT_EQ(fixed[*fixed.find("b")].data->to_doubles()[5], 3);
  }
}

TEST(TiedTensors, WhatIsCountedFromAParameterFollowsIt) {
  struct Row {
    float offset, scale, slip;
    bool follows;
  };
  for (const Row& row : {Row{1, -1, 0, true}, {0.5F, 1, 0, true}, {0, -1, 0, true}, {1, -1, 0.01F, false}, {0, 2, 0, false}}) {
    SCOPED_TRACE(testing::Message() << row.offset << " + " << row.scale << " x");
    const std::vector<float> mix = arbitrary(8);
    std::vector<float> other;
    for (const float x : mix) other.push_back(row.offset + row.scale * x);
    other[3] += row.slip;
    Model m;
    m.input("x", "N,8").output("y").add(vector_of(mix, "mix")).add(vector_of(other, "other"));
    m.add(node("Mul", {"x", "mix"}, {"h"})).add(node("Mul", {"h", "other"}, {"y"}));
    state_kind(m, "mix", "PARAMETER");
    sign(m, "p_mix: PARAMETER target='mix'\n");
    state_computed(m, "other", "['mix', 'val_1']");
    const ModelFile file = ModelFile::parse(m.bytes(), {});
    const Graph graph = file.graph({.batch = 2});
    EXPECT_EQ(graph[*graph.find("other")].kind == ValueKind::activation, row.follows);
    if (!row.follows) continue;
    const TemporaryFolder folder;
    file.write(folder / "out.onnx", {{"mix", Tensor::of<float>(Shape{8}, {0, 1, 2, 3, 4, 5, 6, 7})}});
    const Graph again = ModelFile::read(folder / "out.onnx").graph({.batch = 2});
    EXPECT_EQ(again[*again.find("mix")].data->to_doubles()[2], 2);
    const ValueId now = *again.find("other");
    EXPECT_EQ(again[now].kind, ValueKind::activation);
    const ModelFile written = ModelFile::read(folder / "out.onnx", {.constant = {"other"}});
    const Graph fixed = written.graph({.batch = 2});
    EXPECT_FLOAT_EQ(static_cast<float>(fixed[*fixed.find("other")].data->to_doubles()[2]), row.offset + row.scale * 2);
  }
}

TEST(TiedTensors, FollowTransposedAndAreBothWritten) {
  const ModelFile file = ModelFile::parse(merged().bytes(), {}, {.tie = {{"e", "head"}}});
  const Graph graph = file.graph({.batch = 2});
  EXPECT_EQ(said(graph, "equal values that are trained apart"), "");
  EXPECT_EQ(graph[*graph.find("head")].kind, ValueKind::activation);
  std::vector<float> now(128);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<float>(i);
  const TemporaryFolder folder;
  file.write(folder / "out.onnx", {{"e", Tensor::of<float>(Shape{16, 8}, now)}});
  const Graph again = ModelFile::read(folder / "out.onnx").graph({.batch = 2});
  EXPECT_EQ(again[*again.find("e")].data->to_doubles()[1], 1);
  EXPECT_EQ(again[*again.find("head")].data->to_doubles()[1], 8);  // e[1][0]
}

}  // namespace
}  // namespace tandem::test
