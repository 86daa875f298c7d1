// Plans that somebody made to do harm: they are read, shown in each format, or refused, and nothing of them takes long.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "base/json.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/plan_formats.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// One device that runs what `build` adds.
Plan plan_of(const std::function<void(DeviceBuilder&)>& build) {
  Plan plan;
  plan.model = "m";
  plan.mode = PlanMode::inference;
  plan.batch = 1;
  DeviceBuilder builder(0, 0, 1);
  build(builder);
  add_device(plan, builder.done());
  return plan;
}

// Each step works on what the one before made.
Plan long_plan(int steps) {
  return plan_of([&](DeviceBuilder& b) {
    const BufferId one = b.floats("one", {1}), other = b.floats("other", {1});
    b.launch("Begin", {}, {one});
    for (int s = 0; s < steps; ++s) b.launch("Step", {s % 2 == 0 ? one : other}, {s % 2 == 0 ? other : one});
  });
}

std::string refusal_of(const Plan& plan) {
  try {
    parse_plan(serialize(plan));
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::model);
    return e.what();
  }
}

TEST(HostilePlans, NamesAreTextInEachFormat) {
  const std::string name = "<script>alert(1)</script>\"]; x [label=\"\x1b[2J\n</title>&";
  Plan plan = plan_of([&](DeviceBuilder& b) {
    const BufferId made = b.floats(name, {1});
    b.launch(name, {}, {made}, {{"activation", name}});
    b.last().origin = {name};
    b.last().as<LaunchStep>()->kernel = name;
    b.program().model.name = name;
    b.device().device.backend = name;
  });
  plan.model = plan.loss = plan.optimizer = plan.recompute = name;
  plan.warnings = {name};
  plan.record.options = plan.record.model = name;
  plan.inputs = {{name, {DType::float32, {1}}, false}};
  plan.transfers = {{ExchangeKind::all_gather, name, 4, name, name, name}};
  const Plan read = parse_plan(serialize(plan));
  for (const PlanFormat& format : plan_formats()) {
    const std::string_view of = format.name;
    if (of == "plan") continue;
    const std::string text = format.write(read);
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << format.name;
    if (of == "html" || of == "svg" || of == "mermaid") {
      EXPECT_EQ(text.find("<script>alert"), std::string::npos) << format.name;
      EXPECT_EQ(text.find("</title>&"), std::string::npos) << format.name;
    }
    if (of == "json") {
      EXPECT_EQ(Json::parse(text).at("model").text(), name);
    }
    if (of == "perfetto") {
      EXPECT_EQ(Json::parse(text).at("otherData").at("model").text(), name);
    }
    if (of != "dot") continue;
    bool inside = false;  // of a quoted text
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (inside && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        inside = !inside;
      } else {
        EXPECT_TRUE(inside || text[i] != '<') << "the name has left its quotes";
      }
    }
    EXPECT_FALSE(inside);
  }
}

TEST(HostilePlans, LongNamesDoNotMultiply) {
  Plan plan = long_plan(3000);
  plan.programs[ProgramId{0}].steps[0].as<LaunchStep>()->kernel = std::string(1'000'000, 'k');
  plan.programs[ProgramId{0}].steps[1].as<LaunchStep>()->op = std::string(1'000'000, 'o');
  plan.programs[ProgramId{0}].buffers[BufferId{0}].placement = std::string(1'000'000, 'p');
  EXPECT_LT(text_of_plan(parse_plan(serialize(plan)), true).size(), 3'000'000u);
}

// Ten times the steps take about ten times as long.
TEST(HostilePlans, ManySteps) {
  const auto seconds = [](int steps) {
    const std::string bytes = serialize(long_plan(steps));
    std::vector<double> all;
    double begin = processor_seconds();
    const Plan plan = parse_plan(bytes);
    all.push_back(processor_seconds() - begin);
    for (const PlanFormat& format : plan_formats()) {
      begin = processor_seconds();
      EXPECT_FALSE(format.write(plan).empty());
      all.push_back(processor_seconds() - begin);
    }
    return all;
  };
  const std::vector<double> few = seconds(1000), many = seconds(10000);
  for (std::size_t i = 0; i < few.size(); ++i)
    EXPECT_LT(many[i], 30 * few[i] + 0.05) << (i == 0 ? "read" : plan_formats()[i - 1].name) << " took " << few[i] << " s and " << many[i]
                                           << " s";
}

