// Values that PyTorch takes without their gradient, by what its exporter notes of its calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/operator.h"
#include "tests/importer/exporter_notes.h"

namespace tandem::test {
namespace {

onnx::NodeProto called(onnx::NodeProto node, const std::string& target, const std::string& operands, std::string result = "") {
  if (result.empty()) result = node.output(0);
  auto& entry = *node.add_metadata_props();
  entry.set_key("pkg.torch.onnx.fx_node");
  entry.set_value("%" + result + " : [num_users=1] = call_function[target=torch.ops.aten." + target + "](args = (" + operands +
                  "), kwargs = {})");
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
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) { return s.find("detached") != s.npos; }),
              GetParam().warned)
        << testing::PrintToString(graph.warnings);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Detached, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

// h[:, 1:] of which the exporter left out detach and a slice that changes nothing: the source line tells that there was one, unless a
// detach of that line was found.
TEST(Detach, ThatLeftNoTraceIsToldByItsSource) {
  struct Case {
    const char *what, *source, *reads, *operand;
    bool found, warns;
  };
  for (const Case& c : {Case{"a slice of it", "y = h.detach()[:, 1:] * k", "h", "%slice_1", false, true},
                        {"no detach there", "y = h[:, 1:] * k", "h", "%slice_1", false, false},
                        {"all values are known", "y = h.detach()[:, 1:] * k", "h", "%h", false, false},
                        {"of an input", "y = x.detach()[:, 1:] * k", "x", "%slice_1", false, false},
                        {"found in another node", "y = h[:, 1:] + h.detach()", "h", "%slice_1", true, false}}) {
    SCOPED_TRACE(c.what);
    const std::string stack =
        std::string("File \"m.py\", line 3, in forward\n    return f(h.detach())\n  File \"m.py\", line 7, in f\n    ") + c.source;
    const auto at = [&](onnx::NodeProto n) {
      auto& entry = *n.add_metadata_props();
      entry.set_key("pkg.torch.onnx.stack_trace");
      entry.set_value(stack);
      return n;
    };
    Model m;
    m.input("x", "N,8")
        .output("y")
        .add(float_tensor("p", {8}, {1, 2, 3, 4, 5, 6, 7, 9}))
        .add(called(node("Mul", {"x", "p"}, {"h"}), "mul.Tensor", "%x, %p_p"));
    m.add(int_tensor("one", {1}, {1})).add(int_tensor("eight", {1}, {8}));
    m.add(at(called(node("Slice", {c.reads, "one", "eight", "one"}, {"slice_2"}), "slice.Tensor", std::string(c.operand) + ", 1, 1, 8")));
    m.add(node("Slice", {"h", "one", "eight", "one"}, {"part"}));
    m.add(at(called(node("Mul", {"part", "slice_2"}, {"y"}), "mul.Tensor", c.found ? "%detach, %slice_2" : "%part, %slice_2")));
    const Graph graph = m.graph(2);
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                          [&](const std::string& w) {
                            return w.starts_with("the source of 'node_slice_2' detaches a value") && w.find(c.source) != w.npos;
                          }),
              c.warns)
        << testing::PrintToString(graph.warnings);
  }
}

// A parameter that is taken detached, as the exporter computes it, or a view of that.
TEST(Detach, OfAParameter) {
  for (const auto& [held, name, from] : {std::tuple(true, "detach", "['p']"),
                                         {false, "detach", "['p']"},
                                         {true, "view", "['detach', 'p', 'val_1']"},
                                         {false, "view", "['detach', 'p', 'val_1']"}}) {
    const std::string taken = name;
    SCOPED_TRACE(held);
    Model m;
    m.input("x", "N,4").output("y").add(float_tensor(taken, {4}, {1, 2, 3, 5})).add(float_tensor("q", {4}, {1, 3, 3, 7}));
    m.add(called(node("Mul", {"x", taken}, {"h"}), "mul.Tensor", "%x, %" + taken))
        .add(called(node("Mul", {"h", "q"}, {"k"}), "mul.Tensor", "%h, %p_q"));
    if (held) m.add(float_tensor("p", {4}, {1, 2, 3, 5})).add(called(node("Add", {"k", "p"}, {"y"}), "add.Tensor", "%k, %p_p"));
    else m.add(node("Identity", {"k"}, {"y"}));
    sign(m, "p_p: PARAMETER target='p'\np_q: PARAMETER target='q'\n");
    state_kind(m, "q", "PARAMETER", "p_q");
    if (held) state_kind(m, "p", "PARAMETER", "p_p");
    state_computed(m, taken, from);
    const Graph graph = m.graph(2);
    EXPECT_EQ(names_of(graph, ValueKind::parameter), held ? (Names{"q", "p"}) : Names{"q"});
    const Value& value = graph[*graph.find(taken)];
    EXPECT_EQ(value.kind, held ? ValueKind::activation : ValueKind::constant);
    if (value.producer.present()) {
      EXPECT_EQ(graph[value.producer].op->name, "StopGradient");
    }
    EXPECT_TRUE(graph.warnings.empty()) << testing::PrintToString(graph.warnings);
  }
}

}  // namespace
}  // namespace tandem::test
