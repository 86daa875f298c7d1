// What users write: specs, devices, schedules; and what they look at: curves.
#include <cmath>

#include "base/spec.h"
#include "kernels/cpu/backend.h"
#include "tests/runtime/fake_backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/devices.h"
#include "trainer/records/curves.h"
#include "trainer/schedule.h"

namespace tandem {
namespace {

TEST(Spec, SplitsNameArgumentAndOptions) {
  const Spec spec = parse_spec("idx:/data/a,b/c,train=5,seed=7");
  EXPECT_EQ(spec.name, "idx");
  EXPECT_EQ(spec.argument, "/data/a,b/c");
  EXPECT_EQ(spec.integer("train", 0), 5);
  EXPECT_EQ(spec.number("seed", 0), 7);
  EXPECT_EQ(spec.text("other", "absent"), "absent");
  expect_error(ExitCode::usage, "expected KEY=VALUE in place of 'x'", [] { parse_spec("a,k=1,x"); });
}

TEST(Spec, ValuesMayBeListsWhereTheyAreAskedFor) {
  const Spec spec = parse_spec("csv:a,b.csv,x=p,q r,in.put:0=s,y=t,u", true);
  EXPECT_EQ(spec.argument, "a,b.csv");
  EXPECT_EQ(spec.text("x", ""), "p,q r");
  EXPECT_EQ(spec.text("in.put:0", ""), "s");
  EXPECT_EQ(spec.text("y", ""), "t,u");
}

struct DeviceRow {
  const char* text;
  const char* weights;
  const char* wanted;
};
void PrintTo(const DeviceRow& row, std::ostream* out) {
  *out << row.text;
}
class Devices : public testing::TestWithParam<DeviceRow> {};
TEST_P(Devices, AreListed) {
  EXPECT_EQ(to_string(parse_devices(GetParam().text, GetParam().weights)), GetParam().wanted);
}
INSTANTIATE_TEST_SUITE_P(Rows, Devices,
                         testing::Values(DeviceRow{"cpu", "", "cpu:0"}, DeviceRow{"cpu:0-3", "", "cpu:0, cpu:1, cpu:2, cpu:3"},
                                         DeviceRow{"cuda:0*3", "1,2,3", "cuda:0, cuda:0, cuda:0"}, DeviceRow{"/GPU:1", "", "cuda:1"},
                                         DeviceRow{"/device:CPU:0", "", "cpu:0"}, DeviceRow{"/job:worker/replica:0/task:0/device:GPU:2", "", "cuda:2"},
                                         DeviceRow{"/job:worker/task:0/device:GPU:0,/job:worker/task:1/device:GPU:0", "", "cuda:0, cuda:0"}, DeviceRow{"/cpu:1", "", "cpu:1"},
                                         DeviceRow{"cpu:2,cuda:0-1", "", "cpu:2, cuda:0, cuda:1"}));

TEST(Devices, MistakesAreNamed) {
  for (const char* bad : {"/job:worker", "/task:0", "/task:x/cpu:0", "/task:1/cpu:0,/task:0/cpu:0", "/task:0/cpu:0-1,/task:1/cpu:0",
                          "/task:-1/cpu:0", "", "cpu:", "cpu:3-1", "cpu:-1", "cpu:0*0", "c p u:0", ":0", "cpu:0-99999", "cpu:x"})
    expect_error(ExitCode::usage, "", [&] { parse_devices(bad); });
  expect_error(ExitCode::usage, "slice weights '1,2' are 2 numbers for 3 devices", [] { parse_devices("cpu:0-2", "1,2"); });
  EXPECT_EQ(parse_devices("cpu:0-1", "3,0.5")[1].weight, 0.5);
  expect_error(ExitCode::usage, "device 'cpu:0*2': several devices on a CPU are shares of its cores, expected cpu:0-1",
               [] { parse_devices("cpu:0*2"); });
}
TEST(Devices, AreNotOneProcesssTwice) {
  const std::pair<const char*, const char*> rows[] = {
      {"cpu:0,cpu:0", "devices cpu:0, cpu:0: cpu:0 is there twice, expected each device once"},
      {"cpu:0-3,cpu:2", "cpu:2 is there twice"},
      {"cpu,/device:CPU:0", "cpu:0 is there twice"},
      {"cuda:0,cuda:0", "cuda:0 is there twice, expected each device once; several logical devices on one are cuda:0*2"},
      {"cuda:0*2,cuda:1,cuda:0", "cuda:0 is there twice"},
  };
  for (const auto& [devices, message] : rows)
    expect_error(ExitCode::usage, message, [&] { own_devices(parse_devices(devices), nullptr); });
  EXPECT_EQ(own_devices(parse_devices("cuda:0*2,cuda:1*2"), nullptr).size(), 4U);
}

TEST(Devices, OfSeveralGpusAreOnesOfAProcessEach) {
  const std::pair<const char*, int> rows[] = {{"cpu:0-3", 1},  {"cuda:0", 1},       {"cuda:0-7", 8},           {"cuda:1,cuda:3", 2},
                                              {"cuda:0*4", 1}, {"cuda:0,cpu:0", 1}, {"cuda:0*2,cuda:1*2", 1}, {"cpu:0,cuda:0-1", 1}};
  for (const auto& [devices, processes] : rows) EXPECT_EQ(usual_processes(parse_devices(devices)), processes) << devices;
}

// Devices that are left open, by how many GPUs there are. `message`: the reason of the choice, or what an error says.
struct ChoiceRow {
  const char* asked;
  int processes, gpus;
  const char *list, *message;  // list empty: an error
  std::vector<std::string> named = {};
};
void PrintTo(const ChoiceRow& row, std::ostream* out) { *out << '\'' << row.asked << "' of " << row.processes << " on " << row.gpus; }
class ChosenDevices : public testing::TestWithParam<ChoiceRow> {};
TEST_P(ChosenDevices, AreThoseThatAreHere) {
  const ChoiceRow& row = GetParam();
  test::FakeBackend fake;
  fake.devices = row.gpus;
  if (row.gpus < 0) fake.reason = "no driver";
  const Backend* const backends[] = {&cpu_backend(), &fake};
  const auto choose = [&] { return chosen_devices(row.asked, row.processes, [&] { return gpus_of(backends); }, row.named); };
  if (std::string_view(row.list).empty()) {
    expect_error(ExitCode::usage, row.message, choose);
    return;
  }
  const DeviceChoice choice = choose();
  EXPECT_EQ(choice.list, row.list);
  EXPECT_EQ(choice.why, row.message);
  EXPECT_GT(parse_devices(choice.list).size(), 0U);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, ChosenDevices,
    testing::Values(ChoiceRow{"", 1, 0, "cpu:0", "no GPU is here"}, ChoiceRow{"", 1, -1, "cpu:0", "no GPU can be used: no driver"}, ChoiceRow{"", 1, 1, "fake:0", "the GPU that is here"},
                    ChoiceRow{"", 1, 8, "fake:0-7", "all GPUs that are here"}, ChoiceRow{"all", 1, 4, "fake:0-3", "all GPUs that are here"}, ChoiceRow{"all", 1, 0, "cpu:0", "no GPU is here"},
                    ChoiceRow{"1", 1, 4, "fake:0", "the first of 4 GPUs here"}, ChoiceRow{"4", 1, 4, "fake:0-3", "the first of 4 GPUs here"}, ChoiceRow{"4", 1, 0, "cpu:0-3", "no GPU is here"},
                    ChoiceRow{"4", 1, 2, "", "option devices 4: 2 GPUs are here; that many on the CPU are cpu:0-3"}, ChoiceRow{"0", 1, 2, "", "expected 1 to 1024"}, ChoiceRow{"99999", 1, 0, "", "expected 1 to 1024"},
                    ChoiceRow{"", 4, 0, "cpu:0-3", "no GPU is here; one device a process"}, ChoiceRow{"", 4, 8, "fake:0-7", "all GPUs that are here"}, ChoiceRow{"", 3, 8, "fake:0-5", "as many of 8 GPUs for each of 3 processes"},
                    ChoiceRow{"", 4, 2, "", "2 GPUs for 4 processes"}, ChoiceRow{"cpu", 4, 8, "cpu:0-3", "one for each of 4 processes"}, ChoiceRow{"cpu", 1, 8, "cpu", ""}, ChoiceRow{"gpu", 2, 0, "cuda:0-1", "one for each of 2 processes"},
                    ChoiceRow{"cuda:0-1", 4, 8, "cuda:0-1", ""}, ChoiceRow{"2", 2, 2, "fake:0-1", "the first of 2 GPUs here"},
                    ChoiceRow{"", 1, 0, "cpu:0,cpu:1", "the CPU and the devices that option place names", {"cpu:1"}}, ChoiceRow{"", 1, 2, "fake:0,cpu:0,fake:1", "the first GPU and the devices that option place names", {"cpu:0", "fake:0-1"}},
                    ChoiceRow{"", 1, 0, "cpu:0,cpu:2,cpu:3", "the CPU and the devices that option place names", {"cpu:2-3,cpu:0"}}));

TEST(RulesOfPlaces, AreRead) {
  const std::vector<DeviceSpec> two = parse_devices("cpu:0-1"), twice = parse_devices("cuda:0-1,cuda:0-1");
  const auto rules = parse_place(" encoder.layer.[0-5].*=cpu:0;fc*=/CPU:1; ", two);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].pattern, "encoder.layer.[0-5].*");
  EXPECT_EQ(rules[0].devices, std::vector<int>{0});
  EXPECT_EQ(rules[1].devices, std::vector<int>{1});
  EXPECT_EQ(parse_place("a=b=cpu:0-1", two)[0].pattern, "a=b");
  EXPECT_EQ(parse_place("x=/job:worker/replica:0/task:1/device:GPU:1", twice, 2)[0].devices, std::vector<int>{3});
  EXPECT_TRUE(parse_place("", two).empty());
  expect_error(ExitCode::usage, "'fc', expected NAME=DEVICE", [&] { parse_place("fc", two); });
  expect_error(ExitCode::usage, "has no cpu:2: it lists cpu:0, cpu:1", [&] { parse_place("fc=cpu:2", two); });
  expect_error(ExitCode::usage, "2 ranks have a cuda:0: expected which, such as /task:0/device:cuda:0",
               [&] { parse_place("fc=cuda:0", twice, 2); });
  expect_error(ExitCode::usage, "has no /task:2/cuda:0", [&] { parse_place("fc=/task:2/cuda:0", twice, 2); });
  expect_error(ExitCode::usage, "a device is there twice", [&] { parse_place("fc=cpu:0,cpu:0", two); });
}

