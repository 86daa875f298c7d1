// Weights in bodies of If, Loop and Scan and in local functions train as they would in the model's own graph, and are written back to where
// they stand.
// An embedding's padding row stays as it is.
#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::node;
constexpr std::int64_t samples = 4, features = 3;
const Backend* const backends[] = {&cpu_backend()};

std::vector<float> waves(std::int64_t n, float from = 1) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 0.5F * std::sin(1.3F * static_cast<float>(i) + from);
  return v;
}
onnx::TensorProto weight(const std::string& name) { return test::float_tensor(name, {features, features}, waves(features * features)); }
onnx::NodeProto constant(const std::string& name) { return node("Constant", {}, {name}, {{"value", weight("")}}); }

onnx::GraphProto body(const test::Names& inputs, const std::vector<onnx::TensorProto>& held, const std::vector<onnx::NodeProto>& nodes,
                      const test::Names& outputs) {
  onnx::GraphProto graph = test::branch(nodes, outputs);
  for (const std::string& name : inputs) graph.add_input()->set_name(name);
  for (const onnx::TensorProto& t : held) *graph.add_initializer() = t;
  return graph;
}

onnx::TensorProto yes() {
  onnx::TensorProto t;
  t.set_name("yes");
  t.set_data_type(onnx::TensorProto::BOOL);
  t.add_int32_data(1);
  return t;
}

