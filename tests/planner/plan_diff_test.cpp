// What is told of two plans that differ, and of two that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/json.h"
#include "planner/plan/diff.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

// "changed Scale_node kernel fake.Scale > other", "added w2 bytes  > 12": one line a row.
std::string line_of(const DiffRow& r) {
  const auto text = [](const Json& v) {
    return v.is_null() ? std::string() : std::holds_alternative<std::string>(v.value()) ? v.text() : v.dump();
  };
  const char* const changes[] = {"changed", "removed", "added"};
  return concat(changes[static_cast<int>(r.change)], ' ', r.name, ' ', r.what, ' ', text(r.before), " > ", text(r.after));
}

std::vector<std::string> lines_of(const PlanDiff& diff) {
  std::vector<std::string> lines;
  for (const DiffTable& t : diff.tables)
    for (const DiffRow& r : t.rows) lines.push_back(line_of(r));
  return lines;
}

struct Row {
  const char* name;
  std::function<void(Plan&)> change;
  std::vector<std::string> wanted;  // empty: the plans are equal
};
DeviceProgram& first(Plan& plan) { return plan.programs[ProgramId{0}]; }

class PlanDiffs : public testing::TestWithParam<Row> {};
TEST_P(PlanDiffs, AreTold) {
  const Plan before = linear_plan({2, 1});
  Plan after = before;
  GetParam().change(after);
  const PlanDiff diff = diff_of(before, after);
  EXPECT_EQ(diff.equal, GetParam().wanted.empty());
  const std::vector<std::string> lines = lines_of(diff);
  EXPECT_EQ(lines.empty(), diff.equal);
  for (const std::string& wanted : GetParam().wanted)
    EXPECT_NE(std::ranges::find(lines, wanted), lines.end()) << "no '" << wanted << "' in " << Json(lines).dump(1);
  const NamedPlan a{"TMP/a.plan", before}, b{"TMP/b.plan", after};
  const std::string text = find_diff_format("text")->write(a, b, diff);
  std::size_t width = 0, column = 0;
  for (const char c : text) {
    if (c == '\n') column = 0;
    else if ((c & 0xC0) != 0x80) width = std::max(width, ++column);
  }
  EXPECT_LE(width, 100U) << text;
  EXPECT_EQ(std::ranges::count(text, '\n') == 1, diff.equal) << text;
  const Json json = Json::parse(find_diff_format("json")->write(a, b, diff));
  EXPECT_EQ(json.at("equal").boolean(), diff.equal);
  EXPECT_EQ(json.at("before").at("name").text(), "TMP/a.plan");
}
INSTANTIATE_TEST_SUITE_P(
    Rows, PlanDiffs,
    testing::Values(
        Row{"nothing", [](Plan&) {}, {}},
        Row{"times", [](Plan& p) {
              p.seconds = 1;
              p.exchanges[0].seconds = 2;
              first(p).steps[3].seconds = 3;
              first(p).steps[3].measured = true;
            },
            {}},
        Row{"how_it_was_made", [](Plan& p) {
              p.record.options = R"({"devices": "cpu:0"})";
              p.made_from = 7;
              p.warnings = {"look"};
            },
            {}},
        Row{"a_kernel", [](Plan& p) { first(p).steps[3].as<LaunchStep>()->kernel = "fake.other"; },
            {"changed Scale_node kernel fake.Scale > fake.other"}},
        Row{"an_attribute", [](Plan& p) { first(p).steps[3].as<LaunchStep>()->attributes.set("activation", std::string("Relu")); },
            {"changed Scale_node activation  > Relu"}},
        Row{"a_layout", [](Plan& p) { first(p).buffers[5].operand.layout = Layout("ba"); },
            {"changed Scale_node output layout ab > ba"}},
        Row{"a_step_less", [](Plan& p) { first(p).steps.pop_back(); }, {"removed Update_node kernel fake.Update > ", "changed fake:0 steps 9 > 8"}},
        Row{"a_step_more", [](Plan& p) {
              Step step = first(p).steps[3];
              step.what = LaunchStep{"Twice", "fake.Twice", {}};
              first(p).steps.push_back(step);
            },
            {"added Scale_node kernel  > fake.Twice"}},
        Row{"an_order", [](Plan& p) { std::swap(first(p).steps[6], first(p).steps[7]); }, {"changed  steps in another order  > 1"}},
        Row{"an_offset", [](Plan& p) { first(p).buffers[5].offset += 64; }, {"changed  steps with other offsets  > 3"}},
        Row{"a_wait", [](Plan& p) { first(p).steps[8].waits = {StepId{4}}; }, {"changed  steps that wait for others  > 1"}},
        Row{"an_arena", [](Plan& p) { first(p).arenas[3].bytes += 640; },
            {"changed fake:0 arena scratch 320 > 960", "changed fake:0 peak memory 448 > 1088"}},
        Row{"rows", [](Plan& p) { p.devices[1].slice_begin = 3, p.devices[1].slice_size = 0; }, {"changed fake:1 rows 1 > 0"}},
        Row{"a_device_more", [](Plan& p) {
              p.devices.push_back({{"fake", 2}, ProgramId{1}});
              p.exchanges[0].devices = {0, 1, 2};
            },
            {"added fake:2 peak memory  > 448", "changed gradients 0 of w among fake:0-1 > fake:0-2"}},
        Row{"another_kind_of_device", [](Plan& p) { p.devices[0].device = {"cuda", 0}; },
            {"changed fake:0 / cuda:0 devices fake:0 > cuda:0"}},
        Row{"an_exchange", [](Plan& p) { p.exchanges[0].elements = 6; }, {"changed gradients 0 of w bytes 12 > 24"}},
        Row{"a_transfer", [](Plan& p) { p.transfers = {{ExchangeKind::all_gather, "y", 12, "tensor", "Scale_node", "it wants all"}}; },
            {"added y for Scale_node bytes  > 12"}},
        Row{"what_is_trained", [](Plan& p) { p.parameters[0].trainable = false; }, {"changed w trained yes > no"}},
        Row{"a_parameters_offset", [](Plan& p) { p.parameters[0].parts[0].offset = 64; },
            {"changed  parameters with other offsets  > 1"}},
        Row{"a_parameter_in_parts", [](Plan& p) {
              p.cuts = {{{0, 0}}};
              p.parameters[0].parts[0].ranges = {{.axis = 0, .size = 3}};
            },
            {"changed w form [3]:a > [3]:a, [3]:a split(0)"}},
        Row{"a_parameter_on_one_device", [](Plan& p) { p.parameters[0].parts.pop_back(); }, {"changed w on all devices > fake:0"}},
        Row{"the_batch", [](Plan& p) { p.batch = 6; }, {"changed  batch 3 > 6"}}),
    [](const auto& row) { return std::string(row.param.name); });

