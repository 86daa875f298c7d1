// Rates fitted to kernels' times, and what plans without timed kernels make of them.
#include "planner/lower/calibration.h"

#include <filesystem>
#include <random>

#include "planner/lower/tuner.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

constexpr DeviceModel assumed{.flops = 1e11, .bandwidth = 2e10, .launch_seconds = 2e-6};
constexpr const char* operators[] = {
    "InnerProduct", "MatMul",    "Conv",   "ConvolutionBackwardData", "Add", "SgdUpdate", "BatchNormalizationTraining",
    "Softmax",      "Transpose", "Reorder"};

// The kernels as a device would run them, each `factor` times as long as its kind's.
std::vector<KernelTime> times_on(const DeviceModel& device, const std::function<double()>& factor) {
  std::vector<KernelTime> times;
  for (const CalibrationKernel& k : calibration_kernels()) {
    double bytes = 0;
    for (const auto* operands : {&k.inputs, &k.outputs})
      for (const Operand& o : *operands) bytes += static_cast<double>(4 * o.shape.elements());
    const double efficiency = k.flops > 0 ? 0.7 : 0.3;
    times.push_back({k.kind, k.checks, k.flops, bytes, efficiency, factor() * estimate(k.flops, bytes, efficiency, device)});
  }
  return times;
}

TEST(Calibration, HasKernelsOfEachKindAndFourThatCheckThem) {
  const auto checks = std::ranges::count_if(calibration_kernels(), &CalibrationKernel::checks);
  EXPECT_EQ(checks, 4);
  for (int kind = 0; kind < kernel_kinds; ++kind)
    EXPECT_TRUE(std::ranges::any_of(calibration_kernels(), [&](const CalibrationKernel& k) {
      return k.kind == KernelKind(kind) && !k.checks;
    })) << name_of(KernelKind(kind));
}

TEST(Calibration, FindsTheRatesThatTimesWereMadeBy) {
  const DeviceModel real{.flops = 4e11, .bandwidth = 1.3e10, .launch_seconds = 9e-6};
  const Calibration c(times_on(real, [] { return 1.0; }), assumed);
  EXPECT_LT(c.spread(), 0.05);
  for (const char* op : operators) {
    ASSERT_NE(c.model(op), nullptr) << op;
    EXPECT_NEAR(estimate(0, 1e8, 0.5, *c.model(op)), estimate(0, 1e8, 0.5, real), 0.02 * estimate(0, 1e8, 0.5, real)) << op;
  }
  EXPECT_NEAR(c.model("Conv")->flops, real.flops, 0.05 * real.flops);
}

// Whatever the times are: more is never faster, and every time is above zero and finite.
TEST(Calibration, MoreBytesAndOperationsNeverTakeLess) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> factor(0, 1.5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<KernelTime> times = times_on(assumed, [&] { return factor(random); });
    std::erase_if(times, [&](const KernelTime&) { return random() % 4 == 0; });
    const Calibration c(times, assumed);
    for (const char* op : operators) {
      const DeviceModel* const m = c.model(op);
      if (!m) continue;
      double before_bytes = 0, before_flops = 0;
      for (double size = 1; size < 1e12; size *= 3) {
        const double bytes = estimate(1e6, size, 0.5, *m), flops = estimate(size, 1e4, 0.5, *m);
        EXPECT_TRUE(bytes > 0 && std::isfinite(bytes) && flops > 0 && std::isfinite(flops)) << op << ' ' << size;
        EXPECT_GE(bytes, before_bytes) << op << ' ' << size;
        EXPECT_GE(flops, before_flops) << op << ' ' << size;
        before_bytes = bytes;
        before_flops = flops;
      }
    }
  }
}

TEST(Calibration, IsNoneWhereNothingChecksIt) {
  std::vector<KernelTime> times = times_on(assumed, [] { return 1.0; });
  std::erase_if(times, [](const KernelTime& t) { return t.checks; });
  const Calibration c(times, assumed);
  EXPECT_EQ(c.spread(), 0);
  EXPECT_EQ(c.model("Conv"), nullptr);
}

