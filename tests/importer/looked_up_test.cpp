// Tensors that an exporter looked up in a parameter: rows that are the same to the last bit train as one.
#include <gtest/gtest.h>

#include <algorithm>

#include "importer/weights/looked_up.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

constexpr std::int64_t heads = 5, words = 4, distances = 2 * words - 1;

float entry(std::int64_t distance, std::int64_t head) {
  return static_cast<float>((distance * 31 + head * 17) % 29) / 7.0F - 1.3F;
}

// [heads, words, words]: of each pair the row of a table at their distance.
std::vector<float> biases(float (*of)(std::int64_t, std::int64_t)) {
  std::vector<float> values;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < words; ++i)
      for (std::int64_t j = 0; j < words; ++j) values.push_back(of(i - j + words - 1, h));
  return values;
}

struct Case {
  const char* what = "";
  std::string note = "['add', 'arange', 'embedding', 'table.weight']";
  float (*of)(std::int64_t, std::int64_t) = entry;
  std::string batch = "N";
  bool one = true;  // equal rows are
  WeightOptions options = {};
};

void note(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>* entries, const char* key, const std::string& value) {
  auto& e = *entries->Add();
  e.set_key(key);
  e.set_value(value);
}
void note_of(Model& m, const std::string& tensor, const char* key, const std::string& value) {
  onnx::ValueInfoProto& info = *m.proto.mutable_graph()->add_value_info();
  info.set_name(tensor);
  note(info.mutable_metadata_props(), key, value);
}
constexpr const char* folded_from = "pkg.onnxscript.optimizer.folded_from";

// x + permute of a module with a table; the note says what `permute` was computed from.
Model biased(const Case& c) {
  Model m;
  m.input("x", c.batch + ",5,4,4")
      .output("y")
      .add(float_tensor("permute", {heads, words, words}, biases(c.of)))
      .add(float_tensor("own", {1}, {0.3F}));
  m.add(node("Mul", {"x", "own"}, {"h"})).add(node("Add", {"h", "permute"}, {"y"}));
  note(m.proto.mutable_graph()->mutable_metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature",
       "p_own: PARAMETER target='own'\np_table_weight: PARAMETER target='table.weight'\np_index: PARAMETER target='index'\n");
  note_of(m, "own", "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER");
  note_of(m, "permute", folded_from, c.note);
  return m;
}

const Case cases[] = {
    {"looked up"},
    {"expanded", "['expand_3', 'table.weight']"},
    {"by a static batch of another size", "['gather', 'table.weight']", entry, "2"},
    {"nothing was looked up", "['exp', 'table.weight']", entry, "N", false},
    {"a parameter is called index", "['index']", entry, "N", false},
    {"of two parameters", "['embedding', 'own', 'table.weight']", entry, "N", false},
    {"rows of a progression, which a parameter may begin with", "['expand', 'table.weight']",
     [](std::int64_t d, std::int64_t h) { return entry(d * d, 0) * static_cast<float>(h + 1); }, "N", false},
    {"zeros", "['embedding', 'table.weight']", [](std::int64_t, std::int64_t) { return 0.0F; }, "N", false},
    {"few are the same", "['embedding', 'table.weight']",
     [](std::int64_t d, std::int64_t h) { static float last = 0; return d == 3 ? entry(d, h) : last += 0.37F; }, "N", false},
    {"samples of the file's batch", "['expand', 'table.weight']", [](std::int64_t, std::int64_t h) { return entry(0, h); }, "4", false},
    {"you said so", "['embedding', 'table.weight']", entry, "N", false, {.trainable = {"permute"}}},
};

