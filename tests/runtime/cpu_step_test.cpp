// Real plans on the CPU backend: what a training step allocates, and what its arenas take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "runtime/session.h"
#include "tests/runtime/allocations.h"

namespace tandem {
namespace {

// Convolution, normalisation, pooling, dropout and a linear layer: every family of kernels.
Graph model(std::int64_t n) {
  Graph g;
  g.name = "model";
  const auto weight = [&](const char* name, Shape shape) {
    Tensor values(TensorType{DType::float32, shape});
    float next = 0;
    for (float& v : values.write<float>()) v = 0.1F * std::sin(next += 1);
    return g.add_parameter(name, {DType::float32, shape}, std::move(values), true);
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return g[g.add_node(internal_operator(op), concat(op, g.nodes.size()), std::move(a), std::move(in), 1)].outputs[0];
  };
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3}, two{2, 2}, none{0, 0, 0, 0};
  ValueId x = g.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = node("Conv", {x, weight("c", {16, 3, 3, 3})}, {{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}});
  x = node("Relu", {node("BatchNormalization", {x, weight("scale", {16}), weight("bias", {16}), weight("mean", {16}), weight("variance", {16})})});
  x = node("MaxPool", {x}, {{"kernel_shape", two}, {"strides", two}, {"pads", none}, {"dilations", ones}});
  x = node("Dropout", {node("Flatten", {x}, {{"axis", std::int64_t{1}}})}, {{"ratio", 0.5F}});
  g.outputs = {node("Gemm", {x, weight("w", {256, 5}), weight("b", {5})})};
  return g;
}

// A session of the model with room for what a step reads and writes.
struct Training {
  explicit Training(int devices) : session(compile(model, options(devices), backends()), backends()) {
    for (const HostInput& h : session.plan().inputs)
      inputs.push_back(h.name == "x" ? x.bytes().data() : h.name == "labels" ? labels.bytes().data() : nullptr);
    for (const HostOutput& h : session.plan().outputs)
      room.emplace_back(static_cast<std::size_t>(h.type.shape.elements()) * size_of(h.type.dtype) * static_cast<std::size_t>(devices));
    for (auto& r : room) outputs.push_back(r.data());
  }
  static std::span<const Backend* const> backends() {
    static const Backend* const all[] = {&cpu_backend()};
    return all;
  }
  static CompileOptions options(int devices) {
    CompileOptions o;
    o.batch = 6;
    for (int d = 0; d < devices; ++d) o.devices.push_back({{"cpu", d}, 1});
    o.optimizer = optimizer_defaults("adam");
    return o;
  }
  void step(std::int64_t number) { session.run(0, inputs, outputs, {.learning_rate = 0.01, .step = number}); }

  Session session;
  Tensor x{TensorType{DType::float32, {6, 3, 8, 8}}}, labels{TensorType{DType::int64, {6}}};
  std::vector<const std::byte*> inputs;
  std::vector<std::vector<std::byte>> room;
  std::vector<std::byte*> outputs;
};

TEST(CpuStep, AllocatesNothingAndTakesWhatThePlanSays) {
  for (const int devices : {1, 2}) {
    Training run(devices);
    for (int d = 0; d < devices; ++d)
      EXPECT_EQ(run.session.allocated_bytes(d), run.session.plan().devices[static_cast<std::size_t>(d)].peak_bytes());
    run.step(1);
    const int before = test::allocations(), in_libraries = test::library_allocations();
    for (int step = 2; step <= 6; ++step) run.step(step);
    EXPECT_EQ(test::allocations(), before) << devices << " devices";
    RecordProperty("allocations_inside_onednn", test::library_allocations() - in_libraries);
  }
}

TEST(CpuStep, TimedStepByStepItComputesTheSame) {
  Training whole(2), timed(2);
  whole.step(1);
  const auto seconds = timed.session.run_timed(0, timed.inputs, timed.outputs, {.learning_rate = 0.01, .step = 1});
  EXPECT_EQ(timed.room, whole.room);
  const auto want = whole.session.parameters(1), got = timed.session.parameters(1);
  for (std::size_t p = 0; p < want.size(); ++p) EXPECT_TRUE(std::ranges::equal(got[p].tensor.bytes(), want[p].tensor.bytes())) << want[p].name;
  ASSERT_EQ(seconds.size(), 2u);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<Step>& steps = timed.session.plan().devices[d].steps;
    ASSERT_EQ(seconds[d].size(), steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s)
      if (steps[s].kind == StepKind::launch) EXPECT_GT(seconds[d][s], 0) << "device " << d << ", step " << s;
  }
}

}  // namespace
}  // namespace tandem
