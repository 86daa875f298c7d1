// Plans in bf16 and with a scaled loss, trained by the CPU backend.
#include <set>

#include "planner/rewrite/expand.h"
#include "planner/rewrite/simplify.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr auto exact = Precision::fp32;

class BFloat16Training : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  }
};

CompileOptions options(Precision precision, const std::vector<double>& weights = {1}) {
  CompileOptions o = options_for(10, weights);
  o.precision = precision;
  return o;
}

Graph forward(Graph (*model)(std::int64_t)) { return passed("fuse_layers", simplify(expand(model(4), true))); }

// What each operator's results and operands are held in, after the pass.
TEST(MixedPrecision, OperatorsRunAsTheTableSays) {
  const Graph g = passed("mixed_precision", forward(normalized), {.options = {.precision = Precision::bf16}});
  std::set<std::string> seen;
  for (const Node& node : g.nodes) {
    const auto in = [&](std::size_t i) { return g[node.inputs[i]].type.dtype; };
    const auto out = [&](std::size_t i) { return g[node.outputs[i]].type.dtype; };
    seen.emplace(node.op->name);
    if (node.op->name == "Conv" || node.op->name == "InnerProduct") {
      EXPECT_EQ(in(0), DType::bfloat16) << node.name;
      EXPECT_EQ(in(1), DType::bfloat16) << node.name;
      EXPECT_EQ(out(0), DType::bfloat16) << node.name;
    }
    if (node.op->name == "BatchNormalizationTraining") {
      EXPECT_EQ(in(0), DType::bfloat16);
      EXPECT_EQ(out(0), DType::bfloat16);
      for (const std::size_t i : {1, 2}) {
        EXPECT_EQ(in(i), DType::float32) << "scale and bias";
        EXPECT_EQ(out(i), DType::float32) << "statistics";
      }
    }
    if (node.op->name == "AveragePool") {
      EXPECT_EQ(out(0), DType::bfloat16);
    }
  }
  for (const char* op : {"Conv", "InnerProduct", "BatchNormalizationTraining", "AveragePool", "Cast"}) EXPECT_TRUE(seen.count(op)) << op;
  EXPECT_EQ(g[g.outputs[0]].type.dtype, DType::float32);
  for (const Value& v : g.values)
    if (v.kind == ValueKind::parameter) {
      EXPECT_EQ(v.type.dtype, DType::float32) << v.name;
    }
}

// An operator of which nobody has said how it runs in 16 bits is not run by guess.
TEST(MixedPrecision, WantsItSaidOfEveryOperator) {
  Graph g;
  GraphBuilder b(g, "b", {});
  const ValueId dy = g.add_input("dy", {DType::float32, {2, 3}}), y = g.add_input("y", {DType::int64, {2}});
  g.outputs = {b.emit("GatherBackward", {dy, y}, {{"axis", std::int64_t{0}}, {"input_shape", Ints{4, 3}}})};
  try {
    passed("mixed_precision", g, {.options = {.precision = Precision::bf16}});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("GatherBackward: its row does not say in which precision it runs"), std::string::npos) << e.what();
  }
}

TEST(MixedPrecision, SoftmaxStaysInFloat32) {
  const Graph g = passed("mixed_precision", forward(convnet), {.options = {.precision = Precision::fp16}});
  for (const Node& node : g.nodes)
    if (node.op->name == "Softmax") {
      EXPECT_EQ(g[node.inputs[0]].type.dtype, DType::float32);
    }
}

TEST(MixedPrecision, CastsThatLoseNothingCancel) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::bfloat16, {2, 3}});
  GraphBuilder b(g, "b", {});
  const auto to = [&](ValueId v, DType t) { return b.emit("Cast", {v}, {{"to", static_cast<std::int64_t>(t)}}); };
  const ValueId there_and_back = to(to(x, DType::float32), DType::bfloat16);
  const ValueId y = g.add_input("y", {DType::float32, {2, 3}});
  const ValueId rounded = to(to(y, DType::bfloat16), DType::float32);
  g.outputs = {b.add(there_and_back, there_and_back), rounded};
  const Graph s = simplify(g);
  int casts = 0;
  for (const Node& node : s.nodes) casts += node.op->name == "Cast";
  EXPECT_EQ(casts, 2) << "only those that round are left:\n" << print(s);
}

TEST(MixedPrecision, SixteenBitTemplatesAreRefused) {
  Graph g = forward(mlp);
  for (Value& v : g.values)
    if (v.name == "w1") v.type.dtype = DType::float16;
  try {
    passed("mixed_precision", g, {.options = {.precision = Precision::bf16}});
    FAIL() << "took float16 weights";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "parameter 'w1' is float16: bf16 needs a template with float32 weights, which it casts itself");
  }
}

TEST(MixedPrecision, CpuSaysWhatItCannotDo) {
  const Backend* backends[] = {&cpu_backend()};
  for (const Precision p : {Precision::tf32, Precision::fp16}) {
    try {
      compile(mlp, options(p), backends);
      FAIL() << "planned " << name_of(p);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::device);
      EXPECT_NE(std::string(e.what()).find(cpu_backend().declines(p)), std::string::npos) << e.what();
    }
  }
}

struct Row {
  std::string name;
  Graph (*graph)(std::int64_t);
};
const Row rows[] = {{"mlp", mlp}, {"convnet", convnet}, {"normalized", normalized}};

