// Plans in which activations are computed again: as many bytes as asked for, as planned, and the same bits.
#include <gtest/gtest.h>

#include "planner/plan/plan_file.h"
#include "planner/recompute/recompute.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

// Residual blocks with everything that must not happen twice: statistics, random masks, pooling by places.
Graph residual_blocks(std::int64_t n, int count) {
  Builder b;
  b.graph.name = "residual";
  const Attributes conv{{"kernel_shape", Ints{3, 3}},
                        {"strides", Ints{1, 1}},
                        {"pads", Ints{1, 1, 1, 1}},
                        {"dilations", Ints{1, 1}},
                        {"group", std::int64_t{1}}};
  const auto filled = [&](const std::string& name, float value, bool trains) {
    const std::vector<float> values(8, value);
    return b.graph.add_parameter(name, {DType::float32, {8}}, Tensor::of<float>(Shape{8}, std::span<const float>(values)), trains);
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Conv", {x, b.weight("stem", {8, 3, 3, 3}, 0.3F)}, conv);
  for (int i = 0; i < count; ++i) {
    const std::string name = concat("block", i);
    ValueId y = b.node("Conv", {x, b.weight(name, {8, 8, 3, 3}, 0.1F)}, conv);
    y = b.node("BatchNormalization", {y, filled(name + "/scale", 1, true), filled(name + "/shift", 0, true),
                                      filled(name + "/mean", 0, false), filled(name + "/variance", 1, false)});
    y = b.node("Relu", {y});
    if (i % 2 == 1) y = b.node("Dropout", {y}, {{"ratio", 0.3F}});
    x = b.node("Add", {x, y});
  }
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {8, 5}, 0.5F)})};
  return b.graph;
}
Graph eight_blocks(std::int64_t n) { return residual_blocks(n, 8); }

// Twelve layers of attention and products, normalized before each.
Graph transformer(std::int64_t n) {
  constexpr std::int64_t length = 16, width = 32, heads = 4;
  Builder b;
  b.graph.name = "transformer";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, length, width}});
  const auto normalized = [&](ValueId v, const std::string& name) {
    return b.node("LayerNormalization", {v, b.weight(name + "/scale", {width}, 0.5F), b.weight(name + "/shift", {width}, 0.1F)},
                  {{"axis", std::int64_t{-1}}});
  };
  const auto product = [&](ValueId v, const std::string& name, std::int64_t in, std::int64_t out) {
    return b.node("MatMul", {v, b.weight(name, {in, out}, 1 / std::sqrt(static_cast<float>(in)))});
  };
  const auto reshaped_to = [&](ValueId v, Ints shape) { return b.node("Reshape", {v}, {{"shape", std::move(shape)}}); };
  const auto turned = [&](ValueId v, Ints perm) { return b.node("Transpose", {v}, {{"perm", std::move(perm)}}); };
  for (int i = 0; i < 12; ++i) {
    const std::string name = concat("layer", i);
    const ValueId h = normalized(x, name + "/first");
    const auto by_head = [&](const char* what, Ints perm) {
      return turned(reshaped_to(product(h, name + what, width, width), {n, length, heads, width / heads}), std::move(perm));
    };
    const ValueId scores = b.node("MatMul", {by_head("/q", {0, 2, 1, 3}), by_head("/k", {0, 2, 3, 1})});
    const ValueId mixed = b.node("MatMul", {b.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), by_head("/v", {0, 2, 1, 3})});
    x = b.node("Add", {x, product(reshaped_to(turned(mixed, {0, 2, 1, 3}), {n, length, width}), name + "/out", width, width)});
    const ValueId wide = b.node("Gelu", {product(normalized(x, name + "/second"), name + "/up", width, 4 * width)});
    x = b.node("Add", {x, product(b.node("Dropout", {wide}, {{"ratio", 0.1F}}), name + "/down", 4 * width, width)});
  }
  b.graph.outputs = {b.node("Gemm", {b.node("Flatten", {x}, {{"axis", std::int64_t{1}}}), b.weight("w", {length * width, 5}, 0.05F)})};
  return b.graph;
}

