// A batch that is worked through in parts: what is trained is what the whole batch trains, in the memory of a part.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>

#include "planner/micro_batches.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/timeline.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

CompileOptions in_parts(std::int64_t parts, CompileOptions o = options_for(8, {1})) {
  o.parallel.micro_batches = parts;
  return o;
}

std::int64_t scratch_of(const Plan& plan) {
  for (const Arena& a : plan.programs[0].arenas)
    if (a.kind == ArenaKind::scratch) return a.bytes;
  return 0;
}

TEST(MicroBatches, TrainAsTheWholeBatchDoes) {
  for (auto* const model : {mlp, convnet, deep})
    for (const std::int64_t parts : {2, 8}) {
      SCOPED_TRACE(concat(parts, " parts of ", model(1).name));
      expect_close(train(model, in_parts(parts), 6, 0.1), train(model, options_for(8, {1}), 6, 0.1));
    }
}

TEST(MicroBatches, HoldTheActivationsOfOneAlone) {
  const Plan whole = plan_of(convnet, options_for(64, {1})), parts = plan_of(convnet, in_parts(8, options_for(64, {1})));
  EXPECT_EQ(parts.programs[0].slots, 1);
  EXPECT_LT(scratch_of(parts), scratch_of(whole) / 3);
  const Trained run = train(convnet, in_parts(8, options_for(64, {1})), 2, 0.1);
  EXPECT_EQ(run.allocated[0], run.plan.programs[0].peak_bytes());
}

TEST(MicroBatches, AreSharedByReplicasThatSumOnceAStep) {
  for (const char* const parallel : {"data=2", "zero=1", "zero=2", "zero=3", "tensor=2"}) {
    SCOPED_TRACE(parallel);
    const CompileOptions o = in_parts(4, shared_by(2, parallel));
    expect_close(train(deep, o, 6, 0.1), train(deep, options_for(8, {1}), 6, 0.1));
  }
  const Plan plan = plan_of(mlp, in_parts(4, shared_by(2, "data=2")));
  for (const Step& s : plan.programs[0].steps)
    if (s.as<ExchangeStep>()) {
      EXPECT_EQ(s.phase, Phase::update) << text_of_plan(plan, true);
    }
}

// The sums of a synchronized normalization are a micro-batch's own: its backward pass reads them, and gradients follow from them, too.
TEST(MicroBatches, AreNormalizedAsOnOneDevice) {
  for (const char* const parallel : {"data=2", "zero=1", "zero=3"}) {
    SCOPED_TRACE(parallel);
    CompileOptions o = in_parts(2, shared_by(2, parallel));
    o.synchronize_batch_norm = true;
    expect_close(train(chain, o, 4, 0.05), train(chain, in_parts(2), 4, 0.05));
  }
}

TEST(MicroBatches, ArePartsOfAFile) {
  const Plan plan = plan_of(convnet, in_parts(4));
  const Plan again = parse_plan(serialize(plan));
  EXPECT_EQ(again.micro_batches, 4);
  EXPECT_EQ(serialize(again), serialize(plan));
  EXPECT_EQ(again.programs[0].schedule, plan.programs[0].schedule);
}

TEST(MicroBatches, AreRefusedWhereTheyAreNotEqual) {
  expect_refused(mlp, in_parts(3), "a batch of 8 has no 3 equal parts");
  expect_refused(mlp, in_parts(0), "a batch of 8 has no 0 equal parts");
}

TEST(MicroBatches, OfAShortBatchAreNoLarger) {
  const auto of = [](std::int64_t batch, std::int64_t most) {
    const MicroBatches m = micro_batches_of(batch, most);
    std::string text = concat(m.rows, ':');
    for (const std::int64_t own : own_rows(m)) text += concat(' ', own);
    return text;
  };
  EXPECT_EQ(of(32, 8), "8: 8 8 8 8");
  EXPECT_EQ(of(20, 8), "5: 5 5 5 5");
  EXPECT_EQ(of(7, 4), "2: 2 2 2 1");
  EXPECT_EQ(of(71, 32), "20: 20 20 20 10 1");
  EXPECT_EQ(of(7, 8), "7: 7");
  EXPECT_EQ(places_of(micro_batches_of(7, 4)), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 6}));
}

