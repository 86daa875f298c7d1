// What users write: specs, devices, schedules; and what they look at: curves.
#include <cmath>

#include "base/spec.h"
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
                                         DeviceRow{"/device:CPU:0", "", "cpu:0"},
                                         DeviceRow{"cpu:2,cuda:0-1", "", "cpu:2, cuda:0, cuda:1"}));

TEST(Devices, MistakesAreNamed) {
  for (const char* bad : {"", "cpu:", "cpu:3-1", "cpu:-1", "cpu:0*0", "c p u:0", ":0", "cpu:0-99999", "cpu:x"})
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

}  // namespace
}  // namespace tandem
