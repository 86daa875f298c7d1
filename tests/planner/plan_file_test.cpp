#include "planner/plan/plan_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "planner/plan/format.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

// Every field set to something that is not its default.
Plan full_plan() {
  Plan plan = linear_plan({3, 0, 2});
  plan.mode = PlanMode::inference;
  plan.options = {.threads = 3, .deterministic = true, .winograd = false, .tf32 = true, .preference = LayoutPreference::channels_last};
  plan.warnings = {"a warning", "bytes \xff that are no text"};
  plan.seconds = 0.125;
  plan.record = {"{\"momentum\":\"0.9\"}", "0123456789abcdef", "fedcba9876543210", {{"fake", "a library"}},
                 UpdateKind::radam, 0.8, 0.99, -1, 0.25, 7};
  plan.parameters[0].source = Layout("a");
  PlanParameter copy = plan.parameters[0];
  copy.name = "w/bfloat16";
  copy.type.dtype = DType::bfloat16;
  for (ProgramPart& part : copy.parts) part.operand.dtype = DType::bfloat16, part.offset = 64;
  copy.role = ValueRole::copy;
  copy.of = "w";
  plan.parameters.push_back(copy);
  const auto part = [](int program, std::int64_t n) {
    return ProgramPart{{program}, {DType::float32, {n}, Layout("a")}, 128, {{0, 1, 2, n}}};
  };
  plan.cuts = {{{0, 0, 0}}, {{0, 0, 1}}};
  plan.parameters.push_back({.name = "cut", .type = {DType::float32, {5}}, .parts = {part(0, 2), part(2, 3)}});
  plan.parameters.push_back({.name = "cut twice",
                             .type = {DType::float32, {6, 2}},
                             .parts = {{{0}, {DType::float32, {4, 2}, Layout("ab")}, 192, {{0, 1, 2, 2, 2}, {1, 0, 1, 2}}},
                                       {{2}, {DType::float32, {2, 2}, Layout("ab")}, 192, {{0, 1, 2, 1, 2}, {1, 0, 1, 2}}}}});
  plan.exchanges[0].seconds = 1e-5;
  plan.transfers = {{ExchangeKind::all_gather, "w", 12, "data", "Scale_node", "it is read whole"}};
  for (PlanDevice& d : plan.devices) d.weight = 2.5;
  for (DeviceProgram& d : plan.programs) {
    d.model = {"a model", 123456789, 1e12, 2e10, 3e-6, 4e9, 3, 132};
    d.arenas[0].bytes = 256;
    d.buffers[0].placement = "split(0)";
    d.memory = {{MemoryClass::weights, 64}, {MemoryClass::workspace, 12}};
    d.arenas[3].lower_bound = d.arenas[3].bytes;
    Step& scale = d.steps[3];
    scale.as<LaunchStep>()->attributes = {{"i", std::int64_t{-5}},
                        {"f", 0.1f},
                        {"s", std::string("t\0ext", 5)},
                        {"is", Ints{1, -2, INT64_MIN}},
                        {"fs", Floats{1.5f, -0.0f}},
                        {"ss", Strings{"a", ""}},
                        {"none", Ints{}},
                        {"t", Tensor::of<double>({2, 1}, {1.0 / 3, -7})}};
    scale.flops = 1e9;
    scale.bytes = 1e6;
    scale.seconds = 2e-4;
    scale.measured = true;
    scale.origin = {"conv1", "relu1"};
    d.arenas[4].bytes = 64;
    d.buffers.push_back({.name = "k",
                         .operand = {DType::int32, {2}, Layout("a")},
                         .arena = ArenaKind::constants,
                         .bytes = 64,
                         .constant = Tensor::of<std::int32_t>({2}, {7, -7})});
  }
  return plan;
}

