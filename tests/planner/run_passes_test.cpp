// The runner of passes: its checks, what is left out, what it tells.
#include <gtest/gtest.h>

#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

TEST(RunPasses, NamesThePassThatBreaksWhatItPromised) {
  CompileOptions o;
  o.passes.verify = true;
  PassContext c{.options = o, .samples = 2};
  const auto run = [&](Pass pass) { return run_passes(std::span(&pass, 1), mlp(2), c); };
  const auto lose = [](Graph g, PassContext&) {
    g.outputs.clear();
    return g;
  };
  const auto tangle = [](Graph g, PassContext&) {
    std::reverse(g.nodes.begin(), g.nodes.end());
    return g;
  };
  const auto nothing = [](Graph g, PassContext&) { return g; };
  expect_error("pass lose: 0 outputs are the loss", [&] { run({.name = "lose", .run = lose, .gives = {Property::loss}}); });
  expect_error("pass forget: nothing is updated", [&] { run({.name = "forget", .run = nothing, .gives = {Property::updated}}); });
  expect_error("pass tangle: graph: ", [&] { run({.name = "tangle", .run = tangle}); });
  expect_error("pass early stands before what it needs", [&] { run({.name = "early", .run = nothing, .needs = {Property::loss}}); });
  EXPECT_EQ(
      run({.name = "left out", .run = [](Graph, PassContext&) -> Graph { throw 1; }, .when = [](const PassContext&) { return false; }})
          .nodes.size(),
      mlp(2).nodes.size());
}

struct LeftOut {
  const char* pass;
  const char* error;
};
class WithoutPasses : public testing::TestWithParam<LeftOut> {};

TEST_P(WithoutPasses, RefusesWhatNoPlanCanBeWithout) {
  CompileOptions o = options_for(6, {1});
  o.passes.without = {GetParam().pass};
  const Backend* backends[] = {&cpu_backend()};
  expect_error(GetParam().error, [&] { compile(mlp, o, backends); });
}
INSTANTIATE_TEST_SUITE_P(Rows, WithoutPasses,
                         testing::Values(LeftOut{"simplifi", "option without_passes: there is no pass 'simplifi', did you mean 'simplify'?"},
                                         LeftOut{"add_gradients", "option without_passes: no plan can be without 'add_gradients': other passes need what it gives"},
                                         LeftOut{"keep_logits", "no plan can be without 'keep_logits': the losses are computed from what it leaves"}),
                         [](const auto& row) { return std::string(row.param.pass); });

// Whatever else is left out, the plan is sound, and no pass breaks what it promises.
TEST(LeavingPassesOut, LeavesPlansSound) {
  const Backend* backends[] = {&cpu_backend()};
  int left_out = 0;
  for (const PlanMode mode : {PlanMode::training, PlanMode::inference})
    for (const Pass& pass : passes_of(mode)) {
      if (!pass.required.empty() || !pass.gives.empty()) continue;
      SCOPED_TRACE(pass.name);
      for (Graph (*const model)(std::int64_t) : {normalized, deep})
        for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8}) {
          if (!cpu_backend().declines(precision).empty()) continue;
          CompileOptions o = options_for(6, model == normalized ? std::vector<double>{2, 1} : std::vector<double>{1});
          o.mode = mode;
          o.precision = precision;
          o.passes.without = {std::string(pass.name)};
          o.passes.after = [&](const PassResult& r) { EXPECT_NE(r.name, pass.name); };
          EXPECT_NO_THROW(compile(model, o, backends)) << to_string(precision);
          ++left_out;
        }
    }
  EXPECT_GT(left_out, 20);
}

TEST(RunPasses, TellsOfEachGraph) {
  CompileOptions o = options_for(6, {2, 1, 0});
  std::map<std::int64_t, std::vector<std::string>> graphs;
  o.passes.after = [&](const PassResult& r) {
    EXPECT_EQ(r.number, static_cast<int>(graphs[r.samples].size()));
    graphs[r.samples].emplace_back(r.name);
    EXPECT_NE(print(r.graph), "");
    EXPECT_NE(r.why, "");
    EXPECT_GE(r.seconds, 0);
  };
  const Backend* backends[] = {&cpu_backend()};
  compile(mlp, o, backends);
  ASSERT_EQ(graphs.size(), 1U);  // one graph for all three devices
  EXPECT_EQ(graphs[6].front(), "model");
  EXPECT_EQ(graphs[6].back(), "group_updates");
}

}  // namespace
}  // namespace tandem
