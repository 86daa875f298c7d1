// Values that PyTorch takes without their gradient, by what its exporter notes of its calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

onnx::NodeProto called(onnx::NodeProto node, const std::string& target, const std::string& operands, std::string result = "") {
  if (result.empty()) result = node.output(0);
  auto& entry = *node.add_metadata_props();
  entry.set_key("pkg.torch.onnx.fx_node");
  entry.set_value("%" + result + " : [num_users=1] = call_function[target=torch.ops.aten." + target + "](args = (" + operands + "), kwargs = {})");
  return node;
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from h = x * p and k = exp(x) to y
  std::string y;                      // the node that gives it; StopGradient is '!'
  bool warned = true;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}
const Row rows[] = {
    {"an_identity_of_that_call", [](Model& m) { m.add(called(node("Identity", {"h"}, {"detach"}), "detach.default", "%h")).add(called(node("Mul", {"detach", "k"}, {"y"}), "mul.Tensor", "%detach, %k")); }, "Mul(h!, k)", false},
    {"an_identity_of_another", [](Model& m) { m.add(called(node("Identity", {"h"}, {"clone"}), "clone.default", "%h")).add(called(node("Mul", {"clone", "k"}, {"y"}), "mul.Tensor", "%clone, %k")); }, "Mul(Identity(h), k)", false},
    {"left_out", [](Model& m) { m.add(called(node("Mul", {"h", "k"}, {"y"}), "mul.Tensor", "%detach, %k")); }, "Mul(h!, k)"},
    {"left_out_behind_another", [](Model& m) { m.add(called(node("Mul", {"k", "h"}, {"y"}), "mul.Tensor", "%k, %detach_12")); }, "Mul(k, h!)"},
    {"once_with_its_gradient", [](Model& m) { m.add(called(node("Sub", {"h", "h"}, {"y"}), "sub.Tensor", "%detach_1, %h")); }, "Sub(h!, h)"},
    {"beside_what_goes_by_another_name", [](Model& m) { m.add(called(node("Sub", {"h", "k"}, {"y"}), "sub.Tensor", "%view, %detach")); }, "Sub(h, k!)"},
    {"beside_a_parameter", [](Model& m) { m.add(called(node("Add", {"h", "p"}, {"y"}), "add.Tensor", "%detach, %p_p")); }, "Add(h!, p)"},
    {"beside_a_constant", [](Model& m) { m.add(node("Constant", {}, {"two"}, {{"value_float", 2.0F}})).add(called(node("Add", {"h", "two"}, {"y"}), "add.Tensor", "%detach, %two")); }, "Add(h!, two)"},
    {"in_a_call_of_two_nodes", [](Model& m) { m.add(called(node("Exp", {"h"}, {"val_1"}), "own.default", "%detach, %k", "y")).add(called(node("Add", {"val_1", "k"}, {"y"}), "own.default", "%detach, %k")); }, "Add(Exp(h!), k)"},
    {"not_known_which", [](Model& m) { m.add(called(node("Exp", {"h"}, {"val_1"}), "own.default", "%detach, %view")).add(called(node("Add", {"val_1", "k"}, {"y"}), "add.Tensor", "%own, %k")); }, "Add(Exp(h), k)"},
    {"of_a_name_of_its_own", [](Model& m) { m.add(called(node("Mul", {"h", "k"}, {"y"}), "mul.Tensor", "%detached, %k")); }, "Mul(h, k)", false},
    {"a_value_that_is_there", [](Model& m) { m.add(node("Relu", {"h"}, {"detach"})).add(called(node("Mul", {"detach", "k"}, {"y"}), "mul.Tensor", "%detach, %k")); }, "Mul(Relu(h), k)", false},
};

std::string text(const Graph& graph, ValueId v) {
  if (!graph[v].producer.present() || graph[v].name == "h" || graph[v].name == "k") return graph[v].name;
  const Node& node = graph[graph[v].producer];
  if (node.op->name == "StopGradient") return text(graph, node.inputs[0]) + "!";
  std::string s = std::string(node.op->name) + "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) s += (i ? ", " : "") + text(graph, node.inputs[i]);
  return s + ")";
}

class Detached : public testing::TestWithParam<Row> {};

TEST_P(Detached, TakesNoGradient) {
  Model m;
  m.input("x", "N,8").output("y").add(float_tensor("p", {8}, {1, 2, 3, 4, 5, 6, 7, 9}));
  m.add(called(node("Mul", {"x", "p"}, {"h"}), "mul.Tensor", "%x, %p_p")).add(called(node("Exp", {"x"}, {"k"}), "exp.default", "%x"));
  GetParam().build(m);
  for (const std::int64_t batch : {2, 3}) {
    const Graph graph = m.graph(batch);
    EXPECT_EQ(text(graph, graph.outputs[0]), GetParam().y);
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) { return s.find("detached") != s.npos; }), GetParam().warned)
        << testing::PrintToString(graph.warnings);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Detached, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::test