// Whatever is changed in a plan that is no time: somebody is told.
TEST(PlanDiffs, NoDifferenceIsWithoutARow) {
  const Plan before = linear_plan({2, 1});
  for (const std::function<void(Plan&)>& change : std::vector<std::function<void(Plan&)>>{
           [](Plan& p) { p.cuts = {{{0, 1}}}; },
           [](Plan& p) { p.inputs[0].batched = false; },
           [](Plan& p) { p.devices[0].weight = 2; },
           [](Plan& p) { first(p).buffers[5].first = {2}; },
           [](Plan& p) { first(p).arenas[3].lower_bound = 1; }}) {
    Plan after = before;
    change(after);
    const PlanDiff diff = diff_of(before, after);
    EXPECT_FALSE(diff.equal);
    EXPECT_FALSE(lines_of(diff).empty());
  }
}

TEST(PlanDiffs, ThePageHasBothPlansAndTheTables) {
  const Plan before = linear_plan({2, 1});
  Plan after = before;
  after.model = "</script><b>";
  const std::string page = find_diff_format("html")->write({"a.plan", before}, {"b.plan", after}, diff_of(before, after));
  for (const char* part : {"id=\"plan\">", "id=\"other\">", "id=\"diff\">", "<title>Plans a.plan and b.plan</title>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
