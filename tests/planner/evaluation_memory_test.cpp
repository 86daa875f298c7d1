// What a plan that evaluates holds of the scores.
#include "planner/loss/evaluation.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

constexpr std::int64_t samples = 64, classes = 1000;

Graph classifier(std::int64_t n) {
  small_models::Builder b;
  b.graph.name = "classifier";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  b.graph[x].depends_on_batch = true;
  b.graph[x].batch = {.axis = 0};
  const ValueId y = b.node("Gemm", {x, b.weight("w", {classes, 20}, 0.3F), b.weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}});
  b.graph[y].depends_on_batch = true;
  b.graph[y].batch = {.axis = 0};
  b.graph.outputs = {y};
  return b.graph;
}

// Whoever else reads the scores, as the classes that are counted, comes before.
TEST(EvaluationMemory, LogarithmsOfProbabilitiesAreWrittenOverTheScores) {
  CompileOptions o{.mode = PlanMode::inference, .batch = samples, .devices = {{{"cpu", 0}}}};
  o.loss.smoothing = 0.1;
  o.tuning.autotune = false;
  const Losses losses = losses_of(classifier, o);
  const EvaluationOutputs outputs{.losses = {{.loss = true, .top = 1}}};
  const Backend* const all[] = {&cpu_backend()};
  const Plan plan = compile([&](std::int64_t n) { return evaluating(classifier(n), losses, outputs, o, n); }, o, all);
  const DeviceProgram& device = plan.programs[0];
  int met = 0;
  for (const Step& step : device.steps) {
    const auto* const launch = step.as<LaunchStep>();
    if (!launch || launch->kernel != "native.log_softmax") continue;
    ++met;
    EXPECT_EQ(device.buffers[step.outputs[0]].offset, device.buffers[step.inputs[0]].offset);
    EXPECT_TRUE(device.buffers[step.outputs[0]].alias.present());
  }
  EXPECT_EQ(met, 1);
}

}  // namespace
}  // namespace tandem