struct Row {
  std::string name;
  std::function<void(test::Model&)> build, plain;  // from x [N,3] to y: with the weight inside, and with `w` in the model's own graph
  std::string weight;                              // its name there
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

void product(test::Model& m) { m.add(weight("w")).add(node("MatMul", {"x", "w"}, {"y"})); }
void twice(test::Model& m) { m.add(weight("w")).add(node("MatMul", {"x", "w"}, {"h"})).add(node("MatMul", {"h", "w"}, {"y"})); }

onnx::NodeProto loop(const std::vector<onnx::TensorProto>& held, const std::vector<onnx::NodeProto>& nodes) {
  std::vector<onnx::NodeProto> all{node("Identity", {"c"}, {"c2"})};
  all.insert(all.end(), nodes.begin(), nodes.end());
  return node("Loop", {"turns", "", "x"}, {"y"}, {{"body", body({"i", "c", "v"}, held, all, {"c2", "v2"})}});
}

// clang-format off
const Row rows[] = {
    {"if_known", [](test::Model& m) { m.add(yes()).add(node("If", {"yes"}, {"y"}, {{"then_branch", body({}, {weight("w")}, {node("MatMul", {"x", "w"}, {"t"})}, {"t"})}, {"else_branch", body({}, {weight("v")}, {node("MatMul", {"x", "v"}, {"e"})}, {"e"})}})); }, product, "node_y/then_branch/w"},
    {"if_by_another_weight", [](test::Model& m) { m.add(weight("g")).add(test::float_tensor("low", {}, {-100})).add(node("MatMul", {"x", "g"}, {"h"})).add(node("ReduceMean", {"g"}, {"m"}, {{"keepdims", std::int64_t{0}}})).add(node("Greater", {"m", "low"}, {"c"})).add(node("If", {"c"}, {"y"}, {{"then_branch", body({}, {weight("w")}, {node("MatMul", {"h", "w"}, {"t"})}, {"t"})}, {"else_branch", body({}, {weight("v")}, {node("MatMul", {"h", "v"}, {"e"})}, {"e"})}})); }, [](test::Model& m) { m.add(weight("g")).add(weight("w")).add(node("MatMul", {"x", "g"}, {"h"})).add(node("MatMul", {"h", "w"}, {"y"})); }, "node_y/then_branch/w"},
    {"loop", [](test::Model& m) { m.add(test::int_tensor("turns", {}, {2})).add(loop({weight("w")}, {node("MatMul", {"v", "w"}, {"v2"})})); }, twice, "node_y/body/w"},
    {"loop_with_a_constant", [](test::Model& m) { m.add(test::int_tensor("turns", {}, {2})).add(loop({}, {constant("w"), node("MatMul", {"v", "w"}, {"v2"})})); }, twice, "node_y/body/w"},
    {"scan", [](test::Model& m) {
       m.add(test::int_tensor("s", {3}, {2, 1, 1})).add(test::int_tensor("t", {3}, {1, 1, 1}));
       m.add(node("Constant", {}, {"steps"}, {{"value", test::filled_tensor("", {2, 1}, 0)}}));
       m.add(node("Scan", {"x", "steps"}, {"y"}, {{"num_scan_inputs", std::int64_t{1}}, {"body", body({"v", "step"}, {weight("w")}, {node("MatMul", {"v", "w"}, {"v2"})}, {"v2"})}}));
     }, twice, "node_y/body/w"},
    {"function", [](test::Model& m) { m.add(test::function("F", {"a"}, {"b"}, {constant("w"), node("MatMul", {"a", "w"}, {"b"})})).add(node("F", {"x"}, {"y"}, {}, test::function_domain)); }, product, "node_y/w"},
    {"function_called_twice", [](test::Model& m) { m.add(test::function("F", {"a"}, {"b"}, {constant("w"), node("MatMul", {"a", "w"}, {"b"})})).add(node("F", {"x"}, {"h"}, {}, test::function_domain)).add(node("F", {"h"}, {"y"}, {}, test::function_domain)); }, twice, "node_h/w"},
    {"function_within_one", [](test::Model& m) { m.add(test::function("F", {"a"}, {"b"}, {constant("w"), node("MatMul", {"a", "w"}, {"b"})})).add(test::function("G", {"a"}, {"b"}, {node("F", {"a"}, {"h"}, {}, test::function_domain), node("F", {"h"}, {"b"}, {}, test::function_domain)})).add(node("G", {"x"}, {"y"}, {}, test::function_domain)); }, twice, "node_y/node_h/w"},
    {"function_in_a_loop", [](test::Model& m) { m.add(test::function("F", {"a"}, {"b"}, {constant("w"), node("MatMul", {"a", "w"}, {"b"})})).add(test::int_tensor("turns", {}, {2})).add(loop({}, {node("F", {"v"}, {"v2"}, {}, test::function_domain)})); }, twice, "node_y/body/node_v2/w"},
    {"branch_in_a_function", [](test::Model& m) { m.add(test::function("F", {"a"}, {"b"}, {node("Constant", {}, {"c"}, {{"value", yes()}}), node("If", {"c"}, {"b"}, {{"then_branch", body({}, {weight("w")}, {node("MatMul", {"a", "w"}, {"t"})}, {"t"})}, {"else_branch", body({}, {}, {node("Relu", {"a"}, {"e"})}, {"e"})}})})).add(node("F", {"x"}, {"h"}, {}, test::function_domain)).add(node("F", {"h"}, {"y"}, {}, test::function_domain)); }, twice, "node_h/node_b/then_branch/w"},
};
// clang-format on

Model model_of(const std::function<void(test::Model&)>& build) {
  test::Model m(18);
  m.input("x", "N,3").output("y");
  build(m);
  ModelOptions o;
  o.plan.batch = samples;
  o.plan.devices = parse_devices("cpu:0");
  o.plan.loss.name = "mse";
  o.init = "keep";
  Model model(m.parse());
  model.compile(o, backends);
  return model;
}

std::vector<double> value_of(const Model& model, const std::string& name) {
  for (const NamedTensor& t : model.parameters())
    if (t.name == name) return t.tensor.to_doubles();
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

class InnerWeight : public testing::TestWithParam<Row> {};

TEST_P(InnerWeight, TrainsAsInTheModelsOwnGraphAndGoesBack) {
  const Row& row = GetParam();
  Model inner = model_of(row.build), plain = model_of(row.plain);
  const std::vector<Tensor> batch{Tensor::of<float>(Shape{samples, features}, waves(samples * features, 2)),
                                  Tensor::of<float>(Shape{samples, features}, waves(samples * features, 3))};
  for (int step = 0; step < 3; ++step) EXPECT_NEAR(inner.train_on_batch(batch, 0.1).loss, plain.train_on_batch(batch, 0.1).loss, 1e-6);
  const std::vector<double> now = value_of(inner, row.weight), wanted = value_of(plain, "w");
  ASSERT_EQ(now.size(), wanted.size());
  for (std::size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(now[i], wanted[i], 1e-6);
  EXPECT_GT(std::abs(now[0] - static_cast<double>(waves(1)[0])), 1e-4) << "nothing moved";

  const TemporaryFolder folder;
  inner.save(folder / "trained.onnx");
  const ModelFile again = ModelFile::read(folder / "trained.onnx");
  const Graph graph = again.graph({.batch = samples});
  const auto held = graph.find(row.weight);
  ASSERT_TRUE(held);
  EXPECT_EQ(graph[*held].data->to_doubles(), now);
  test::Model before(18);
  before.input("x", "N,3").output("y");
  row.build(before);
  EXPECT_EQ(again.tensors().size(), before.parse().tensors().size());  // in its place, and not besides
}
INSTANTIATE_TEST_SUITE_P(Rows, InnerWeight, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(InnerWeights, AreNamedByOptions) {
  test::Model m(18);
  m.input("x", "N,3").output("y");
  rows[0].build(m);
  const auto holding = [&](const WeightOptions& options, const std::string& name) {
    const ModelFile file = ModelFile::parse(m.bytes(), {}, options);
    for (const TemplateTensor& t : file.tensors())
      if (t.name == name) return concat(name_of(t.holding), ": ", t.reason);
    return std::string("none");
  };
  EXPECT_EQ(holding({.trainable = {"*"}}, "node_y/then_branch/w"), "trained: option trainable *");
  EXPECT_EQ(holding({.constant = {"*then_branch*"}}, "node_y/then_branch/w"), "constant: option constant *then_branch*");
  EXPECT_EQ(holding({}, "node_y/else_branch/v"), "constant: no output of the model depends on it");  // never taken
}

TEST(InnerWeights, AreNoneOfATrainingInfo) {
  Model model = model_of(rows[5].build);
  const TemporaryFolder folder;
  SaveOptions options;
  options.training = model.training_step(0.1);
  expect_error(ExitCode::usage, "stands in a subgraph or a function", [&] { model.file().check_write(folder / "out.onnx", options); });
}

TEST(Embedding, KeepsThePaddingRowThatTheFileNotes) {
  for (const auto& [arguments, padding] :
       {std::pair("%p_e_weight, %x, 2", 2), {"%p_e_weight, %x", -1}, {"%p_e_weight, %x, -1, True", -1}, {"%p_e_weight, %x, 0, True", 0}}) {
    SCOPED_TRACE(arguments);
    test::Model m(18);
    m.input("x", "N,5", onnx::TensorProto::INT64)
        .output("y")
        .add(test::float_tensor("e", {4, features}, waves(4 * features)))
        .add(test::int_tensor("axis", {1}, {1}));
    onnx::NodeProto lookup = node("Gather", {"e", "x"}, {"rows"});
    auto& note = *lookup.add_metadata_props();
    note.set_key("pkg.torch.onnx.fx_node");
    note.set_value(concat("%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (", arguments,
                          "), kwargs = {})"));
    m.add(lookup).add(node("ReduceMean", {"rows", "axis"}, {"y"}, {{"keepdims", std::int64_t{0}}}));
    for (const char* devices : {"cpu:0", "cpu:0-1"}) {
      ModelOptions o;
      o.plan.batch = samples;
      o.plan.devices = parse_devices(devices);
      o.plan.loss.name = "mse";
      o.init = "keep";
      Model model(m.parse());
      model.compile(o, backends);
      const std::vector<std::string>& warnings = model.plan().warnings;
      EXPECT_EQ(std::any_of(warnings.begin(), warnings.end(), [](const std::string& w) { return w.find("scale_grad_by_freq") != w.npos; }),
                std::string_view(arguments).ends_with("True"));
      std::vector<std::int64_t> tokens;
      for (std::int64_t i = 0; i < samples * 5; ++i) tokens.push_back(i % 4);
      const std::vector<double> before = value_of(model, "e");
      model.train_on_batch(std::vector<Tensor>{Tensor::of<std::int64_t>(Shape{samples, 5}, tokens),
                                               Tensor::of<float>(Shape{samples, features}, waves(samples * features, 3))},
                           0.5);
      const std::vector<double> after = value_of(model, "e");
      for (std::size_t row = 0; row < 4; ++row)
        for (std::size_t i = row * features; i < (row + 1) * features; ++i)
          EXPECT_EQ(before[i] == after[i], static_cast<int>(row) == padding) << row;
    }
  }
}

}  // namespace
}  // namespace tandem