TEST(Calibration, LeavesAKindThatHasNoTimeAsItWas) {
  std::vector<KernelTime> times = times_on(assumed, [] { return 2.0; });
  std::erase_if(times, [](const KernelTime& t) { return t.kind == KernelKind::copy; });
  const Calibration c(times, assumed);
  EXPECT_EQ(c.model("Transpose"), nullptr);
  EXPECT_NE(c.model("Add"), nullptr);
}

// The CPU, whose kernels all move 1 GB/s.
class Slow final : public Backend {
 public:
  explicit Slow(bool disturbed) : disturbed_(disturbed) {}
  std::string name() const override { return "cpu"; }
  std::string version() const override { return "slow"; }
  std::string unusable() const override { return ""; }
  int device_count() const override { return cpu_backend().device_count(); }
  DeviceModel model(int index, int in_use) const override { return cpu_backend().model(index, in_use); }
  std::vector<KernelRow> rows() const override { return cpu_backend().rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return cpu_backend().describe(request); }
  Gain fuses(const KernelRequest& request) const override { return cpu_backend().fuses(request); }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override { return cpu_backend().open(index, options); }
  Timing measure(const KernelDescription& d, const KernelOptions&) const override {
    double bytes = 0;
    for (const auto* operands : {&d.inputs, &d.outputs})
      for (const Operand& o : *operands) bytes += static_cast<double>(o.bytes());
    ++timed;
    return {d.passes * bytes / 1e9, disturbed_ && timed > 1};
  }
  mutable int timed = 0;

 private:
  bool disturbed_;
};

class CalibratedPlans : public testing::Test {
 protected:
  CalibratedPlans() : folder_(std::filesystem::temp_directory_path() / concat("tandem-calibration-", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~CalibratedPlans() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ / "kernels.cache"; }
  void calibrate(const Backend& backend) const { time_for_calibration(backend, backend.model(0, 1), file()); }
  Plan plan(const Backend& backend, bool autotune = false, std::int64_t batch = 16) const {
    CompileOptions o{.mode = PlanMode::training, .batch = batch, .devices = {{{"cpu", 0}}}};
    o.tuning = {.autotune = autotune, .cache = file()};
    const Backend* const all[] = {&backend};
    Plan plan = compile(small_models::convnet, o, all);
    use_calibrations(plan, all, file());
    return plan;
  }
  static bool is_calibrated(const Plan& plan) { return plan.programs[0].model.name.find("calibrated +-") != std::string::npos; }
  const std::filesystem::path folder_;
};

TEST_F(CalibratedPlans, HaveOtherTimesAndNothingElse) {
  const Slow slow(false);
  const Plan before = plan(slow);
  EXPECT_FALSE(is_calibrated(before));
  calibrate(slow);
  EXPECT_EQ(slow.timed, std::ssize(calibration_kernels())) << "each once";
  Plan after = plan(slow);
  EXPECT_TRUE(is_calibrated(after)) << after.programs[0].model.name;
  EXPECT_GT(after.seconds, before.seconds);
  EXPECT_GT(plan(slow, false, 64).seconds, plan(slow, false, 32).seconds) << "more samples take longer";
  EXPECT_GT(plan(slow, false, 32).seconds, after.seconds);
  EXPECT_EQ(slow.timed, std::ssize(calibration_kernels())) << "a plan times nothing";
  const Plan timed = plan(slow, true);
  EXPECT_FALSE(is_calibrated(timed)) << "what was timed says more";
  after.seconds = before.seconds;
  after.programs[0].model = before.programs[0].model;
  for (StepId s{0}; s.index < std::ssize(after.programs[0].steps); ++s.index)
    after.programs[0].steps[s].seconds = before.programs[0].steps[s].seconds;
  EXPECT_EQ(serialize(after), serialize(before));
}

TEST_F(CalibratedPlans, DoWithoutTimesThatWereDisturbed) {
  const Slow busy(true);
  calibrate(busy);
  EXPECT_GT(busy.timed, std::ssize(calibration_kernels())) << "they are tried again";
  EXPECT_FALSE(is_calibrated(plan(busy))) << "one kernel and no check";
  calibrate(Slow(false));
  EXPECT_TRUE(is_calibrated(plan(busy)));
  calibrate(busy);
  EXPECT_TRUE(is_calibrated(plan(busy))) << "what was found stays";
}

}  // namespace
}  // namespace tandem
