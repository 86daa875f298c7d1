// Decision trees of scikit-learn's and boosting's exports: they stand in a pipeline as they are, and say what is wrong with their nodes.
// What they compute is compared with ONNX Runtime's in tests/operators/onnxruntime_cases.py.
#include <gtest/gtest.h>

#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using Ints = std::vector<std::int64_t>;
using List = std::vector<float>;
constexpr const char* ml = "ai.onnx.ml";

onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name) {
  for (auto& a : *node.mutable_attribute())
    if (a.name() == name) return a;
  auto& a = *node.add_attribute();
  a.set_name(name);
  return a;
}

// One tree: feature 1 ≤ 0.5 gives leaf 1, else feature 0 ≤ 2 gives leaf 3 or 4.
onnx::NodeProto tree(bool classifier) {
  const std::string of = classifier ? "class" : "target";
  const Names outputs = classifier ? Names{"label", "y"} : Names{"y"};
  onnx::NodeProto n = node(classifier ? "TreeEnsembleClassifier" : "TreeEnsembleRegressor", {"x"}, outputs,
                           {{"nodes_treeids", Ints{0, 0, 0, 0, 0}}, {"nodes_nodeids", Ints{0, 1, 2, 3, 4}}, {"nodes_featureids", Ints{1, 0, 0, 0, 0}}, {"nodes_values", List{0.5F, 0, 2, 0, 0}},
                            {"nodes_truenodeids", Ints{1, 0, 3, 0, 0}}, {"nodes_falsenodeids", Ints{2, 0, 4, 0, 0}}, {of + "_treeids", Ints{0, 0, 0}}, {of + "_nodeids", Ints{1, 3, 4}},
                            {of + "_ids", Ints{0, 1, 2}}, {of + "_weights", List{1, 2, 3}}},
                           ml);
  auto& modes = attribute(n, "nodes_modes");
  modes.set_type(onnx::AttributeProto::STRINGS);
  for (const char* mode : {"BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"}) modes.add_strings(mode);
  if (classifier) {
    auto& labels = attribute(n, "classlabels_strings");
    labels.set_type(onnx::AttributeProto::STRINGS);
    for (const char* label : {"cat", "dog", "owl"}) labels.add_strings(label);
  } else {
    auto& targets = attribute(n, "n_targets");
    targets.set_type(onnx::AttributeProto::INT);
    targets.set_i(3);
  }
  return n;
}

Model model_of(const onnx::NodeProto& node) {
  Model m;
  m.input("x", "N,2").output("y");
  if (node.output_size() > 1) m.output("label");
  auto& import = *m.proto.add_opset_import();
  import.set_domain(ml);
  import.set_version(3);
  return m.add(node);
}

TEST(TreeEnsembles, TakeAnyBatch) {
  for (const bool classifier : {false, true})
    for (const std::int64_t batch : {1, 7}) {
      const Graph graph = model_of(tree(classifier)).graph(batch);
      EXPECT_EQ(shape_of(graph, "y"), (Shape{batch, 3}));
      EXPECT_EQ(graph.outputs.size(), 1U);  // labels of strings go
    }
}

TEST(TreeEnsembles, SayWhatIsWrongWithTheirNodes) {
  struct Row {
    const char* report;
    std::function<void(onnx::NodeProto&)> change;
  };
  const Row rows[] = {
      {"nodes_values has 4 entries, expected 5", [](auto& n) { attribute(n, "nodes_values").mutable_floats()->RemoveLast(); }},
      {"node 2 asks for feature 2, x has 2", [](auto& n) { attribute(n, "nodes_featureids").set_ints(2, 2); }},
      {"node 0 asks for feature -1, x has 2", [](auto& n) { attribute(n, "nodes_featureids").set_ints(0, -1); }},
      {"tree 0 has no node 9", [](auto& n) { attribute(n, "nodes_falsenodeids").set_ints(2, 9); }},
      {"tree 0 has node 3 twice", [](auto& n) { attribute(n, "nodes_nodeids").set_ints(4, 3); }},
      {"it has 2 roots, expected one for each tree", [](auto& n) { attribute(n, "nodes_truenodeids").set_ints(2, 4); }},
      {"node 0 lies below no root", [](auto& n) { attribute(n, "nodes_falsenodeids").set_ints(2, 0); }},
      {"its branches meet again at node 2", [](auto& n) { attribute(n, "nodes_truenodeids").set_ints(0, 2); attribute(n, "nodes_treeids").set_ints(1, 1); attribute(n, "target_treeids").set_ints(0, 1); }},
      {"nodes_modes is 'BRANCH_MEMBER', which TreeEnsemble alone has", [](auto& n) { attribute(n, "nodes_modes").set_strings(0, "BRANCH_MEMBER"); }},
      {"nodes_modes is 'BRANCH_LE', which is none that there is", [](auto& n) { attribute(n, "nodes_modes").set_strings(0, "BRANCH_LE"); }},
      {"a leaf counts for target 3, expected 0 to 2", [](auto& n) { attribute(n, "target_ids").set_ints(1, 3); }},
      {"numbers at 5 nodes, expected at most", [](auto& n) { attribute(n, "n_targets").set_i(std::int64_t{1} << 60); }},
      {"target_ids has 3 entries, expected 2", [](auto& n) { attribute(n, "target_weights").mutable_floats()->RemoveLast(); }},
  };
  EXPECT_EQ(model_of(tree(false)).report(), "");
  for (const Row& row : rows) {
    onnx::NodeProto n = tree(false);
    row.change(n);
    const std::string report = model_of(n).report();
    EXPECT_NE(report.find(row.report), std::string::npos) << row.report << " is not in: " << report;
  }
}

}  // namespace
}  // namespace tandem::test
