// BatchNormalization with an addend: where it is made of two nodes, and what flows back through it.
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

struct Network {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::float32, {2, 3, 4, 4}}), z = graph.add_input("z", {DType::float32, {2, 3, 4, 4}});
  ValueId node(const char* op, std::vector<ValueId> in, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), {}, std::move(in), outputs)].outputs[0];
  }
  ValueId parameter(const std::string& name, Shape shape) {
    return graph.add_parameter(name, {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true);
  }
  ValueId normalized(ValueId v, const std::string& name) {
    return node("BatchNormalizationTraining", {v, parameter(name + "_scale", {3}), parameter(name + "_bias", {3})}, 4);
  }
};

const Fuses none = [](const KernelRequest&) { return false; };
const Fuses adds = [](const KernelRequest& r) {
  return r.op == "BatchNormalizationTraining" && r.inputs.size() == 4 && r.attributes->text("activation", "") == "Relu";
};
const Fuses masks = [](const KernelRequest& r) { return r.op == "ConvolutionBackwardData" && r.inputs.size() == 3; };

struct Row {
  const char* name;
  bool wanted;  // by the plan's backends
  std::vector<ValueId> (*outputs)(Network&);
  std::string first;  // what the first output becomes
  std::vector<std::string> why{};  // what is told of pairs that stay two nodes
};
const std::string no_addend = "no addend is the result of a normalization alone, of the sum's shape, that nothing else reads";
const Row rows[] = {
    {"residual_block", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.normalized(n.x, "a"), n.z})})}; }, "BatchNormalizationTraining(x, a_scale, a_bias, z)"},
    {"addend_first", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.z, n.normalized(n.x, "a")})})}; }, "BatchNormalizationTraining(x, a_scale, a_bias, z)"},
    {"without_relu", true, [](Network& n) { return std::vector{n.node("Neg", {n.node("Add", {n.normalized(n.x, "a"), n.z})})}; }, "Neg(Add(BatchNormalizationTraining(x, a_scale, a_bias), z))"},
    {"two_normalized", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.normalized(n.x, "a"), n.normalized(n.z, "b")})})}; },
     "BatchNormalizationTraining(x, a_scale, a_bias, BatchNormalizationTraining(z, b_scale, b_bias))"},
    {"two_addends", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.node("Add", {n.normalized(n.x, "a"), n.z}), n.z})})}; },
     "Relu(Add(Add(BatchNormalizationTraining(x, a_scale, a_bias), z), z))", {no_addend}},
    {"after_relu", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.node("Relu", {n.normalized(n.x, "a")}), n.z})})}; },
     "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), z))", {no_addend}},
    {"broadcast_addend", true, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.normalized(n.x, "a"), n.parameter("p", {3, 1, 1})})})}; },
     "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), p))", {no_addend}},
    {"read_elsewhere", true,
     [](Network& n) {
       const ValueId y = n.normalized(n.x, "a");
       return std::vector{n.node("Relu", {n.node("Add", {y, n.z})}), y};
     },
     "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), z))", {no_addend}},
    {"sum_read_elsewhere", true,
     [](Network& n) {
       const ValueId sum = n.node("Add", {n.normalized(n.x, "a"), n.z});
       return std::vector{n.node("Relu", {sum}), sum};
     },
     "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), z))", {"the result of the first has 2 readers"}},
    {"added_to_itself", true,
     [](Network& n) {
       const ValueId y = n.normalized(n.x, "a");
       return std::vector{n.node("Relu", {n.node("Add", {y, y})})};
     },
     "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), BatchNormalizationTraining(x, a_scale, a_bias)))", {no_addend}},
    {"not_wanted", false, [](Network& n) { return std::vector{n.node("Relu", {n.node("Add", {n.normalized(n.x, "a"), n.z})})}; }, "Relu(Add(BatchNormalizationTraining(x, a_scale, a_bias), z))", {std::string(not_offered)}},
};

class NormalizedSums : public testing::TestWithParam<Row> {};