// A batch of a prime number of rows is not taken apart into single ones.
TEST(MicroBatches, OfAShortBatchAreNotMuchMore) {
  for (const std::int64_t most : {1, 8, 32, 128, 500})
    for (std::int64_t batch = most + 1; batch < 20 * most; batch += 1 + most / 16) {
      const MicroBatches m = micro_batches_of(batch, most);
      const std::vector<std::int64_t> own = own_rows(m);
      ASSERT_EQ(std::ssize(own), m.count);
      ASSERT_EQ(std::accumulate(own.begin(), own.end(), std::int64_t{0}), batch);
      for (const std::int64_t rows : own) ASSERT_EQ(m.rows % rows, 0);
      ASSERT_GE(2 * m.rows, most);
      ASSERT_LE(2 * m.batch(), 3 * batch) << batch << " of at most " << most;
    }
}

// The layers of `deep` in two to four parts, on devices that have so many of them each.
CompileOptions in_stages(int stages, std::int64_t micro_batches, const char* schedule = "1f1b") {
  CompileOptions o = options_for(8, std::vector<double>(at(stages), 1));
  o.parallel.micro_batches = micro_batches;
  o.parallel.schedule = parse_pipeline_schedule(schedule);
  const int parts = stages * o.parallel.schedule.chunks;
  PlacementRequest request;
  request.stages = stages;
  for (int p = 0; p < parts; ++p)
    request.groups.push_back({.name = concat("part ", p), .axes = {{"data", {1}, true}}, .devices = {p % stages}});
  if (parts == 4) request.nodes = {{"left", 1}, {"right", 1}};
  request.nodes["middle"] = parts == 4 ? 2 : 1;
  if (parts > 2) request.nodes["out"] = parts - 1;
  request.values["x"] = {Part{}};
  o.placement = request;
  return o;
}

// The kernels of a plan's products, with their operands.
std::set<std::string> products_of(const Plan& plan) {
  std::set<std::string> all;
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    for (const Step& s : plan.program_of(d).steps)
      if (const auto* const launch = s.as<LaunchStep>(); launch && launch->op.starts_with("InnerProduct")) {
        std::string text = launch->kernel;
        for (const auto* const list : {&s.inputs, &s.outputs})
          for (const BufferId id : *list) text += id.present() ? concat(' ', plan.program_of(d).buffers[id].operand) : " -";
        all.insert(std::move(text));
      }
  return all;
}

// Bits are a plan's: where a library's version has other kernels for the form in which weights lie in stages, they are close.
TEST(MicroBatches, GoThroughStages) {
  struct Row {
    int stages;
    const char* schedule;
    std::int64_t parts;
  };
  std::map<std::int64_t, Trained> alone;
  for (const Row& row : {Row{2, "1f1b", 1}, Row{2, "1f1b", 8}, Row{3, "1f1b", 2}, Row{4, "1f1b", 8}, Row{3, "gpipe", 4}, Row{2, "zb-h1", 4},
                         Row{4, "zb-h1", 8}, Row{2, "interleaved=2", 4}, Row{2, "interleaved=2", 8}}) {
    SCOPED_TRACE(concat(row.stages, " stages by ", row.schedule, ", ", row.parts, " parts"));
    if (!alone.contains(row.parts)) alone.emplace(row.parts, train(deep, in_parts(row.parts), 3, 0.1));
    const Trained run = train(deep, in_stages(row.stages, row.parts, row.schedule), 3, 0.1);
    const Trained& one = alone.at(row.parts);
    const float off = products_of(run.plan) == products_of(one.plan) ? 0 : 1e-5F * one.losses[0];
    for (std::size_t s = 0; s < run.losses.size(); ++s) EXPECT_NEAR(run.losses[s], one.losses[s], off) << "step " << s;
    for (std::size_t d = 0; d < at(row.stages); ++d) EXPECT_EQ(run.allocated[d], run.plan.program_of(d).peak_bytes()) << d;
  }
}