TEST(LookedUp, EqualRowsAreOneParameter) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const ModelFile file = ModelFile::parse(biased(c).bytes(), {}, c.options);
    const Graph graph = file.graph({.batch = c.batch == "N" ? 2 : 0});
    const Value& w = graph[*graph.find("permute")];
    EXPECT_EQ(w.kind, ValueKind::parameter);
    EXPECT_TRUE(w.trainable);
    EXPECT_EQ(w.type.shape.rank() == 2, c.one) << w.type.shape.rank();
    EXPECT_EQ(shape_of(graph, "y"), (Shape{c.batch == "N" ? 2 : std::stoi(c.batch), heads, words, words}));
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                          [](const std::string& s) {
                            return s.starts_with("the exporter looked up 'permute' in 'table.weight': its ") &&
                                   s.find("torch.onnx.export(..., optimize=False) keeps parameters") != s.npos;
                          }),
              c.one)
        << testing::PrintToString(graph.warnings);
  }
}

// A parameter that was repeated for each of the file's two samples, beside each other in an axis.
TEST(LookedUp, RowsOfEachSampleFollowTheBatch) {
  std::vector<float> rows;
  for (std::int64_t sample = 0; sample < 2; ++sample)
    for (std::int64_t i = 0; i < 12; ++i) rows.push_back(entry(i / 4, i % 4));
  Model m;
  m.input("x", "2,3,4").output("y").add(float_tensor("permute", {1, 6, 4}, rows)).add(float_tensor("own", {1}, {0.3F}));
  m.add(int_tensor("beside", {3}, {1, 6, 4})).add(int_tensor("back", {3}, {2, 3, 4})).add(node("Mul", {"x", "own"}, {"h"}));
  m.add(node("Reshape", {"h", "beside"}, {"r"})).add(node("Add", {"r", "permute"}, {"s"})).add(node("Reshape", {"s", "back"}, {"y"}));
  note(m.proto.mutable_graph()->mutable_metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature",
       "p_own: PARAMETER target='own'\np_start: PARAMETER target='start'\n");
  note_of(m, "own", "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER");
  note_of(m, "permute", folded_from, "['repeat', 'start']");
  const ModelFile file = m.parse();
  for (const std::int64_t batch : {1, 2, 5}) {
    const Graph graph = file.graph({.batch = batch});
    EXPECT_EQ(graph[*graph.find("permute")].type.shape, (Shape{3, 4}));
    EXPECT_EQ(shape_of(graph, "s"), (Shape{1, 3 * batch, 4}));
    EXPECT_EQ(shape_of(graph, "y"), (Shape{batch, 3, 4}));
  }
}

TEST(LookedUp, EveryPlaceIsWrittenWithItsRow) {
  Model m = biased({"looked up"});  // and once more for another layer
  m.output("z").add(float_tensor("v", {heads, words, words}, biases(entry))).add(node("Add", {"y", "v"}, {"z"}));
  note_of(m, "v", folded_from, Case{}.note);
  const ModelFile file = m.parse();
  const Graph graph = file.graph({.batch = 2});
  ASSERT_EQ(graph[*graph.find("permute")].type.shape, (Shape{distances, heads}));
  // Rows stand in the order of their first places: distances 3, 2, 1, 0 in the first line, then 4, 5, 6.
  std::vector<float> now;
  for (const std::int64_t d : {3, 2, 1, 0, 4, 5, 6})
    for (std::int64_t h = 0; h < heads; ++h) {
      EXPECT_EQ(graph[*graph.find("permute")].data->to_doubles()[now.size()], entry(d, h));
      now.push_back(static_cast<float>(100 * d + h));
    }
  const TemporaryFolder folder;
  file.write(folder / "out.onnx", {{"permute", Tensor::of<float>(Shape{distances, heads}, now)}});
  const ModelFile written = ModelFile::read(folder / "out.onnx", {.constant = {"permute", "v"}});
  const Graph fixed = written.graph({.batch = 2});
  const std::vector<float> wanted = biases([](std::int64_t d, std::int64_t h) { return static_cast<float>(100 * d + h); });
  for (const char* name : {"permute", "v"})
    EXPECT_EQ(fixed[*fixed.find(name)].data->to_doubles(), std::vector<double>(wanted.begin(), wanted.end())) << name;
}

}  // namespace
}  // namespace tandem::test