std::int64_t planned(const Plan& plan, std::size_t device = 0) { return plan.program_of(device).peak_bytes(); }
int launches(const Plan& plan) {
  int count = 0;
  for (const Step& s : plan.program_of(0).steps) count += s.as<LaunchStep>() != nullptr;
  return count;
}

struct Row {
  const char* name;
  Graph (*model)(std::int64_t);
  std::vector<double> devices;
  Precision precision = Precision::fp32;
  std::vector<double> shares{1.0, 0.75, 0.5, 0.35};  // of the activations
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Recompute : public testing::TestWithParam<Row> {};

TEST_P(Recompute, SameBitsInFewerBytes) {
  const Row& row = GetParam();
  CompileOptions o = options_for(32, row.devices);
  o.precision = row.precision;
  const Trained without = train(row.model, o, 4, 0.05);
  std::int64_t before = planned(without.plan);
  for (const double share : row.shares) {
    SCOPED_TRACE(share);
    o.memory.budget = MemoryBudget{.share = share};
    const Trained with = train(row.model, o, 4, 0.05);
    expect_same_training(with, without);
    for (std::size_t d = 0; d < row.devices.size(); ++d) EXPECT_EQ(with.allocated[d], planned(with.plan, d));
    EXPECT_LE(planned(with.plan), before);
    EXPECT_FALSE(with.plan.recompute.empty());
    if (share < 1) {
      EXPECT_LT(planned(with.plan), planned(without.plan)) << with.plan.recompute;
      EXPECT_GT(launches(with.plan), launches(without.plan));
    }
    before = planned(with.plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         testing::Values(Row{"one_device", eight_blocks, {1}}, Row{"two_devices", eight_blocks, {1, 1}},
                                         Row{"unequal_devices", eight_blocks, {3, 1}}, Row{"bf16", eight_blocks, {1}, Precision::bf16, {1.0, 0.75, 0.55}}, Row{"transformer", transformer, {1}},
                                         Row{"transformer_on_two", transformer, {1, 1}}),
                         [](const auto& info) { return std::string(info.param.name); });

// By each of the 2^8 sets of blocks to keep, each planned: none that takes no more bytes takes less time.
TEST(RecomputeChoice, NoSetOfEightBlocksIsBetter) {
  const Backend* const backends[] = {&cpu_backend()};
  CompileOptions o = options_for(32, {1});
  o.layout = LayoutPreference::blocked;
  o.passes.verify = false;  // of each set they are the same
  const auto plan_for = [&](const std::vector<std::string>& patterns, std::int64_t bytes) {
    o.memory.recompute = patterns;
    o.memory.budget.reset();
    if (bytes > 0) o.memory.budget = MemoryBudget{.bytes = {bytes}};
    return compile(eight_blocks, o, backends);
  };
  const auto seconds = [](const Plan& plan) {
    double sum = 0;
    for (const Step& s : plan.program_of(0).steps) sum += s.as<LaunchStep>() ? s.seconds : 0;
    return sum;
  };
  // The nodes of a block, by the names that Builder gives.
  std::vector<std::vector<std::string>> nodes(8);
  const Graph graph = eight_blocks(1);
  int block = -1;
  for (const Node& n : graph.nodes) {
    if (n.op->name == "Conv") ++block;
    if (block >= 1 && block <= 8 && n.op->name != "Add") nodes[at(block - 1)].push_back(n.name);
    if (block == 8 && n.op->name == "Add") break;
  }
  std::vector<std::pair<std::int64_t, double>> all;  // bytes and seconds
  for (unsigned set = 1; set < 256; ++set) {
    std::vector<std::string> patterns;
    for (std::size_t b = 0; b < 8; ++b)
      if (set >> b & 1U) patterns.insert(patterns.end(), nodes[b].begin(), nodes[b].end());
    const Plan plan = plan_for(patterns, 0);
    all.emplace_back(planned(plan), seconds(plan));
  }
  const std::int64_t least = std::ranges::min_element(all)->first, most = planned(plan_for({}, 0));
  ASSERT_LT(least, most);
  for (int i = 0; i <= 8; ++i) {
    const std::int64_t budget = least + (most - least) * i / 8;
    double best = INFINITY;
    for (const auto& [bytes, time] : all)
      if (bytes <= budget) best = std::min(best, time);
    if (budget == most) best = std::min(best, seconds(plan_for({}, 0)));
    const Plan chosen = plan_for({}, budget);
    EXPECT_LE(planned(chosen), budget);
    EXPECT_LE(seconds(chosen), best * (1 + 1e-9)) << budget << ": " << chosen.recompute;
  }
}

// Micro-batches hold what is kept in slots; what runs again is of their backward phase.
TEST(RecomputeInMicroBatches, SameBitsInFewerBytes) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(stages);
    CompileOptions o = options_for(32, std::vector<double>(at(stages), 1));
    o.parallel.micro_batches = 4;
    if (stages == 2) {
      o.placement = PlacementRequest{};
      for (int s = 0; s < 2; ++s)
        o.placement->groups.push_back({.name = concat("stage ", s), .axes = {{"data", {1}, true}}, .devices = {s}});
      o.placement->nodes = {{"Conv19", 1}};
      o.placement->values["x"] = {Part{}};
    }
    const Trained without = train(eight_blocks, o, 3, 0.05);
    o.memory.budget = MemoryBudget{.share = 0.5};
    const Trained with = train(eight_blocks, o, 3, 0.05);
    expect_same_training(with, without);
    for (std::size_t d = 0; d < at(stages); ++d) {
      EXPECT_EQ(with.allocated[d], planned(with.plan, d));
      EXPECT_LT(planned(with.plan, d), planned(without.plan, d)) << with.plan.recompute;
    }
    const auto repeated = [](const Step& s) { return s.phase == Phase::backward && s.op() == "Conv"; };
    EXPECT_TRUE(std::ranges::any_of(with.plan.program_of(0).steps, repeated));
    o.memory.budget.reset();
    o.memory.recompute = {"*"};
    expect_same_training(train(eight_blocks, o, 3, 0.05), without);
  }
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Of devices that have several parts of the model, each part by itself.
TEST(RecomputeInChunks, SameBitsInFewerBytes) {
  CompileOptions o = options_for(32, {1, 1});
  o.parallel.pipeline = 2;
  o.parallel.micro_batches = 4;
  o.parallel.schedule = {.kind = ScheduleKind::interleaved, .chunks = 2};
  const Trained without = train(eight_blocks, o, 3, 0.05);
  const auto repeats = [](const Plan& plan, std::size_t device, int chunk) {
    return std::ranges::any_of(plan.program_of(device).steps, [&](const Step& s) {
      return s.phase == Phase::backward && s.chunk == chunk && s.as<LaunchStep>() && !s.outputs.empty() && s.outputs[0].present() &&
             plan.program_of(device).buffers[s.outputs[0]].name.ends_with(" (again)");
    });
  };
  for (const bool named : {false, true}) {
    SCOPED_TRACE(named);
    o.memory.budget = named ? std::nullopt : std::optional(MemoryBudget{.share = 0.5});
    if (named) o.memory.recompute = {"*"};
    const Trained with = train(eight_blocks, o, 3, 0.05);
    expect_same_training(with, without);
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(with.allocated[d], planned(with.plan, d));
      EXPECT_LT(planned(with.plan, d), planned(without.plan, d)) << with.plan.recompute;
      EXPECT_GE(repeats(with.plan, d, 0) + repeats(with.plan, d, 1), named ? 2 : 1) << d << ": " << with.plan.recompute;
    }
    EXPECT_TRUE(has(with.plan.recompute, " run again, ") && !has(with.plan.recompute, "-")) << with.plan.recompute;
  }
}

std::string refusal(const CompileOptions& o) {
  const Backend* const backends[] = {&cpu_backend()};
  try {
    compile(eight_blocks, o, backends);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(RecomputeByName, WhatIsNamedIsNotKept) {
  CompileOptions o = options_for(32, {1});
  const Trained without = train(eight_blocks, o, 3, 0.05);
  o.memory.recompute = {"Conv*"};
  const Trained with = train(eight_blocks, o, 3, 0.05);
  expect_same_training(with, without);
  EXPECT_LT(planned(with.plan), planned(without.plan)) << with.plan.recompute;
  o.memory.recompute = {"*"};  // a chain is cut
  const Trained whole = train(eight_blocks, o, 3, 0.05);
  expect_same_training(whole, without);
  EXPECT_LT(planned(whole.plan), planned(with.plan)) << whole.plan.recompute;
  o.memory.recompute = {"Rleu3"};
  EXPECT_TRUE(
      has(refusal(o), "option recompute 'Rleu3': no node of the forward pass has such a name, and no module, did you mean 'Relu3'?"))
      << refusal(o);
}

TEST(RecomputeByName, ModulesName) {
  CompileOptions o = options_for(32, {1});
  for (const Node& n : eight_blocks(1).nodes)
    if (n.op->name == "Relu" || n.op->name == "BatchNormalization") o.modules[n.name] = {"body.activations"};
  o.memory.recompute = {"body.*"};
  const Backend* const backends[] = {&cpu_backend()};
  EXPECT_FALSE(compile(eight_blocks, o, backends).recompute.empty());
}

TEST(MemoryBudget, Texts) {
  EXPECT_EQ(parse_memory_budget("fit"), (MemoryBudget{.fit = true}));
  EXPECT_EQ(parse_memory_budget("50%"), (MemoryBudget{.share = 0.5}));
  EXPECT_EQ(parse_memory_budget("8GiB,4GiB"), (MemoryBudget{.bytes = {std::int64_t{8} << 30, std::int64_t{4} << 30}}));
  for (const char* wrong : {"0%", "101%", "half", "-1GiB", "", "fits"}) EXPECT_THROW(parse_memory_budget(wrong), Error) << wrong;
}

TEST(MemoryBudget, Refusals) {
  CompileOptions o = options_for(32, {1});
  o.memory.budget = MemoryBudget{.bytes = {1000}};
  EXPECT_TRUE(has(refusal(o), "device cpu:0: option memory_budget asks for a plan of 1000 B, the smallest that was found takes "))
      << refusal(o);
  o.memory.recompute = {"Relu*"};
  EXPECT_TRUE(has(refusal(o), "expected one of them")) << refusal(o);
  o.memory.recompute = {};
  o.memory.budget = MemoryBudget{.bytes = {1000, 1000}};
  EXPECT_TRUE(has(refusal(o), "has 2 sizes for 1 devices")) << refusal(o);
  o.memory.budget = MemoryBudget{.share = 1.5};
  EXPECT_TRUE(has(refusal(o), "a share above 0 and at most 1")) << refusal(o);
}

// What a device has, and what would help where it is too little.
TEST(MemoryBudget, Fits) {
  const Backend* const backends[] = {&cpu_backend()};
  CompileOptions o = options_for(32, {1});
  const std::int64_t all = planned(compile(eight_blocks, o, backends));
  o.memory.budget = MemoryBudget{.fit = true};
  EXPECT_EQ(planned(compile(eight_blocks, o, backends)), all);
  o.memory.most = {all * 3 / 4};
  const Plan fitted = compile(eight_blocks, o, backends);
  EXPECT_LE(planned(fitted), all * 3 / 4);
  EXPECT_TRUE(has(fitted.recompute, "more time, at least ")) << fitted.recompute;
  o.memory.most = {all / 5};
  EXPECT_TRUE(has(refusal(o), "the largest batch that fits is ")) << refusal(o);
  o.memory.most = {all * 3 / 4};
  o.memory.budget.reset();
  EXPECT_TRUE(has(refusal(o), "; with option memory_budget fit activations are computed again: ")) << refusal(o);
}

TEST(RecomputePlan, IsKeptInTheFile) {
  const Backend* const backends[] = {&cpu_backend()};
  CompileOptions o = options_for(32, {1});
  o.memory.budget = MemoryBudget{.share = 0.5};
  const Plan plan = compile(eight_blocks, o, backends);
  EXPECT_TRUE(has(text_of_plan(plan, false), "recompute       ")) << text_of_plan(plan, false);
  EXPECT_EQ(parse_plan(serialize(plan)).recompute, plan.recompute);
}

}  // namespace
}  // namespace tandem
