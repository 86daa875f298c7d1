// Training on devices that copy the next batch while a step computes: the loop says in time what comes next, and every step
// trains on its own batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "kernels/cpu/backend.h"
#include "tests/runtime/fake_backend.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// The CPU's kernels on devices whose streams are queues, with room for the next batch.
class StagingCpu final : public Backend {
 public:
  test::FakeBackend devices;
  StagingCpu() { devices.queues = true; }
  std::string name() const override { return "cpu"; }
  std::string version() const override { return cpu_backend().version(); }
  std::string unusable() const override { return {}; }
  int device_count() const override { return 4; }
  bool stages_inputs() const override { return true; }
  DeviceModel model(int index, int devices_in_use) const override { return cpu_backend().model(index, devices_in_use); }
  std::vector<KernelRow> rows() const override { return cpu_backend().rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return cpu_backend().describe(request); }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override { return devices.create_group(spec); }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override { return devices.open(index, options); }
};

struct Trained {
  std::vector<double> losses;
  double accuracy = 0;
  std::vector<std::string> warnings;
};

// 100 samples in batches of 16: the last one of an epoch has 4 and a plan of its own; between epochs the model is evaluated.
Trained train(const Backend& backend, const std::string& devices, const std::function<void()>& before = {},
              const std::function<void(const Plan&)>& after_step = {}, bool run_ahead = true) {
  const Backend* const backends[] = {&backend};
  const Splits data = open_data("synthetic:digits,train=100,test=40");
  ModelOptions o;
  o.plan.batch = 16;
  o.plan.devices = parse_devices(devices);
  o.init = "he-normal";
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  model.compile(o, backends);
  Trained t;
  FitOptions fit{.epochs = 3, .learning_rate = 0.02, .validation = data.test.get(), .run_ahead = run_ahead};
  fit.callbacks.on_step = [&](const StepReport& r) {
    t.losses.push_back(r.loss);
    if (after_step) after_step(model.plan());
  };
  fit.callbacks.on_warning = [&](const std::string& text) { t.warnings.push_back(text); };
  if (before) before();
  t.accuracy = model.fit(*data.train, fit).epochs.back().val_accuracy;
  return t;
}

// Inputs that come with their step.
int unstaged(const Plan& plan) {
  int count = 0;
  for (const PlanDevice& d : plan.devices)
    for (const Step& s : plan.programs[d.program].steps) count += s.as<SliceStep>() && !s.workspace.present();
  return count;
}

class StagedTraining : public testing::TestWithParam<const char*> {};

TEST_P(StagedTraining, GivesTheSameBits) {
  StagingCpu staging;
  std::atomic<int> in = 0, on_device = 0;
  staging.devices.transfers = [&](test::Transfer t) {
    in += t == test::Transfer::in;
    on_device += t == test::Transfer::on_device;
  };
  constexpr int epoch = 7;   // steps
  int steps = 0, ahead = 0;  // ahead: of the first epoch, those after which a batch had come that no step had taken
  const Trained plain = train(cpu_backend(), GetParam());
  const auto before = [&] { in = on_device = 0; };  // parameters were copied, too
  const Trained staged = train(staging, GetParam(), before, [&](const Plan& plan) {
    if (++steps <= epoch) ahead += in - on_device > steps * unstaged(plan);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the loader keeps up
  });
  EXPECT_GT(ahead, 0);
  EXPECT_EQ(staged.losses, plain.losses);
  EXPECT_EQ(staged.accuracy, plain.accuracy);
  EXPECT_TRUE(staging.devices.guards_whole());
}
// Steps are begun while the ones before compute, and each reads its own batch however late that is copied.
TEST_P(StagedTraining, BeginsStepsAhead) {
  const Trained plain = train(cpu_backend(), GetParam());
  for (const bool captures : {false, true})
    for (const bool run_ahead : {false, true}) {
      StagingCpu staging;
      staging.devices.captures = captures;
      std::atomic<int> taken = 0;  // inputs that steps have of their own
      staging.devices.transfers = [&](test::Transfer t) {
        taken += t == test::Transfer::on_device;
        if (t == test::Transfer::in) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      int steps = 0, begun = 0;
      const Trained ahead = train(staging, GetParam(), [&] { taken = 0; }, [&](const Plan& plan) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // what was begun takes its batch
        if (++steps >= 7) return;                                    // behind the first epoch the model was evaluated
        int inputs = 0;
        for (const PlanDevice& d : plan.devices)
          for (const Step& s : plan.programs[d.program].steps) inputs += s.as<SliceStep>() && s.workspace.present();
        begun += taken > steps * inputs;
      }, run_ahead);
      EXPECT_EQ(begun > 0, run_ahead) << (captures ? "captured" : "launched");
      EXPECT_EQ(ahead.losses, plain.losses);
      EXPECT_EQ(ahead.accuracy, plain.accuracy);
      EXPECT_TRUE(staging.devices.guards_whole());
      // The sums of several devices are not part of what is captured: that is told once.
      const bool several = parse_devices(GetParam()).size() > 1;
      EXPECT_EQ(std::ranges::count_if(ahead.warnings, [](const std::string& w) { return w.find("cannot be captured") != w.npos; }),
                captures && several ? 1 : 0);
    }
}

// Samples of the model's own type, read to where a batch is made, which it says.
class Watched final : public Dataset {
 public:
  std::function<void(const std::byte*)> read_to = [](const std::byte*) {};
  explicit Watched(std::int64_t samples) : data_("samples") {
    data_.add({.name = "image"}, Tensor(TensorType{DType::float32, {samples, 1, 28, 28}}));
    data_.add({.name = "labels", .role = Role::label}, Tensor(TensorType{DType::int64, {samples}}));
  }
  std::string name() const override { return data_.name(); }
  std::int64_t size() const override { return data_.size(); }
  std::span<const Field> fields() const override { return data_.fields(); }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    if (field == 0) read_to(to);
    data_.read(field, samples, to);
  }

 private:
  MemoryDataset data_;
};

// Batches of trainings, evaluations and predictions are made in memory that devices copy from fast.
TEST(StagedBatches, LieInPinnedMemory) {
  const StagingCpu staging;
  const Backend* const backends[] = {&staging};
  Watched data(40);
  std::atomic<int> pinned = 0;
  data.read_to = [&](const std::byte* to) {
    const std::scoped_lock hold(staging.devices.lock);
    pinned += std::ranges::any_of(staging.devices.pinned,
                                  [&](const test::GuardedMemory& m) { return to >= m.data() && to < m.data() + m.size(); });
  };
  ModelOptions o;
  o.plan.batch = 16;
  o.plan.devices = parse_devices("cpu:0");
  o.init = "he-normal";
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  model.compile(o, backends);
  constexpr int batches = 3;
  model.evaluate(data);
  EXPECT_EQ(pinned.exchange(0), batches);
  model.predict(data);
  EXPECT_EQ(pinned.exchange(0), batches);
  model.fit(data, {.epochs = 1, .learning_rate = 0.1});
  EXPECT_GE(pinned, batches);  // and some ahead
}

INSTANTIATE_TEST_SUITE_P(Devices, StagedTraining, testing::Values("cpu:0", "cpu:0-1"),
                         [](const auto& info) { return info.index == 0 ? "one" : "two"; });

}  // namespace
}  // namespace tandem