struct RateRow {
  const char* schedule;
  std::int64_t step;
  double rate;  // of base 1 in a run of 100 steps, 10 an epoch
};
void PrintTo(const RateRow& row, std::ostream* out) {
  *out << row.schedule << " at " << row.step;
}
class Rates : public testing::TestWithParam<RateRow> {};
TEST_P(Rates, AreAsTheFormulaSays) {
  EXPECT_NEAR(learning_rate(parse_schedule(GetParam().schedule), 1, GetParam().step, 100, 10), GetParam().rate, 1e-12);
}
INSTANTIATE_TEST_SUITE_P(Rows, Rates,
                         testing::Values(RateRow{"constant", 99, 1}, RateRow{"step,every=3", 29, 1}, RateRow{"step,every=3", 30, 0.1},
                                         RateRow{"step,every=3,factor=0.5", 60, 0.25}, RateRow{"cosine", 0, 1}, RateRow{"cosine", 99, 0},
                                         RateRow{"cosine,final=0.2", 99, 0.2}, RateRow{"constant,warmup=1", 0, 1.0 / 11},
                                         RateRow{"constant,warmup=1", 9, 10.0 / 11}, RateRow{"constant,warmup=1", 10, 1},
                                         RateRow{"cosine,warmup=1", 10, 1}, RateRow{"cosine,warmup=1", 99, 0},
                                         RateRow{"step,every=1,warmup=2", 29, 1}, RateRow{"step,every=1,warmup=2", 30, 0.1}));

