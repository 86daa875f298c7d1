// What people and programs read of a plan.
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/units.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/timeline.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

Plan timed_plan() {
  Plan plan = linear_plan({2, 2, 1});
  plan.seconds = 0.0005;
  plan.exchanges[0].seconds = 1.5e-6;
  plan.exchanges[0].devices = {0, 1, 2};
  share_programs(plan);
  plan.warnings = {"device fake:2 has one row"};
  for (DeviceProgram& d : plan.programs) {
    d.steps[3].flops = 12345;
    d.steps[3].seconds = 2e-6;
    d.steps[3].measured = true;
    d.memory = {{MemoryClass::weights, 64}, {MemoryClass::activations, 320}};
  }
  return plan;
}

TEST(PlanText, Summary) {
  EXPECT_EQ(text_of_plan(timed_plan(), false), R"(Training plan of linear

Warnings
  device fake:2 has one row

  parameters      3 (3 trainable)
  batch           5 over 3 devices
  inputs          x float32[5,3]
  loss            sum
  optimizer       sgd
  precision       fp32
  estimated step  500 µs, 10,000 samples/s
  process         24.3 MiB of the host's memory: batches 432 B, a checkpoint's copy 24 B, plan and
                  kernels 24.3 MiB

Devices
  device    model            rows  of the batch  steps        work  estimate  peak memory
  fake:0-1  a fake device  2 each           0-3      9  12.3 kFLOP   2.00 µs        448 B
  fake:2    a fake device       1             4      9  12.3 kFLOP   2.00 µs        448 B

Memory
  fake:0-2, each
    live at the peak  bytes
    weights            64 B
    activations       320 B

    arena       bytes  lower bound
    parameters   64 B          0 B
    gradients    64 B          0 B
    scratch     320 B          0 B
    peak        448 B          0 B

Exchanges
  name         kind        among  values  type     bytes  estimate  gradients of
  gradients 0  all_reduce  all         3  float32   12 B   1.50 µs  w
)");
}

// The communication that nothing hides counts, and every format says the same.
TEST(PlanText, OneTimeOfAStep) {
  Plan plan = timed_plan();
  for (DeviceProgram& d : plan.programs)
    for (Step& s : d.steps)
      if (s.as<ExchangeStep>()) s.seconds = 3e-6;
  EXPECT_DOUBLE_EQ(timelines_of(plan)[0].seconds, 5e-6);
  plan.seconds = timelines_of(plan)[0].seconds;
  const std::string text = text_of_plan(plan, false), json = json_of(plan);
  EXPECT_NE(text.find("estimated step  5.00 µs"), std::string::npos) << text;
  EXPECT_NE(text.find("   5.00 µs        448 B"), std::string::npos) << text;
  const Json parsed = Json::parse(json);
  for (const Json& line : parsed.at("timelines").array()) EXPECT_DOUBLE_EQ(line.at("seconds").number(), 5e-6);
}

// A device that waits for another ends later than its own steps take.
TEST(PlanText, ExchangesBeginWhenAllMembersHaveCome) {
  Plan plan = linear_plan({2, 1});
  for (DeviceProgram& d : plan.programs) d.steps[StepId{5}].seconds = 3;
  plan.program_of(0).steps[StepId{4}].seconds = 10;
  plan.program_of(1).steps[StepId{4}].seconds = 1;
  plan.program_of(1).steps[StepId{6}].seconds = 4;  // goes on beside the sum
  plan.program_of(1).steps[StepId{8}].seconds = 2;
  const std::vector<Timeline> lines = timelines_of(plan);
  for (const Timeline& t : lines) {
    EXPECT_DOUBLE_EQ(t.begins[StepId{5}], 10);
    EXPECT_DOUBLE_EQ(t.ends[StepId{5}], 13);
  }
  EXPECT_DOUBLE_EQ(lines[0].seconds, 13);
  EXPECT_DOUBLE_EQ(lines[1].ends[StepId{6}], 5);
  EXPECT_DOUBLE_EQ(lines[1].begins[StepId{8}], 13);
  EXPECT_DOUBLE_EQ(lines[1].seconds, 15);
}

struct Named {
  std::vector<DeviceId> devices;
  std::string want;
};