// A step's gradient is off by some units of 2⁻⁸ of itself. While the loss falls steadily, as here, that moves the curve by
// no more than a few of them for every halving of the loss.
TEST_F(BFloat16Training, LossesFollowFloat32) {
  for (const Row& row : rows) {
    const Trained wide = train(row.graph, options(exact), 40, 0.05), narrow = train(row.graph, options(Precision::bf16), 40, 0.05);
    for (std::size_t s = 0; s < wide.losses.size(); ++s) {
      EXPECT_TRUE(std::isfinite(narrow.losses[s]));
      EXPECT_NEAR(narrow.losses[s], wide.losses[s], 0.05F * wide.losses[0]) << row.name << ", step " << s;
    }
    EXPECT_NE(narrow.losses, wide.losses) << row.name << ": it ran in float32";
    EXPECT_TRUE(narrow.plan.warnings.empty()) << row.name << ": " << narrow.plan.warnings[0];
  }
}

TEST_F(BFloat16Training, ReplicasAreTheSameBits) {
  for (const Row& row : rows)
    for (const std::vector<double>& weights : {std::vector<double>{3, 1}, {1, 0, 2}}) {
      const Trained run = train(row.graph, options(Precision::bf16, weights), 10, 0.05);
      for (std::size_t d = 1; d < run.replicas.size(); ++d) expect_same_bits(run.replicas[0], run.replicas[d]);
      for (const Exchange& b : run.plan.exchanges) EXPECT_EQ(b.dtype, DType::float32) << "sums over devices are float32";
      const Trained again = train(row.graph, options(Precision::bf16, weights), 10, 0.05);
      EXPECT_EQ(run.losses, again.losses) << row.name;
    }
}

TEST_F(BFloat16Training, TakesLessMemoryAndAsMuchAsPlanned) {
  const Trained wide = train(convnet, options(exact), 1, 0.05), narrow = train(convnet, options(Precision::bf16), 1, 0.05);
  EXPECT_EQ(narrow.allocated[0], narrow.plan.program_of(0).peak_bytes());
  const auto activations = [](const Plan& p) {
    for (const auto& [c, bytes] : p.program_of(0).memory)
      if (c == MemoryClass::activations) return bytes;
    return std::int64_t{0};
  };
  EXPECT_LT(activations(narrow.plan), 0.75 * static_cast<double>(activations(wide.plan)));
}

TEST_F(BFloat16Training, PlansCarryTheirPrecision) {
  const Backend* backends[] = {&cpu_backend()};
  const Plan plan = compile(mlp, options(Precision::bf16), backends);
  EXPECT_EQ(plan.precision, Precision::bf16);
}

// Without an overflow the scale, a power of two, changes nothing but what underflows.
TEST(LossScaling, ScalesAndUnscales) {
  for (const char* optimizer : {"sgd", "adam", "rmsprop"}) {
    CompileOptions plain = options(exact), scaled = plain;
    plain.optimizer = scaled.optimizer = optimizer_defaults(optimizer);
    scaled.loss.scaling = LossScaling{.start = 1024, .interval = 4};
    const Trained a = train(mlp, plain, 10, 0.01), b = train(mlp, scaled, 10, 0.01);
    for (std::size_t s = 0; s < a.losses.size(); ++s)
      EXPECT_NEAR(b.losses[s], a.losses[s], 1e-5F * a.losses[s]) << optimizer << ", step " << s;
    EXPECT_EQ(b.scales, (std::vector<float>{1024, 1024, 1024, 1024, 2048, 2048, 2048, 2048, 4096, 4096})) << optimizer;
  }
}

// Features of some tens before the last layer: its gradient is larger than the others'.
Graph loud(std::int64_t n) {
  Builder b;
  b.graph.name = "loud";
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3};
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Conv", {x, b.weight("c", {12, 3, 3, 3}, 0.2F)},
             {{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}});
  const std::vector<float> zeros(12, 0), units(12, 1);
  const auto running = [&](const char* name, const std::vector<float>& values) {
    return b.graph.add_parameter(name, {DType::float32, {12}}, Tensor::of<float>(Shape{12}, std::span<const float>(values)), false);
  };
  x = b.node("Relu", {b.node("BatchNormalization", {x, b.weight("scale", {12}, 1), b.weight("bias", {12}, 1), running("mean", zeros),
                                                    running("variance", units)})});
  x = b.node("Mul", {x, b.graph.add_constant("gain", Tensor::scalar(64.0F))});
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {12, 5}, 0.01F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

// From a start at which the gradients overflow: those steps change no parameter and halve the scale, on all devices alike.
TEST(LossScaling, StepsThatOverflowAreSkipped) {
  for (const std::vector<double>& weights : {std::vector<double>{1}, {3, 1}, {1, 0, 2}}) {
    CompileOptions o = options(exact, weights);
    o.loss.scaling = LossScaling{.start = 0x1p127, .interval = 2000};
    o.optimizer = optimizer_defaults("adam");
    const Trained skipped = train(loud, o, 1, 0.05);
    for (const auto& replica : skipped.replicas) expect_same_bits(values_of(loud(1)), replica);
    const Trained later = train(loud, o, 12, 0.001);
    EXPECT_EQ(later.scales[0], 0x1p127F);
    EXPECT_EQ(later.scales[1], 0x1p126F);
    std::size_t good = 1;
    while (good < later.scales.size() && later.scales[good] < later.scales[good - 1]) ++good;
    ASSERT_LT(good, later.scales.size()) << "the gradients never became finite";
    EXPECT_GT(later.scales.back(), 0x1p110F) << "it falls no further than it has to";
    EXPECT_NE(std::memcmp(later.replicas[0][0].tensor.bytes().data(), skipped.replicas[0][0].tensor.bytes().data(),
                          later.replicas[0][0].tensor.bytes().size()),
              0)
        << "finite steps train";
    for (std::size_t d = 1; d < later.replicas.size(); ++d) expect_same_bits(later.replicas[0], later.replicas[d]);
  }
}

}  // namespace
}  // namespace tandem
