// Plans that a session refuses, and steps that fail: what it says.
#include <thread>

#include "runtime/step_kernel.h"
#include "tests/runtime/linear_session.h"

namespace tandem::test {
namespace {

struct Refusal {
  std::string name;
  std::function<void(FakeBackend&, Plan&)> change;
  std::string reason;
};
class RefusedPlan : public testing::TestWithParam<Refusal> {};
TEST_P(RefusedPlan, SaysWhy) {
  FakeBackend fake;
  Plan plan = linear_plan({2, 1});
  GetParam().change(fake, plan);
  const Backend* backends[] = {&fake};
  EXPECT_TRUE(contains(failure([&] { Session session(plan, backends); }), GetParam().reason));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedPlan,
    testing::Values(
        Refusal{"no_such_backend", [](FakeBackend&, Plan& p) { p.devices[0].device.backend = "cuda"; },
                "there is no backend 'cuda' in this program: it has fake"},
        Refusal{"too_few_devices", [](FakeBackend& b, Plan&) { b.devices = 1; }, "device fake:1: there is 1 fake device"},
        Refusal{"unusable", [](FakeBackend& b, Plan&) { b.reason = "no driver"; }, "device fake:0: no driver"},
        Refusal{"out_of_memory", [](FakeBackend& b, Plan&) { b.memory_limit = 100; }, "out of memory"},
        Refusal{"unknown_operator", [](FakeBackend&, Plan& p) { p.program_of(1).steps[3].as<LaunchStep>()->op = "Nothing"; },
                "fake:1: step 3 (Nothing, fake.Scale, from 'Scale_node'): the plan wants kernel fake.Scale"},
        Refusal{"unknown_kernel", [](FakeBackend&, Plan& p) { p.program_of(0).steps[3].as<LaunchStep>()->kernel = "other.Scale"; },
                "offers \n  fake.Scale: float32[2,3]:ab float32[3]:a → float32[2,3]:ab"},
        Refusal{"more_workspace", [](FakeBackend& b, Plan&) { b.workspace = 128; }, "needs 128 bytes of workspace, the plan has 0"},
        Refusal{"does_not_verify", [](FakeBackend&, Plan& p) { p.program_of(0).steps[8].waits.clear(); },
                "without waiting for step 5 (all_reduce)"},
        Refusal{"other_scalars",
                [](FakeBackend&, Plan& p) {
                  p.inputs[0] = {"tandem.scalars", {DType::float32, {3, 3}}, true, ValueRole::step_state, std::string(step_scalars)};
                },
                "expected float32[16] without a batch"}),
    [](const auto& info) { return info.param.name; });

// `tandem plan --check` sees before a run what a session would.
TEST(CheckedKernels, AreThoseThatASessionWouldMake) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  const Plan plan = linear_plan({2, 1});
  EXPECT_EQ(check_kernels(plan, backends), std::vector<std::string>{});
  Plan other = plan;
  other.program_of(1).steps[3].as<LaunchStep>()->kernel = "other.Scale";
  EXPECT_TRUE(contains(failure([&] { check_kernels(other, backends); }),
                       "fake:1: step 3 (Scale, other.Scale, from 'Scale_node'): the plan wants kernel other.Scale"));
  fake.workspace = 128;
  EXPECT_TRUE(
      contains(failure([&] { check_kernels(plan, backends); }),
               "fake:0: step 3 (Scale, fake.Scale, from 'Scale_node'): kernel fake.Scale needs 128 bytes of workspace, the plan has 0"));
  fake.devices = 0;
  EXPECT_EQ(check_kernels(plan, backends), (std::vector<std::string>{"kernels of fake:0 are not checked: there are 0 fake devices",
                                                                     "kernels of fake:1 are not checked: there are 0 fake devices"}));
  fake.reason = "no driver";
  EXPECT_EQ(check_kernels(plan, backends)[0], "kernels of fake:0 are not checked: no driver");
  EXPECT_EQ(check_kernels(plan, {})[1], "kernels of fake:1 are not checked: this program has no backend fake here");
}

struct Addition {
  std::string name;
  std::function<void(Plan&)> change;
  std::string reason;
};
class RefusedAddition : public testing::TestWithParam<Addition> {};
TEST_P(RefusedAddition, LeavesTheSessionAsItWas) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 1}), backends);
  Plan plan = linear_plan({1, 1});
  GetParam().change(plan);
  EXPECT_TRUE(contains(failure([&] { session.add(plan); }), GetParam().reason));
  EXPECT_EQ(step(session, 0, numbers(3, 3)).y, std::vector<float>(9, 0.0f)) << "weights are zero";
}
INSTANTIATE_TEST_SUITE_P(Rows, RefusedAddition,
                         testing::Values(Addition{"other_devices", [](Plan& p) { p.devices[1].device.index = 2; }, "other devices"},
                                         Addition{"fewer_devices", [](Plan& p) { p = linear_plan({1}); }, "other devices"},
                                         Addition{"other_parameter", [](Plan& p) { p.parameters[0].name = "v"; },
                                                  "parameter 'v', which the first plan has not"},
                                         Addition{"other_place",
                                                  [](Plan& p) {
                                                    for (ProgramPart& part : p.parameters[0].parts) part.offset = 64;
                                                    for (DeviceProgram& d : p.programs) {
                                                      d.arenas[0].bytes = 128;
                                                      for (Buffer& b : d.buffers) b.offset += b.arena == ArenaKind::parameters ? 64 : 0;
                                                    }
                                                  },
                                                  "parameter 'w' is float32[3]:a at 64 of device 0 in the plan to add, float32[3]:a at 0 of device 0 in the first"},
                                         Addition{"other_type",
                                                  [](Plan& p) {
                                                    p = linear_plan({1, 1}, 4);
                                                  },
                                                  "parameter 'w' is float32[4]:a"}),
                         [](const auto& info) { return info.param.name; });