TEST(HostilePlans, ChainsOfBuffersAreFollowedSoFar) {
  const auto chained = [](int length) {
    return plan_of([&](DeviceBuilder& b) {
      BufferId last = b.floats("first", {1});
      b.launch("Begin", {}, {last});
      for (int i = 0; i < length; ++i) {
        last = b.alias("view", last, b.program().buffers[last].operand);
        b.launch("Read", {last}, {});
      }
      for (Buffer& buffer : b.program().buffers) buffer.last = {length};
    });
  };
  EXPECT_EQ(refusal_of(chained(1000)), "");
  EXPECT_FALSE(dot_of(chained(1000)).empty());
  Plan plan = chained(1000);  // as the builder lengthens lives along the chain, the long one is made of it
  DeviceProgram& program = plan.programs[ProgramId{0}];
  const Buffer view = program.buffers.back();
  const Step read = program.steps.back();
  for (int i = 0; i < 30000; ++i) {
    Buffer next = view;
    next.alias = {static_cast<int>(program.buffers.size()) - 1};
    program.buffers.push_back(next);
    program.steps.push_back(read);
    program.steps.back().inputs = {{static_cast<int>(program.buffers.size()) - 1}};
  }
  for (Buffer& buffer : program.buffers) buffer.last = {static_cast<int>(program.steps.size()) - 1};
  EXPECT_NE(refusal_of(plan).find("share memory along "), std::string::npos) << refusal_of(plan);
}

TEST(HostilePlans, PiecesOfMemoryAreVisitedSoOften) {
  const int pieces = 5000;
  const Plan plan = plan_of([&](DeviceBuilder& b) {
    const BufferId all = b.floats("all", {16 * pieces});
    for (int i = 0; i < pieces; ++i) b.launch("Write", {}, {b.alias("part", all, {DType::float32, {16}, Layout("a")}, 64 * i)});
    for (int i = 0; i < pieces; ++i) b.launch("Read", {all}, {});
  });
  EXPECT_NE(refusal_of(plan).find("places of memory, expected at most"), std::string::npos) << refusal_of(plan);
}

// A few kilobytes of a schedule stand for millions of steps.
TEST(HostilePlans, SchedulesOfSeveralProgramsHaveSoManySteps) {
  const auto scheduled = [](int devices) {
    Plan plan;
    plan.mode = PlanMode::inference;
    plan.batch = plan.micro_batches = 65536;
    for (int d = 0; d < devices; ++d) {
      DeviceBuilder b(d, 0, 1);
      for (int s = 0; s < 50; ++s) b.launch("Work", {}, {});
      b.program().slots = 1;
      for (int m = 0; m < plan.micro_batches; ++m) b.program().schedule.push_back({Phase::forward, 0, m, 0});
      add_device(plan, b.done());
    }
    return plan;
  };
  EXPECT_NE(refusal_of(scheduled(2)).find("the schedules have 6553600 steps together"), std::string::npos) << refusal_of(scheduled(2));
}

TEST(HostilePlans, DevicesAndWhatTheyHaveAreCounted) {
  Plan plan = long_plan(1);
  plan.parameters.assign(9000, {.name = "p",
                                .type = {DType::float32, {1}},
                                .parts = {{{0}, {DType::float32, {1}, Layout("a")}, 0}}});
  for (int d = 1; d < 9000; ++d) {
    plan.devices.push_back(plan.devices[0]);
    plan.devices.back().device.index = d;
  }
  EXPECT_NE(refusal_of(plan).find("devices keep 81000000 parts of parameters together"), std::string::npos);
  Plan programs = long_plan(1);
  programs.programs.assign(9000, programs.programs[ProgramId{0}]);
  programs.devices.assign(9000, programs.devices[0]);
  for (int d = 0; d < 9000; ++d) programs.devices[at(d)].program = {d};
  EXPECT_NE(refusal_of(programs).find("9000 programs on 9000 devices"), std::string::npos);
  Plan steps = long_plan(9000);
  steps.devices.assign(9000, steps.devices[0]);
  EXPECT_NE(refusal_of(steps).find("the devices do "), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
