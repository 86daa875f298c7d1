// Whole plans of small models, trained by the CPU backend.
#include "planner/place/parallel.h"
#include "planner/update/optimizer.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

Trained train(Graph (*model)(std::int64_t), std::int64_t batch, const std::vector<double>& weights, int steps,
              std::string optimizer = "sgd", double rate = 0.05, bool synchronize = false) {
  CompileOptions o = options_for(batch, weights);
  o.synchronize_batch_norm = synchronize;
  o.optimizer = optimizer_defaults(optimizer);
  if (optimizer == "sgd") o.optimizer.momentum = 0.9;
  return small_models::train(model, o, steps, rate);
}

struct Model {
  std::string name;
  Graph (*graph)(std::int64_t);
};
const std::vector<Model> models = {{"mlp", mlp}, {"convnet", convnet}};

TEST(Training, DevicesTrainAsOneDoes) {
  for (const Model& m : models) {
    const Trained one = train(m.graph, 10, {1}, 50);
    EXPECT_LT(one.losses.back(), 0.8F * one.losses.front()) << m.name;
    for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {3, 1}, {1, 1, 1, 1}, {1, 0, 2}}) {
      const Trained many = train(m.graph, 10, weights, 50);
      for (std::size_t s = 0; s < one.losses.size(); ++s)
        ASSERT_NEAR(many.losses[s], one.losses[s], 1e-4F * std::abs(one.losses[s]))
            << m.name << " on " << weights.size() << " devices, step " << s;
      for (std::size_t d = 1; d < many.replicas.size(); ++d) expect_same_bits(many.replicas[0], many.replicas[d]);
    }
  }
}

TEST(Training, SynchronizedBatchNormalizationTrainsAsOneDevice) {
  const Trained one = train(normalized, 10, {1}, 30);
  for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {3, 1}, {1, 0, 2}}) {
    const Trained many = train(normalized, 10, weights, 30, "sgd", 0.05, true);
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      ASSERT_NEAR(many.losses[s], one.losses[s], 2e-4F * std::abs(one.losses[s])) << weights.size() << " devices, step " << s;
    for (std::size_t d = 1; d < many.replicas.size(); ++d) expect_same_bits(many.replicas[0], many.replicas[d]);
    for (std::size_t i = 0; i < one.replicas[0].size(); ++i)
      for (std::size_t k = 0; k < static_cast<std::size_t>(one.replicas[0][i].tensor.elements()); ++k)
        ASSERT_NEAR(many.replicas[0][i].tensor.values<float>()[k], one.replicas[0][i].tensor.values<float>()[k], 2e-3F)
            << one.replicas[0][i].name;
  }
  // Each replica's own statistics give another result: the option is what makes the difference.
  EXPECT_GT(std::abs(train(normalized, 10, {3, 1}, 30).losses.back() - one.losses.back()), 1e-3F * one.losses.back());
}

TEST(Training, PoolingBeforeReluTrainsAsAfterIt) {
  const Trained moved = train(convnet, 10, {1}, 20), as_written = train(convnet_as_written, 10, {1}, 20);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(moved.losses[i], as_written.losses[i], 1e-5F * as_written.losses[i]) << i;
}

TEST(Training, ReplicasKeepTheSameStatistics) {
  const Trained run = train(normalized, 10, {3, 1}, 5);
  expect_same_bits(run.replicas[0], run.replicas[1]);
  for (const NamedTensor& t : run.replicas[0])
    if (t.name == "variance") {
      EXPECT_NE(t.tensor.values<float>()[0], 1.0F);
    }
}

TEST(Training, TheSameRunTwiceIsTheSame) {
  for (const Model& m : models)
    for (const std::vector<double>& weights : {std::vector<double>{1}, {3, 1}}) {
      const Trained a = train(m.graph, 10, weights, 10), b = train(m.graph, 10, weights, 10);
      EXPECT_EQ(a.losses, b.losses) << m.name;
      expect_same_bits(a.replicas[0], b.replicas[0]);
    }
}

// Two outputs, of which the loss takes the first.
Graph two_heads(std::int64_t n) {
  Builder b;
  b.graph.name = "two heads";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  const ValueId first = b.node("Gemm", {x, b.weight("w1", {20, 5}, 0.3F)}), second = b.node("Gemm", {x, b.weight("w2", {20, 5}, 0.3F)});
  b.graph.outputs = {first, second};
  b.graph.warnings = {"of the model"};
  return b.graph;
}

TEST(Training, WarnsOfParametersThatTheLossDoesNotReach) {
  const Backend* backends[] = {&cpu_backend()};
  CompileOptions o;
  o.devices = {{{"cpu", 0}}};
  using Warnings = std::vector<std::string>;
  EXPECT_EQ(compile(mlp, o, backends).warnings, Warnings{});
  const std::string one_output = "the loss is that of the model's first output 'Gemm0'; not of 'Gemm1' (option loss_on names another)";
  EXPECT_EQ(compile(two_heads, o, backends).warnings,
            (Warnings{"of the model", "the loss does not depend on 'w2': it keeps its value", one_output}));
  o.trained.freeze = {"w2"};  // asked for
  EXPECT_EQ(compile(two_heads, o, backends).warnings, (Warnings{"of the model", one_output}));
  o.mode = PlanMode::inference;
  EXPECT_EQ(compile(two_heads, o, backends).warnings, Warnings{});
}

TEST(Training, EveryOptimizerLearns) {
  struct Row {
    std::string name;
    double rate;
  };
  for (const Row& row : std::vector<Row>{{"sgd", 0.05}, {"rmsprop", 0.002}, {"adam", 0.005}, {"adamw", 0.005}}) {
    const Trained run = train(mlp, 16, {1, 1}, 60, row.name, row.rate);
    EXPECT_LT(run.losses.back(), 0.7F * run.losses.front()) << row.name;
  }
}

// However many devices there are, and whatever each of them keeps.
TEST(Training, OptimizerStatesStandInTheOrderOfTheirParameters) {
  for (const auto& [devices, parallel] : {std::pair{1, ""}, {2, "data=2"}, {2, "zero=3"}, {2, "pipeline=2"}, {4, "data=2,tensor=2"}}) {
    CompileOptions o = options_for(8, std::vector<double>(static_cast<std::size_t>(devices), 1));
    o.parallel = parse_parallelism(parallel);
    o.optimizer = optimizer_defaults("adam");
    const Backend* backends[] = {&cpu_backend()};
    const Plan plan = compile(deep, o, backends);
    std::vector<std::string> wanted, found;
    for (const PlanParameter& p : plan.parameters) {
      if (p.role == ValueRole::plain)
        for (const char* state : {"adam_m/", "adam_v/"}) wanted.push_back(state + p.name);
      if (p.role == ValueRole::optimizer_state) found.push_back(p.name);
    }
    EXPECT_EQ(found, wanted) << parallel;
  }
}

}  // namespace
}  // namespace tandem