TEST(Session, NamesTheDeviceAndTheStepThatFailed) {
  FakeBackend fake;
  const Function scale = fake.functions["Scale"];
  fake.functions["Scale"] = [scale](const Call& c) {
    if (c.in<float>(0)[0] == 7) throw std::runtime_error("seven");
    scale(c);
  };
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 1, 1}), backends);
  const std::string what = failure([&] { step(session, 0, numbers(4, 3)); });  // row 2 starts with 7: device 1
  EXPECT_EQ(what, "fake:1: step 3 (Scale, fake.Scale, from 'Scale_node'): seven");
  EXPECT_TRUE(contains(failure([&] { step(session, 0, numbers(4, 3)); }), "the session failed before: "));
}

// One device leaves the step in silence: the others say whom they miss instead of waiting for ever.
TEST(Session, FailsWhereADeviceIsMissing) {
  FakeBackend fake;
  fake.timeout_seconds = 0.05;
  const Function scale = fake.functions["Scale"];
  fake.functions["Scale"] = [scale](const Call& c) {
    if (c.in<float>(0)[0] == 7) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    scale(c);
  };
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 1, 1}), backends);
  EXPECT_TRUE(contains(failure([&] { step(session, 0, numbers(4, 3)); }), "all_reduce: waited 0.05 s for rank 1"));
}

TEST(Session, RefusesUnknownParametersAndOtherTypes) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({1}), backends);
  EXPECT_EQ(failure([&] {
              session.set_parameters(std::vector<NamedTensor>{{"v", Tensor::of<float>({3}, {1, 2, 3})}});
            }),
            "the plan has no parameter 'v'");
  EXPECT_EQ(failure([&] { session.set_parameters(std::vector{weights({1, 2})}); }), "parameter 'w' is float32[3], got float32[2]");
  EXPECT_TRUE(contains(failure([&] { session.run(0, {}, {}, {}); }), "0 inputs and 0 outputs, expected 3 and 2"));
}

}  // namespace
}  // namespace tandem::test