TEST(PlanFile, KeepsEverything) {
  const Plan plan = full_plan();
  const std::string bytes = serialize(plan);
  const Plan read = parse_plan(bytes);
  EXPECT_EQ(serialize(read), bytes);
  EXPECT_EQ(json_of(read), json_of(plan));
  EXPECT_EQ(text_of_plan(read, true), text_of_plan(plan, true));
  EXPECT_EQ(to_string(read.program_of(0).steps[3].as<LaunchStep>()->attributes),
            to_string(plan.program_of(0).steps[3].as<LaunchStep>()->attributes));
  EXPECT_EQ(read.program_of(0).buffers.back().constant->to_int64s(), (std::vector<std::int64_t>{7, -7}));
  EXPECT_TRUE(std::signbit(read.program_of(0).steps[3].as<LaunchStep>()->attributes.floats("fs")[1]));
  EXPECT_EQ(read.program_of(0).buffers[0].alias, BufferId{});
  EXPECT_EQ(read.warnings, plan.warnings);
  EXPECT_EQ(read.parameters[1].role, ValueRole::copy);
  EXPECT_EQ(read.parameters[1].of, "w");
  EXPECT_EQ(read.parameters[2].parts, plan.parameters[2].parts);
  EXPECT_EQ(read.program_of(0).buffers[BufferId{0}].placement, "split(0)");
  EXPECT_EQ(read.cuts, plan.cuts);
  EXPECT_EQ(read.part_of(read.parameters[2], 2)->ranges, (std::vector<AxisRange>{{0, 2, 3}}));
  EXPECT_EQ(read.part_of(read.parameters[3], 2)->ranges, (std::vector<AxisRange>{{0, 2, 1, 2}, {1, 0, 2}}));
  EXPECT_EQ(read.devices[2].slice_begin, 3);
  EXPECT_EQ(read.devices[2].program, ProgramId{2});
  EXPECT_EQ(read.exchanges[ExchangeId{0}].devices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(read.options.preference, LayoutPreference::channels_last);
  EXPECT_TRUE(read.options.tf32);
  EXPECT_EQ(read.program_of(2).model.threads, 3);
  EXPECT_EQ(read.program_of(2).model.multiprocessors, 132);
  EXPECT_EQ(read.record, plan.record);
}

TEST(PlanFile, EqualPlansGiveEqualBytesAndHashes) {
  EXPECT_EQ(serialize(full_plan()), serialize(full_plan()));
  EXPECT_EQ(hash_of(full_plan()), hash_of(full_plan()));
  EXPECT_EQ(hash_of(full_plan()).size(), 16u);
  Plan other = full_plan();
  other.program_of(1).steps[3].as<LaunchStep>()->attributes.set("i", std::int64_t{-6});
  EXPECT_NE(hash_of(full_plan()), hash_of(other));
}

TEST(PlanFile, RefusesWhatIsNoPlan) {
  const std::string plan = serialize(full_plan());
  for (const std::string& bytes : {std::string(), std::string("PK\x03\x04"), std::string(1000, '\0'), std::string(100, 'a'),
                                   plan.substr(0, plan.size() - 1), plan.substr(1)}) {
    try {
      parse_plan(bytes);
      ADD_FAILURE() << "read " << bytes.size() << " bytes";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model);
      EXPECT_EQ(std::string(e.what()).rfind("plan", 0), 0u) << e.what();
    }
  }
}

TEST(PlanFile, RefusesWhateverWasChanged) {
  const std::string good = serialize(full_plan());
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += 7) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(parse_plan(bytes), Error) << "bit " << bit;
  }
}

// A plan with any of its bytes changed, and a checksum to fit, is read as another plan that verifies, or refused; nothing
// else happens.
TEST(PlanFile, SurvivesMalice) {
  std::string good = serialize(full_plan());
  good.resize(good.size() - checksum_bytes);
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 10 == 0) bytes.resize(random() % bytes.size());
    try {
      const Plan plan = parse_plan(with_checksum(bytes));
      EXPECT_FALSE(text_of_plan(plan, true).empty());
      EXPECT_FALSE(json_of(plan).empty());
      EXPECT_FALSE(dot_of(plan).empty());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(PlanFile, RefusesAnotherVersion) {
  for (const int version : {5, 7}) {
    Plan plan = linear_plan({1});
    plan.version = version;
    try {
      parse_plan(serialize(plan));
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), concat("plan file: version ", version, ", this tandem reads version 6: make the plan again from its model"));
    }
  }
}

}  // namespace
}  // namespace tandem::test
