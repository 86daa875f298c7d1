// Real plans on the CPU backend: what a training step allocates, and what its arenas take.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "runtime/session.h"
#include "tests/runtime/allocations.h"
#include "tests/runtime/small_model.h"

namespace tandem {
namespace {

// A session of the model with room for what a step reads and writes.
struct Training {
  explicit Training(int devices) : session(compile(test::small_model, options(devices), backends()), backends()) {
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
      EXPECT_EQ(run.session.allocated_bytes(d), run.session.plan().program_of(static_cast<std::size_t>(d)).peak_bytes());
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
  for (std::size_t p = 0; p < want.size(); ++p)
    EXPECT_TRUE(std::ranges::equal(got[p].tensor.bytes(), want[p].tensor.bytes())) << want[p].name;
  ASSERT_EQ(seconds.size(), 2u);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<Step>& steps = timed.session.plan().program_of(d).steps;
    ASSERT_EQ(seconds[d].size(), steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s)
      if (steps[s].as<LaunchStep>()) {
        EXPECT_GT(seconds[d][s], 0) << "device " << d << ", step " << s;
      }
  }
}

TEST(CpuStep, TimedKernelByKernelEachIsRepeated) {
  Training run(1);
  const auto seconds = run.session.run_timed(0, run.inputs, run.outputs, {.learning_rate = 0.01, .step = 1}, 5);
  Training once(1);
  once.step(1);
  EXPECT_EQ(run.room, once.room) << "the loss is of the weights before any update";
  const auto updated = run.session.parameters(0), updated_once = once.session.parameters(0);
  bool differ = false;
  for (std::size_t p = 0; p < updated.size(); ++p) differ |= !std::ranges::equal(updated[p].tensor.bytes(), updated_once[p].tensor.bytes());
  EXPECT_TRUE(differ) << "five updates are not one";
  EXPECT_EQ(seconds[0].size(), run.session.plan().program_of(0).steps.size());

  Training two(2);
  EXPECT_THROW(two.session.run_timed(0, two.inputs, two.outputs, {}, 5), Error);
}

}  // namespace
}  // namespace tandem
