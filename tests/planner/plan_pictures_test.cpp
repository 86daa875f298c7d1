// What is drawn of a plan: the page's data, traces, modules.
#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "planner/plan/advice.h"
#include "planner/plan/issue_order.h"
#include "planner/plan/module_graph.h"
#include "planner/plan/modules.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/trace.h"
#include "tests/planner/sound_trace.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

constexpr std::string_view hostile = "</script><!--<b onload=\"x\">'`";

std::ptrdiff_t count(std::string_view text, std::string_view part) {
  std::ptrdiff_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Plan timed_plan(const std::vector<std::int64_t>& slices = {2, 2, 1}) {
  Plan plan = linear_plan(slices);
  share_programs(plan);
  double seconds = 1e-6;
  for (DeviceProgram& d : plan.programs)
    for (Step& s : d.steps) s.seconds = seconds += 1e-6 / 3;
  for (Exchange& e : plan.exchanges) e.seconds = 2e-6;
  return plan;
}

// The text of a page between a tag's end and what ends it.
std::string within(const std::string& page, std::string_view begin, std::string_view end) {
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find(end, from) - from);
}

TEST(PlanPage, HoldsThePlansJsonWhateverItsNames) {
  Plan plan = timed_plan();
  plan.model = plan.programs[ProgramId{0}].buffers[BufferId{0}].name = hostile;
  plan.warnings = {std::string(hostile)};
  const std::string page = html_of(plan);
  const Json json = Json::parse(within(page, "id=\"plan\">", "</script>"));
  EXPECT_EQ(json.at("model").text(), hostile);
  EXPECT_EQ(json.at("schema").integer(), 1);
  EXPECT_EQ(json.dump(), json_value_of(plan, PlanDetail::pictures).dump());
  EXPECT_EQ(count(page, "</script>"), 2);
  EXPECT_EQ(count(page, "<b onload"), 0);
  EXPECT_NE(page.find("<title>Training plan of &lt;/script&gt;"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(PlanPage, SaysThatAPlanIsTooLarge) {
  Plan plan = timed_plan({2});
  const Step step = plan.programs[ProgramId{0}].steps[StepId{3}];
  plan.programs[ProgramId{0}].steps.resize(200'001, step);
  const std::string page = html_of(plan);
  EXPECT_NE(page.find("This plan has 200,001 steps. A page shows at most 200,000"), std::string::npos) << page.substr(0, 4000);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_LT(page.size(), 20'000U);
}

TEST(PlanJson, TimelinesAreThoseOfClassesOfDevices) {
  const Plan plan = timed_plan();
  const Json json = json_value_of(plan, PlanDetail::whole);
  const Json::Array& lines = json.at("timelines").array();
  ASSERT_EQ(lines.size(), 2U);
  const auto planned = timelines_of(plan);
  for (const Json& line : lines) {
    const auto device = static_cast<std::size_t>(line.at("devices").array()[0].integer());
    const auto& begins = line.at("begins").array();
    ASSERT_EQ(begins.size(), plan.program_of(device).steps.size());
    for (StepId s{0}; s.index < std::ssize(begins); ++s.index)
      EXPECT_NEAR(static_cast<double>(begins[at(s.index)].integer()) * 1e-9, planned[device].begins[s], 1e-9);
  }
  EXPECT_EQ(lines[0].at("devices").dump(), "[0,1]");
}

struct Name {
  std::string_view name;
  std::vector<std::string> parts;
};
TEST(Modules, AreThePartsOfANodesName) {
  for (const Name& row :
       {Name{"layer1.0.conv1", {"layer1", "0", "conv1"}}, Name{"/layer1/layer1.0/conv1/Conv", {"layer1", "0", "conv1", "Conv"}},
        Name{"node_conv2d_1", {"node_conv2d_1"}}, Name{"/a//b.c/", {"a", "b.c"}}, Name{"", {""}}, Name{"...", {"..."}}})
    EXPECT_EQ(parts_of_name(row.name), row.parts) << row.name;
}

// A trace of the plan, `times` times, is sound and complete.
void expect_sound(const std::string& text, const Plan& plan, int times) {
  std::size_t steps = 0, rows = 0;
  const Plan flat = written_out(plan);
  for (std::size_t d = 0; d < flat.devices.size(); ++d) steps += flat.program_of(d).steps.size();
  for (const Exchange& e : flat.exchanges) rows += e.row_length() > 1 ? at(e.rows) : 0;
  const TraceCounts got = sound_trace(text);
  EXPECT_EQ(got.slices, steps * at(times));
  EXPECT_EQ(got.flows, rows * at(times));
}

TEST(Traces, OfAPlanAreItsStepsAndExchanges) {
  Plan plan = timed_plan();
  plan.model = hostile;
  expect_sound(trace_of(plan), plan, 1);
  EXPECT_EQ(Json::parse(trace_of(plan)).at("otherData").at("model").text(), hostile);
}

TEST(Traces, ASendGoesFromWhoGivesToWhoGets) {
  Plan plan = relay_plan("fake");
  std::swap(plan.devices[0], plan.devices[1]);
  plan.exchanges[ExchangeId{0}].devices = {1, 0};
  for (DeviceProgram& d : plan.programs)
    for (Step& s : d.steps) s.seconds = 1e-6;
  const std::string text = trace_of(plan);
  expect_sound(text, plan, 1);
  const Json trace = Json::parse(text);
  for (const Json& e : trace.at("traceEvents").array()) {
    EXPECT_GT(e.at("tid").integer(), 0) << "Perfetto takes thread 0 for another process's";
    if (e.at("ph").text() == "s") {
      EXPECT_EQ(e.at("pid").integer(), 2);
    }
    if (e.at("ph").text() == "f") {
      EXPECT_EQ(e.at("pid").integer(), 1);
    }
  }
}

TEST(Traces, WhatWasMeasuredLiesBeneathWhatWasPlanned) {
  const Plan plan = timed_plan();
  std::vector<Timeline> measured = timelines_of(plan);
  for (std::size_t d = 0; d < measured.size(); ++d)  // each device comes later than the one before
    for (auto* times : {&measured[d].begins, &measured[d].ends})
      for (double& time : *times) time = 2 * time + 1e-6 * static_cast<double>(d);
  const std::string text = trace_of(plan, measured);
  expect_sound(text, plan, 2);
  for (const char* name : {"\"fake:0 planned\"", "\"fake:2 measured\"", "\"compute\"", "\"communication\""})
    EXPECT_NE(text.find(name), std::string::npos) << name;
}

// Each of two classes has the modules of its launches; gradients are summed over both.
TEST(ModuleGraphs, AreThePlanFolded) {
  Plan plan = timed_plan();
  for (DeviceProgram& d : plan.programs) {  // a step of the backward pass: what it reads is no edge
    Step back = d.steps[StepId{3}];
    back.inputs = {d.steps[StepId{4}].outputs[1]};
    d.steps.insert(d.steps.begin() + 5, back);
  }
  const ModuleGraph graph = module_graph(plan);
  std::vector<std::string> names;
  for (const ModuleGraph::Box& box : graph.boxes) names.push_back(concat(box.program.index, ' ', box.name, ' ', box.steps));
  EXPECT_EQ(names, (std::vector<std::string>{"0 Scale_node 2", "0 Gradient_node 1", "0 Update_node 1", "1 Scale_node 2",
                                             "1 Gradient_node 1", "1 Update_node 1"}));
  ASSERT_EQ(graph.edges.size(), 2U);  // the update reads what an exchange gives
  EXPECT_EQ(std::tuple(graph.edges[0].from, graph.edges[0].to, graph.edges[0].bytes), std::tuple(0U, 1U, 64));  // y
  ASSERT_EQ(graph.meetings.size(), 1U);
  EXPECT_EQ(text_of(graph.meetings[0]), "all_reduce: 12 B of gradients");
  EXPECT_EQ(graph.meetings[0].programs, (std::vector<ProgramId>{{0}, {1}}));
}

TEST(ModuleGraphs, OpenAsFarAsThereIsRoomAndJoinBeyond) {
  Plan plan = timed_plan({2});
  DeviceProgram& program = plan.programs[ProgramId{0}];
  const Step step = program.steps[StepId{3}];
  for (int layer = 0; layer < 6; ++layer)
    for (const char* part : {"q", "k"}) {
      program.steps.push_back(step);
      program.steps.back().origin = {concat("layers.", layer, ".", part)};
    }
  const auto names = [&](std::size_t most) {
    std::vector<std::string> list;
    for (const ModuleGraph::Box& box : module_graph(plan, most).boxes) list.push_back(box.name);
    return list;
  };
  EXPECT_EQ(names(4), (std::vector<std::string>{"Scale_node", "Gradient_node", "Update_node", "layers"}));
  EXPECT_EQ(names(9).size(), 9U);
  EXPECT_EQ(names(9).back(), "layers.5");
  EXPECT_EQ(names(15).back(), "layers.5.k");
  EXPECT_EQ(names(2), (std::vector<std::string>{"Scale_node .. Gradient_node", "Update_node .. layers"}));
}

TEST(Pictures, OfPlacementNameModulesDevicesAndWhatMoves) {
  Plan plan = timed_plan();
  plan.model = hostile;
  plan.programs[ProgramId{0}].steps[StepId{3}].origin = {std::string(hostile)};
  const std::string mermaid = mermaid_of(plan), svg = svg_of(plan);
  for (const char* part : {"flowchart TB\n", "subgraph p0[\"fake:0-1, 2 of 5 samples each\"]", "m0 -->|\"64 B\"| m1",
                           "x0{{\"all_reduce: 12 B of gradients\"}}", "p1 <--> x0", "in0 --> p0", "p0 --> out1"})
    EXPECT_NE(mermaid.find(part), std::string::npos) << part << " in " << mermaid;
  for (const char* part : {"fake:0-1  ×2", "Gradient_node", "64 B", "all_reduce: 12 B of gradients", "x float32[5,3], sliced by samples",
                           "y, rows joined", "</svg>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part << " in " << svg;
  for (const std::string& picture : {mermaid, svg}) {
    EXPECT_EQ(count(picture, "<b onload"), 0);
    EXPECT_EQ(count(picture, "</script>"), 0);
  }
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
}

TEST(Pictures, DotOfALargePlanIsThatOfItsModules) {
  Plan plan = timed_plan();
  EXPECT_NE(dot_of(plan).find("p0s3 ["), std::string::npos);
  DeviceProgram& program = plan.programs[ProgramId{0}];
  program.steps.resize(201, program.steps[StepId{3}]);
  const std::string dot = dot_of(plan);
  EXPECT_EQ(dot.find("p0s3 ["), std::string::npos);
  for (const char* part :
       {"compound=true", "subgraph cluster_p1 {\n  label=\"fake:2, 1 of 5 samples\"", "m0 [label=\"Scale_node\\n193 steps",
        "m0 -> m1 [label=\"64 B\"]", "x0 -> m0 [style=bold lhead=cluster_p0 dir=both"})
    EXPECT_NE(dot.find(part), std::string::npos) << part << " in " << dot;
}

// The option that is offered first, and the number it comes from.
struct Tip {
  std::string_view name;
  std::function<void(Plan&)> change;
  std::string option;
  double seconds = 0;
  std::int64_t bytes = 0;
};
TEST(Advice, IsWhatThePlansNumbersGive) {
  const auto launches = [](Plan& plan) {  // each takes 10 µs, of which 4 are for the launch
    for (DeviceProgram& d : plan.programs) {
      d.model.launch_seconds = 4e-6;
      d.model.memory = 1 << 20;
      for (Step& s : d.steps) s.seconds = s.as<LaunchStep>() ? 1e-5 : 0;
    }
  };
  const Tip tips[] = {
      {"launches and the update do not grow", launches, "option batch 4", (3 * 4e-6 + 6e-6) / 2},
      {"no room for a larger batch",
       [&](Plan& plan) {
         launches(plan);
         for (DeviceProgram& d : plan.programs) d.model.memory = d.peak_bytes();
       },
       ""},
      {"activations at the peak",
       [](Plan& plan) {
         for (DeviceProgram& d : plan.programs) {
           d.model.memory = 1;
           d.memory = {{MemoryClass::activations, 200}};
         }
       },
       "option memory_budget 50%", 0, 100},
  };
  for (const Tip& tip : tips) {
    Plan plan = linear_plan({2});
    tip.change(plan);
    const std::vector<Advice> list = advice_for(plan, timed(plan));
    if (tip.option.empty()) {
      EXPECT_TRUE(list.empty()) << tip.name << ": " << list[0].option;
      continue;
    }
    ASSERT_FALSE(list.empty()) << tip.name;
    EXPECT_EQ(list[0].option, tip.option) << tip.name;
    EXPECT_NEAR(list[0].saves_seconds, tip.seconds, 1e-12) << tip.name;
    EXPECT_EQ(list[0].saves_bytes, tip.bytes) << tip.name;
  }
}

TEST(Roots, OfBuffersAreFoundThroughChainsAndCircles) {
  DeviceProgram program;
  constexpr int n = 100'000;  // a chain, each an alias of the one after it
  for (int b = 0; b < n; ++b) program.buffers.add({.alias = {b + 1 < n ? b + 1 : -1}});
  program.buffers.add({.alias = {n + 1}});  // a circle of two
  program.buffers.add({.alias = {n}});
  const auto roots = roots_of(program);
  EXPECT_EQ(roots[BufferId{0}].index, n - 1);
  EXPECT_EQ(roots[BufferId{n / 2}].index, n - 1);
  EXPECT_EQ(roots[BufferId{n}], roots[BufferId{n + 1}]);
}

}  // namespace
}  // namespace tandem::test