// In 16 bits, with a scaled loss, too, and where products are rounded to 8: stages have the bits of one device.
TEST(MicroBatches, GoThroughStagesInOtherFormats) {
  for (const auto& [precision, scale] : {std::pair{Precision::bf16, 0.0}, {Precision::bf16, 1024.0}, {Precision::fp8, 0.0}}) {
    if (!cpu_backend().declines(precision).empty()) continue;
    SCOPED_TRACE(concat(name_of(precision), ", loss times ", scale));
    const auto in_format = [&](CompileOptions o) {
      o.precision = precision;
      if (scale > 0) o.loss.scaling = LossScaling{.start = scale};
      return o;
    };
    const Trained whole = train(deep, in_format(options_for(8, {1})), 4, 0.05), alone = train(deep, in_format(in_parts(4)), 4, 0.05);
    for (std::size_t s = 0; s < whole.losses.size(); ++s) EXPECT_NEAR(alone.losses[s], whole.losses[s], 0.03 * whole.losses[0]);
    if (precision == Precision::fp8) continue;  // stages do not agree on scales
    for (const char* const schedule : {"1f1b", "zb-h1"})
      EXPECT_EQ(train(deep, in_format(in_stages(2, 4, schedule)), 4, 0.05).losses, alone.losses) << schedule;
  }
  if (!cpu_backend().declines(Precision::fp8).empty()) return;
  CompileOptions o = in_stages(2, 4);
  o.precision = Precision::fp8;
  expect_refused(deep, o, "fp8");
}

// By 1F1B as many as there are stages from here to the last, however many go through; by ZB-H1 as many as there are stages.
TEST(MicroBatches, AreHeldByAStageUntilTheyAreBack) {
  const Plan plan = plan_of(deep, in_stages(3, 8)), split = plan_of(deep, in_stages(3, 8, "zb-h1"));
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(plan.program_of(at(s)).slots, 3 - s);
    EXPECT_LE(split.program_of(at(s)).slots, 3);
  }
  EXPECT_NE(text_of_plan(split, false).find("8 of 1 samples, by zb-h1; bubble"), std::string::npos) << text_of_plan(split, false);
}

// A CPU whose streams are all one: what a device computes and exchanges is done one behind the other, in the order in which it is issued.
class OneAtATime final : public AskedCpu {
 public:
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override {
    class Serial final : public Device {
     public:
      explicit Serial(std::unique_ptr<Device> device) : device_(std::move(device)) {}
      void activate() override { device_->activate(); }
      std::byte* allocate(std::int64_t bytes) override { return device_->allocate(bytes); }
      std::byte* allocate_host(std::int64_t bytes) override { return device_->allocate_host(bytes); }
      std::unique_ptr<Stream> create_stream(int) override { return device_->create_stream(compute_stream); }
      std::unique_ptr<Event> create_event() override { return device_->create_event(); }

     private:
      std::unique_ptr<Device> device_;
    };
    return std::make_unique<Serial>(AskedCpu::open(index, options));
  }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override { return cpu_backend().create_group(spec); }
};

TEST(MicroBatches, GoThroughStagesThatDoOneThingAtATime) {
  const OneAtATime cpu;
  const Trained alone = train(deep, in_parts(8), 2, 0.1);
  for (const int stages : {2, 3, 4})
    for (const char* const schedule : {"gpipe", "1f1b", "zb-h1", "interleaved=2"}) {
      if (stages != 2 && schedule == std::string_view("interleaved=2")) continue;  // the model has four parts
      SCOPED_TRACE(concat(stages, " stages by ", schedule));
      EXPECT_EQ(train_on(cpu, deep, in_stages(stages, 8, schedule), 2, 0.1).losses, alone.losses);
    }
}