TEST(PlanText, DevicesThatAreAlikeAreOneRow) {
  std::vector<DeviceId> many;
  for (int d = 0; d < 64; ++d) many.push_back({"cpu", d});
  for (const Named& row : {Named{many, "\n  cpu:0-63  "},
                           {{{"cpu", 0}, {"cpu", 1}, {"cpu", 3}}, "\n  cpu:0-1, cpu:3  "},
                           {{{"cuda", 0}, {"cuda", 0}, {"cuda", 1}}, "\n  cuda:0*2, cuda:1  "}}) {
    Plan plan = linear_plan(std::vector<std::int64_t>(row.devices.size(), 1));
    share_programs(plan);
    for (std::size_t d = 0; d < row.devices.size(); ++d) plan.devices[d].device = row.devices[d];
    const std::string text = text_of_plan(plan, false);
    const auto table = text.substr(text.find("Devices\n"), text.find("Memory\n") - text.find("Devices\n"));
    EXPECT_NE(table.find(row.want), std::string::npos) << table;
    EXPECT_LE(std::count(table.begin(), table.end(), '\n'), 5) << table;
  }
}

TEST(PlanText, StepsOfEqualDevicesAreShownOnce) {
  const std::string text = text_of_plan(timed_plan(), true);
  EXPECT_NE(text.find("Steps of fake:0-1 (the same)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Steps of fake:2\n"), std::string::npos);
  EXPECT_NE(
      text.find(
          "  3  Scale_node     Scale       fake.Scale      12.3 k  2.00 µs *\n"),
      std::string::npos)
      << text;
  for (const char* line : {"  5                 all_reduce  gradients 0\n", "Operands of fake:0-1\n",
                           "  3  [2,3]:ab [3]:a   [2,3]:ab   64 B\n", "Places of fake:0-1\n", "  3  scratch        192       0\n",
                           "  5  gradients        0       1  4\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " in " << text;
}

// Where the planner has said so: a column that is not there else.
TEST(PlanText, PlacementIsAColumn) {
  Plan plan = timed_plan();
  EXPECT_EQ(text_of_plan(plan, true).find("placement"), std::string::npos);
  for (DeviceProgram& d : plan.programs) d.buffers[BufferId{5}].placement = "split(0)";
  const std::string text = text_of_plan(plan, true);
  EXPECT_NE(text.find("output    placement  bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("[2,3]:ab  split(0)    64 B"), std::string::npos) << text;
  EXPECT_NE(json_of(plan).find(R"x("placement":"split(0)")x"), std::string::npos);
}

// The ten dearest; programs get all.
TEST(PlanText, TransfersAreListed) {
  Plan plan = timed_plan();
  EXPECT_EQ(text_of_plan(plan, false).find("Transfers"), std::string::npos);
  for (int i = 12; i > 0; --i)
    plan.transfers.push_back({ExchangeKind::all_gather, concat("w", i), 1024 * i, "data", "Scale_node", "it is read whole"});
  const std::string text = text_of_plan(plan, false), json = json_of(plan);
  EXPECT_NE(text.find("\nTransfers\n  value  kind        along     bytes  for         reason\n  w12    all_gather  data   12.0 KiB  "
                      "Scale_node  it is read whole\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  w3 "), std::string::npos);
  EXPECT_EQ(text.find("  w2 "), std::string::npos);
  EXPECT_NE(text.find("and 2 more"), std::string::npos);
  EXPECT_NE(json.find(R"({"kind":"all_gather","value":"w1","bytes":1024,"axis":"data","node":"Scale_node","reason":"it is read whole"})"),
            std::string::npos)
      << json;
}

TEST(PlanText, JsonHoldsEveryPart) {
  Plan plan = timed_plan();
  plan.model = "a \"name\"\n\x01 with \xc3\xa9 and \xff";
  const std::string json = json_of(plan);
  for (const char* part :
       {R"("model":"a \"name\"\n\u0001 with é and \\xff")", R"("batch":5)", R"("peak_bytes":448)", R"("device":"fake:2")",
        R"("name":"tandem.scalars")", R"("exchanges":[{"name":"gradients 0","kind":"all_reduce","devices":[0,1,2],"rows":1)",
        R"("parts":[{"program":0,"operand")", R"("programs":[{"devices":["fake:0","fake:1"])",
        R"({"device":"fake:1","program":0,"weight":1,"slice_begin":2,"slice_size":2)", R"("kind":"slice","host":0,"inputs")", R"("kind":"all_reduce","exchange":0)", R"("hash":")",
        R"("waits":[4])", R"("kernel":"fake.Scale")", R"("memory":{"weights":64,"activations":320})",
        R"("warnings":["device fake:2 has one row"])"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
  EXPECT_EQ(json.find(",}"), std::string::npos);
  EXPECT_EQ(json.find(",,"), std::string::npos);
}

TEST(PlanText, DotHasAllDevicesAndWhatPassesBetweenThem) {
  const std::string dot = dot_of(timed_plan());
  for (const char* part :
       {"digraph \"linear\" {", "subgraph cluster_p0 {\n  label=\"fake:0-1, 2 of 5 samples each\"", "p0s0 [label=\"slice x\"", "p0s0 -> p0s3 [label=\"[2,3]\"]", "p0s3 -> p0s4",
        "p0s4 -> p0s5 [style=dashed", "subgraph cluster_p1 {\n  label=\"fake:2, 1 of 5 samples\"", "p1s0 -> p1s3 [label=\"[1,3]\"]",
        "x0 [shape=ellipse", "p0s5 -> x0 [style=bold", "p1s5 -> x0 [style=bold", "}\n"})
    EXPECT_NE(dot.find(part), std::string::npos) << part << " in " << dot;
}

// Whatever is long: names of devices, of kernels, of nodes, warnings.
TEST(PlanText, NoLineIsLongerThanAHundredColumns) {
  Plan plan = linear_plan(std::vector<std::int64_t>(40, 1));
  const auto some = [](std::size_t letters) { return std::string(letters, 'x'); };
  plan.warnings = {concat("stages wait for one another: ", some(10), std::string(60, ' '), "and more of it ", some(90))};
  plan.recompute = concat("12 of 96 activations are computed again, ", some(50), ", which takes 3% of the step and saves half of it");
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    plan.devices[d].device = {concat("a_long_name_of_a_device_", d % 3), static_cast<int>(d)};
    DeviceProgram& program = plan.program_of(d);
    program.model.name = "a processor with a long name, and its cores";
    for (Step& s : program.steps) {
      s.seconds = 1.5e-3;
      s.flops = 1e9;
      s.origin = {"/encoder/layer/encoder.layer.11/attention/self/query/MatMul_quantized"};
      if (auto* launch = s.as<LaunchStep>()) launch->kernel = "a_library.convolution.implicit_gemm.channels_last.eng47";
      s.waits = {{1}, {2}, {3}, {4}, {5}};
    }
  }
  for (Exchange& e : plan.exchanges) e.name = e.values[0] = some(80);
  plan.transfers = {{ExchangeKind::all_gather, some(60), 1024, "data", some(60), some(90)}};
  std::size_t begin = 0, widest = 0;
  std::string longest;
  const std::string text = text_of_plan(plan, true);
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const auto columns = static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
    if (columns > widest) longest = line;
    widest = std::max(widest, columns);
  }
  EXPECT_LE(widest, 100U) << longest;
}

struct Unit {
  std::string got, want;
};
TEST(Units, AreReadable) {
  for (const Unit& u :
       {Unit{text_of_bytes(0), "0 B"}, Unit{text_of_bytes(1023), "1023 B"}, Unit{text_of_bytes(1024), "1.00 KiB"},
        Unit{text_of_bytes(123456789), "118 MiB"}, Unit{text_of_bytes(std::int64_t{5} << 40), "5.00 TiB"}, Unit{text_of_seconds(0), "0 ns"},
        Unit{text_of_seconds(1.234e-5), "12.3 µs"}, Unit{text_of_seconds(0.09996), "100.0 ms"}, Unit{text_of_seconds(75), "75.0 s"},
        Unit{text_of_count(999), "999"}, Unit{text_of_count(1650000), "1.65 M"}, Unit{text_of_rate(1234567.8), "1,234,568"},
        Unit{text_of_integer(-1234), "-1,234"}, Unit{text_of_integer(-123), "-123"}, Unit{text_of_rate(3.14159), "3.14"},
        Unit{text_of_rate(999), "999"}, Unit{shorten("short", 10), "short"},
        Unit{shorten("a/very/long/name/of/a/node", 12), "a/ver../node"}, Unit{shorten("two\nlines", 20), "two\\x0alines"}})
    EXPECT_EQ(u.got, u.want);
}

}  // namespace
}  // namespace tandem::test