TEST(Rates, MistakesAreNamed) {
  expect_error(ExitCode::usage, "did you mean 'cosine'?", [] { parse_schedule("cosin"); });
  expect_error(ExitCode::usage, "has no option 'every'", [] { parse_schedule("cosine,every=3"); });
  expect_error(ExitCode::usage, "must be positive", [] { parse_schedule("step,every=0"); });
}

TEST(Curves, TicksAreRound) {
  EXPECT_EQ(ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  EXPECT_EQ(ticks(-3, 12, 4), (std::vector<double>{0, 5, 10}));
  EXPECT_EQ(ticks(0.93, 0.99, 3).size(), 3u);
}

TEST(Curves, DrawEverySeriesAndLeaveGaps) {
  const std::string svg =
      svg_of(std::vector<Panel>{{"Loss <1>", "epoch", {{.name = "a&b", .points = {{0, 1}, {1, NAN}, {2, 3}, {3, 2}}, .marks = true}}},
                                {"Empty", "epoch", {{.name = "none"}}},
                                {"Flat", "epoch", {{.name = "one", .points = {{1, 5}}}}}});
  EXPECT_NE(svg.find("Loss &lt;1&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 4u) << "three marks, and a point that no line would show";
}

// The labels of the y axis, which end where they stand.
std::vector<std::string> labels_beside(const std::vector<double>& values) {
  Series line{.name = {}, .points = {}};
  for (const double v : values) line.points.emplace_back(static_cast<double>(line.points.size()), v);
  const std::string svg = svg_of(std::vector<Panel>{{"Rate", "epoch", {line}}}), mark = "text-anchor=\"end\">";
  std::vector<std::string> labels;
  for (std::size_t at = 0; (at = svg.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    labels.push_back(svg.substr(at, svg.find('<', at) - at));
  }
  return labels;
}

TEST(Curves, AxesFitWhatTheyShow) {
  EXPECT_EQ(labels_beside({0.01, 0.01}), (std::vector<std::string>{"0", "0.005", "0.01", "0.015", "0.02"}));
  EXPECT_EQ(labels_beside({-2, -2}), (std::vector<std::string>{"-4", "-3", "-2", "-1", "0"}));
  EXPECT_EQ(labels_beside({0, 0}), (std::vector<std::string>{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  for (const std::vector<double>& values : {std::vector{2.30258, 2.30258 + 1e-7}, {1e6, 1e6 + 1e-3}, {1e-7, 2e-7}}) {
    const std::vector<std::string> labels = labels_beside(values);
    EXPECT_GE(labels.size(), 3u);
    EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), labels.size()) << testing::PrintToString(labels);
  }
}

}  // namespace
}  // namespace tandem