TEST_P(NormalizedSums, BecomeOneNode) {
  Network n;
  const std::vector<ValueId> outputs = GetParam().outputs(n);
  n.graph.outputs.assign(outputs.begin(), outputs.end());
  std::vector<std::string> why;
  PassInput in{.fuses = GetParam().wanted ? adds : none};
  in.options.passes.not_fused = [&](const NotFused& pair) { why.push_back(pair.why); };
  const Graph got = passed("fuse_layers", n.graph, in);
  EXPECT_EQ(test::expression(got, got.outputs[0]), GetParam().first);
  EXPECT_EQ(why, GetParam().why);
  EXPECT_EQ(got[got.outputs[0]].type, n.graph[n.graph.outputs[0]].type);
}
INSTANTIATE_TEST_SUITE_P(Rows, NormalizedSums, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// ReLU6 behind a normalization is part of it, its bounds and what they say of the gradient, too.
TEST(NormalizedClip, BecomesOneNode) {
  const Fuses cuts = [](const KernelRequest& r) {
    return r.op == "BatchNormalizationTraining" && r.attributes->text("activation", "") == "Clip";
  };
  for (const bool wanted : {true, false}) {
    Network n;
    const ValueId scale = n.parameter("scale", {3});
    const ValueId y = n.node("Clip", {n.node("BatchNormalizationTraining", {n.x, scale, n.parameter("bias", {3})}, 4)});
    n.graph.nodes.back().attributes.set("min", 0.0F);
    n.graph.nodes.back().attributes.set("max", 6.0F);
    n.graph.outputs = {y};
    Graph got = passed("fuse_layers", n.graph, {.fuses = wanted ? cuts : none});
    EXPECT_EQ(test::expression(got, got.outputs[0]),
              wanted ? "BatchNormalizationTraining(x, scale, bias)" : "Clip(BatchNormalizationTraining(x, scale, bias))");
    if (!wanted) continue;
    const ValueId loss = GraphBuilder(got, "loss", {}).reduce_sum(got.outputs[0], {0, 1, 2, 3}, false), weights[] = {*got.find("scale")};
    differentiate(got, loss, weights);
    for (const Node& node : got.nodes)
      if (node.op->name.starts_with("BatchNormalization")) {
        EXPECT_EQ(node.attributes.text("activation", ""), "Clip") << node.op->name;
        EXPECT_EQ(node.attributes.real("min", -1), 0.0F) << node.op->name;
        EXPECT_EQ(node.attributes.real("max", -1), 6.0F) << node.op->name;
      }
  }
}

// The statistics of the fused node are those that running ones are updated by.
TEST(NormalizedSums, KeepTheirStatistics) {
  Network n;
  const ValueId y = n.normalized(n.x, "a");
  const ValueId mean = n.graph[n.graph[y].producer].outputs[1];
  n.graph.outputs = {n.node("Relu", {n.node("Add", {y, n.z})})};
  GraphBuilder(n.graph, "a", {}).emit("RunningStatistics", {n.parameter("running", {3}), mean}, {{"momentum", 0.9F}});
  const Graph got = passed("fuse_layers", n.graph, {.fuses = adds});
  ASSERT_EQ(got.nodes.size(), 2U);
  const Node& fused = got[got[got.outputs[0]].producer];
  EXPECT_EQ(fused.attributes.text("activation", ""), "Relu");
  for (const Node& node : got.nodes) {
    if (node.op->name == "RunningStatistics") {
      EXPECT_EQ(node.inputs[1], fused.outputs[1]);
    }
  }
}

// With Relu the kernel gives the addend's gradient, masked by y; without, that is dy itself.
TEST(NormalizedSums, Gradients) {
  for (const bool relu : {true, false}) {
    Network n;
    const ValueId addend = n.parameter("addend", {2, 3, 4, 4});
    const ValueId y = n.node("BatchNormalizationTraining", {n.x, n.parameter("a_scale", {3}), n.parameter("a_bias", {3}), addend}, 4);
    if (relu) n.graph.nodes.back().attributes.set("activation", std::string("Relu"));
    n.graph.outputs = {y, n.graph.add_input("dy", {DType::float32, {2, 3, 4, 4}})};
    Graph& g = n.graph;
    GraphBuilder b(g, "loss", {});
    const ValueId loss = b.reduce_sum(b.mul(g.outputs[0], g.outputs[1]), {0, 1, 2, 3}, false);
    const ValueId wanted[] = {*g.find("addend"), *g.find("a_bias")};
    const std::vector<ValueId> gradients = differentiate(g, loss, wanted);
    const Node& backward = g[g[gradients[1]].producer];
    EXPECT_EQ(backward.op->name, "BatchNormalizationBackward");
    if (relu) {
      EXPECT_EQ(gradients[0], backward.outputs.at(3));
      EXPECT_EQ(backward.inputs.at(7), g.outputs[0]);
    } else {
      EXPECT_EQ(gradients[0], backward.inputs[1]);
      EXPECT_EQ(backward.outputs.size(), 3U);
      EXPECT_EQ(backward.inputs.size(), 7U);
    }
  }
}

// Behind a residual block its output goes two ways: the normalization's gradient takes the sum of what comes back.
TEST(SummedGradients, AtAFork) {
  for (const bool wanted : {true, false})
    for (const bool read_elsewhere : {true, false}) {
      Network n;
      const ValueId addend = n.parameter("addend", {2, 3, 4, 4});
      const ValueId y = n.node("BatchNormalizationTraining", {n.x, n.parameter("a_scale", {3}), n.parameter("a_bias", {3}), addend}, 4);
      n.graph.nodes.back().attributes.set("activation", std::string("Relu"));
      Graph& g = n.graph;
      GraphBuilder b(g, "loss", {});
      const ValueId loss = b.reduce_sum(b.add(b.mul(y, n.z), b.emit("Sin", {y})), {0, 1, 2, 3}, false);
      const ValueId parameters[] = {*g.find("addend"), *g.find("a_bias"), *g.find("a_scale")};
      const std::vector<ValueId> gradients = differentiate(g, loss, parameters);
      g.outputs.assign(gradients.begin(), gradients.end());
      if (read_elsewhere) g.outputs.emplace_back(g[g[gradients[1]].producer].inputs[1]);
      const Graph got =
          passed("fuse_gradients", simplify(g),
                 {.fuses = [&](const KernelRequest& r) { return wanted && r.op == "BatchNormalizationBackward" && r.inputs.size() == 9; }});
      verify(got);
      const Node& backward = got[got[got.outputs[0]].producer];
      ASSERT_EQ(backward.op->name, "BatchNormalizationBackward");
      EXPECT_EQ(got.outputs[0].value, backward.outputs.at(3));
      EXPECT_EQ(got.outputs[1].value, backward.outputs.at(2));
      EXPECT_EQ(got.outputs[2].value, backward.outputs.at(1));
      const bool sums = wanted && !read_elsewhere;
      ASSERT_EQ(backward.inputs.size(), sums ? 9U : 8U);
      EXPECT_EQ(got[got[backward.inputs[1]].producer].op->name, sums ? "Mul" : "Add");
      EXPECT_EQ(got[got[backward.inputs[7]].producer].op->name, "BatchNormalizationTraining");
    }
}

// A Relu between two convolutions: its gradient is a mask of what the second one hands back.
TEST(MaskedGradients, BetweenConvolutions) {
  for (const bool wanted : {true, false})
    for (const bool read_elsewhere : {true, false}) {
      Graph g;
      const ValueId x = g.add_input("x", {DType::float32, {2, 3, 8, 8}});
      GraphBuilder b(g, "b", {});
      const auto weight = [&](const char* name, Shape shape) {
        return g.add_parameter(name, {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true);
      };
      const ValueId y = b.emit("Relu", {b.emit("Conv", {x, weight("first", {4, 3, 3, 3})})});
      ValueId z = b.reduce_sum(b.emit("Conv", {y, weight("second", {4, 4, 3, 3})}), {0, 1, 2, 3}, false);
      if (read_elsewhere) z = b.add(z, b.reduce_sum(y, {0, 1, 2, 3}, false));
      g.outputs = {z};
      const ValueId parameters[] = {*g.find("first")};
      g.outputs = {differentiate(g, z, parameters)[0]};
      const Graph got = passed("fuse_gradients", simplify(g), {.fuses = wanted ? masks : none});
      const Node& dw = got[got[got.outputs[0]].producer];
      const Node& masked = got[got[dw.inputs[1]].producer];
      if (wanted && !read_elsewhere) {
        EXPECT_EQ(masked.op->name, "ConvolutionBackwardData");
        EXPECT_EQ(got[got[masked.inputs.at(2)].producer].op->name, "Relu");
      } else {
        EXPECT_EQ(masked.op->name, "ReluBackward");
      }
    }
}

}  // namespace
}  // namespace tandem