// Where a forward pass takes one second on each stage and a backward pass two, one of them for weights, and the first step of a phase takes
// all of its time, the plan's replay gives the closed forms. Within a phase a value may be sent before the phase ends: stages wait less.
TEST(MicroBatches, WaitAsTheClosedFormsSay) {
  const auto bubble = [](int stages, std::int64_t parts, const char* schedule) {
    Plan plan = plan_of(deep, in_stages(stages, parts, schedule));
    for (DeviceProgram& p : plan.programs) {
      const auto has = [&](Phase phase) {
        return std::ranges::any_of(p.steps, [&](const Step& s) { return s.phase == phase && s.as<LaunchStep>(); });
      };
      const bool halves = has(Phase::backward) && has(Phase::weights);
      std::set<Phase> begun;
      for (Step& s : p.steps) {
        s.seconds = 0;
        if (!s.as<LaunchStep>() || !is_of_micro_batch(s.phase) || !begun.insert(s.phase).second) continue;
        s.seconds = s.phase == Phase::forward || halves ? 1 : 2;
      }
    }
    const Plan flat = written_out(plan);
    return bubble_of(flat, timelines_of(flat));
  };
  for (const int p : {2, 3, 4})
    for (const int m : {4, 8}) {
      SCOPED_TRACE(concat(p, " stages, ", m, " micro-batches"));
      EXPECT_NEAR(bubble(p, m, "1f1b"), (p - 1.0) / (m + p - 1), 1e-9);
      EXPECT_NEAR(bubble(p, m, "gpipe"), (p - 1.0) / (m + p - 1), 1e-9);
      EXPECT_NEAR(bubble(p, m, "zb-h1"), (p - 1.0) / (3 * m + p - 1), 1e-9);
    }
}

// A step whose schedule is changed is refused, with what is wrong.
void expect_broken(const Plan& plan, void (*change)(DeviceProgram&), const std::string& message) {
  Plan broken = plan;
  change(broken.programs[0]);
  try {
    verify(broken);
    ADD_FAILURE() << "taken, expected: " << message;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

TEST(MicroBatches, SchedulesAreVerified) {
  const Plan plan = plan_of(convnet, in_parts(4));
  expect_broken(plan, [](DeviceProgram& p) { p.schedule.pop_back(); }, "3 of 4 micro-batches go through phase backward of chunk 0");
  expect_broken(plan, [](DeviceProgram& p) { std::swap(p.schedule[0], p.schedule[1]); }, "goes from phase backward");
  expect_broken(plan, [](DeviceProgram& p) { p.schedule[2].micro_batch = 0; }, "goes from phase backward");
  expect_broken(plan, [](DeviceProgram& p) { p.schedule[2].slot = 7; }, "in slot 7 of 1");
  expect_broken(plan, [](DeviceProgram& p) { std::swap(p.schedule[1], p.schedule[2]); }, "share memory and both live");
  expect_broken(plan, [](DeviceProgram& p) { p.schedule.clear(); p.slots = 0; p.slot_bytes = 0; }, "has no schedule for 4 micro-batches");
  expect_broken(plan, [](DeviceProgram& p) { p.steps.back().phase = Phase::forward; }, "stand behind those of");
}

// One micro-batch after the other, through all phases of all chunks.
void one_by_one(DeviceProgram& p, bool last_first) {
  std::ranges::stable_sort(p.schedule, {}, [&](const ScheduleEntry& e) {
    return std::tuple(last_first ? -e.micro_batch : e.micro_batch, e.phase, e.phase == Phase::forward ? e.chunk : -e.chunk);
  });
}

TEST(MicroBatches, SchedulesOfEveryKindAreVerified) {
  for (const char* const schedule : {"gpipe", "1f1b", "zb-h1", "interleaved=2"}) {
    SCOPED_TRACE(schedule);
    const Plan plan = plan_of(deep, in_stages(2, 4, schedule));
    ASSERT_EQ(plan.devices[1].program.index, 1);
    expect_broken(plan, [](DeviceProgram& p) { for (ScheduleEntry& e : p.schedule) e.slot = 0; }, "share memory and both live");
    expect_broken(plan, [](DeviceProgram& p) { p.schedule.pop_back(); }, "3 of 4 micro-batches go through phase");
    expect_broken(plan, [](DeviceProgram& p) { p.schedule.push_back(p.schedule.back()); }, "goes from phase");
    Plan in_turn = plan, circle = plan;
    for (DeviceProgram& p : in_turn.programs) one_by_one(p, false);
    EXPECT_NO_THROW(verify(in_turn));
    one_by_one(circle.programs[0], false);
    one_by_one(circle.programs[1], true);
    expect_broken(circle, [](DeviceProgram&) {}, "waits in exchange");
  }
}

}  // namespace
}  // namespace tandem
