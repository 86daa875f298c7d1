// What options of the optimizer make of the update nodes.
#include "planner/update/optimizer.h"

#include <gtest/gtest.h>

#include "graph/operator.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

constexpr DType f = DType::float32;

// A matrix and two vectors, with gradients.
Graph model() {
  Graph g;
  GraphBuilder b(g, "n", {});
  for (const auto& [name, shape] : {std::pair<std::string, Shape>{"layer/weight", {3, 4}}, {"layer/bias", {3}}, {"norm.scale", {4}}}) {
    g.add_parameter(name, {f, shape}, Tensor(TensorType{f, shape}), true);
    g.outputs.emplace_back(b.neg(g.add_input("g/" + name, {f, shape})), ValueRole::gradient, name);
  }
  return g;
}

// Each update: operator, what it writes, and an attribute.
std::vector<std::string> updates(const OptimizerOptions& o, std::string_view attribute = "weight_decay") {
  CompileOptions c;
  c.optimizer = o;
  const Graph g = passed("append_updates", model(), {.options = c});
  verify(g);
  std::vector<std::string> list;
  for (const Node& n : g.nodes) {
    if (n.op->in_place.empty()) continue;
    std::string line(n.op->name);
    for (const ValueId v : updated_by(n)) line += ' ' + g[v].name;
    const AttributeValue* a = n.attributes.find(attribute);
    list.push_back(concat(line, a ? concat(' ', attribute, '=', to_string(*a)) : std::string()));
  }
  return list;
}

using Lines = std::vector<std::string>;

TEST(Optimizer, NamesAreThoseOfTheFrameworks) {
  for (const auto& [written, name] : {std::pair{"Adam", "adam"},
                                      {"torch.optim.AdamW", "adamw"},
                                      {"tf.keras.optimizers.RMSprop", "rmsprop"},
                                      {"NAdam", "nadam"},
                                      {"Nesterov", "sgd"}})
    EXPECT_EQ(optimizer_defaults(written).name, name);
  EXPECT_EQ(default_learning_rate(optimizer_defaults("NAdam")), 0.002);
  EXPECT_EQ(to_string(optimizer_defaults("nesterov")), "sgd momentum=0.9 nesterov");
  EXPECT_EQ(to_string(optimizer_defaults("lion")), "lion beta1=0.9 beta2=0.99");
}

TEST(Optimizer, GroupsAreNodesOfTheirOwn) {
  OptimizerOptions o = optimizer_defaults("momentum");
  o.weight_decay = 0.5;
  o.groups = {{.patterns = {"bias"}, .weight_decay = 0, .rate = 0.25}};
  EXPECT_EQ(updates(o, "rate"), (Lines{"SgdUpdate layer/bias momentum/layer/bias rate=0.25",
                                       "SgdUpdate layer/weight momentum/layer/weight norm.scale momentum/norm.scale"}));
  EXPECT_EQ(updates(o), (Lines{"SgdUpdate layer/bias momentum/layer/bias weight_decay=0",
                               "SgdUpdate layer/weight momentum/layer/weight norm.scale momentum/norm.scale weight_decay=0.5"}));
  o.groups.clear();
  o.decay_vectors = false;
  EXPECT_EQ(updates(o), (Lines{"SgdUpdate layer/bias momentum/layer/bias norm.scale momentum/norm.scale weight_decay=0",
                               "SgdUpdate layer/weight momentum/layer/weight weight_decay=0.5"}));
}

TEST(Optimizer, AveragesAreStates) {
  OptimizerOptions o = optimizer_defaults("sgd");
  o.average = true;
  o.groups = {{.patterns = {"*bias", "norm*"}, .from = 2}};
  EXPECT_EQ(updates(o, "from"), (Lines{"SgdUpdate layer/bias average/layer/bias norm.scale average/norm.scale from=2",
                                       "SgdUpdate layer/weight average/layer/weight"}));
}

TEST(Optimizer, NormsAreOfAllGradients) {
  CompileOptions c;
  c.optimizer = optimizer_defaults("adamw");
  c.optimizer.clip_norm = 2;
  const Graph g = passed("append_updates", model(), {.options = c});
  int clipped = 0;
  for (const Node& n : g.nodes)
    if (n.op->name == "ClipScalars") {
      ++clipped;
      EXPECT_EQ(n.inputs.size(), 4U);
      EXPECT_EQ(g.nodes.back().inputs[0], n.outputs[0]);
    }
  EXPECT_EQ(clipped, 1);
}

TEST(Optimizer, ComposedStepsAreAssigned) {
  EXPECT_EQ(
      updates(optimizer_defaults("muon"), "decoupled"),
      (Lines{"AssignUpdate momentum/layer/weight", "AssignUpdate layer/weight",
             "AdamUpdate layer/bias adam_m/layer/bias adam_v/layer/bias norm.scale adam_m/norm.scale adam_v/norm.scale decoupled=1"}));
  OptimizerOptions o = optimizer_defaults("adafactor");
  o.average = true;
  EXPECT_EQ(updates(o).size(), 3U * 2 + 1);
}

}  // namespace
}  // namespace tandem
