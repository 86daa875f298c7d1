// Replicas whose memory was changed behind everybody's back: a CPU backend that turns over a bit of a parameter.
#include "trainer/fit/replicas.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "kernels/cpu/backend.h"
#include "tests/ranks/address.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

struct Block {
  std::byte* memory;
  std::int64_t bytes;
};

// The CPU's device, whose blocks of memory are known.
class OpenDevice final : public Device {
 public:
  OpenDevice(std::unique_ptr<Device> device, std::vector<Block>& blocks) : device_(std::move(device)), blocks_(blocks) {}
  void activate() override { device_->activate(); }
  std::byte* allocate(std::int64_t bytes) override { return blocks_.emplace_back(device_->allocate(bytes), bytes).memory; }
  std::byte* allocate_summed(std::int64_t bytes) override { return device_->allocate_summed(bytes); }
  std::byte* allocate_host(std::int64_t bytes) override { return device_->allocate_host(bytes); }
  std::unique_ptr<Stream> create_stream(int index) override { return device_->create_stream(index); }
  std::unique_ptr<Event> create_event() override { return device_->create_event(); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<Block>& blocks_;
};

class OpenBackend final : public Backend {
 public:
  std::string name() const override { return cpu_.name(); }
  std::string version() const override { return cpu_.version(); }
  std::string unusable() const override { return cpu_.unusable(); }
  int device_count() const override { return cpu_.device_count(); }
  DeviceModel model(int index, int devices_in_use) const override { return cpu_.model(index, devices_in_use); }
  std::vector<KernelRow> rows() const override { return cpu_.rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return cpu_.describe(request); }
  Timing measure(const KernelDescription& d, const KernelOptions& o) const override { return cpu_.measure(d, o); }
  std::unique_ptr<Device> open(int index, const KernelOptions& o) const override {
    return std::make_unique<OpenDevice>(cpu_.open(index, o), blocks_.at(static_cast<std::size_t>(index)));
  }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override { return cpu_.create_group(spec); }

  void turn_over_a_bit(const Plan& plan, int device, const std::string& parameter) const {
    const auto p =
        std::find_if(plan.parameters.begin(), plan.parameters.end(), [&](const PlanParameter& q) { return q.name == parameter; });
    const std::vector<Arena>& arenas = plan.program_of(static_cast<std::size_t>(device)).arenas;
    const auto arena = std::find_if(arenas.begin(), arenas.end(), [](const Arena& a) { return a.kind == ArenaKind::parameters; });
    for (const Block& b : blocks_.at(static_cast<std::size_t>(device)))  // the first of this size is that of the parameters
      if (b.bytes == arena->bytes) {
        b.memory[plan.part_of(*p, device)->offset + 2] ^= std::byte{0x10};
        return;
      }
    FAIL() << "no block of " << arena->bytes << " bytes";
  }

 private:
  const Backend& cpu_ = cpu_backend();
  mutable std::vector<std::vector<Block>> blocks_ = std::vector<std::vector<Block>>(8);
};

struct Damage {
  int device = 0;
  std::string parameter;
  std::int64_t step = 0;
};

// What training fails with, of one process or of one rank; empty where it does not.
std::string train(const OpenBackend& backend, const std::string& devices, const Damage& damage, FitOptions fit, World* world = nullptr) {
  ModelOptions o;
  o.plan.batch = 32;
  o.plan.tuning.autotune = false;
  o.plan.devices = parse_devices(devices);
  o.init = "he-normal";
  o.world = world;
  const Backend* const backends[] = {&backend};
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  model.compile(o, backends);
  const DeviceRange own = devices_of(world, static_cast<int>(o.plan.devices.size()));
  fit.callbacks.on_step = [&](const StepReport& r) {
    if (r.step == damage.step && damage.device >= own.first && damage.device < own.first + own.count)
      backend.turn_over_a_bit(model.plan(), damage.device, damage.parameter);
  };
  const Splits data = open_data("synthetic:digits,train=320,test=8");  // ten steps an epoch
  try {
    model.fit(*data.train, fit);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    return e.what();
  }
}

struct Row {
  const char* name;
  std::string devices;
  Damage damage;
  std::int64_t every;
  const char* want;  // how the message begins; empty: nothing is found
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
class Replicas : public testing::TestWithParam<Row> {};
TEST_P(Replicas, AreCompared) {
  const Row& row = GetParam();
  const std::string failure = train(OpenBackend(), row.devices, row.damage, {.epochs = 2, .check_replicas = row.every});
  EXPECT_EQ(failure.substr(0, std::string(row.want).size()), row.want) << failure;
  EXPECT_EQ(failure.empty(), std::string(row.want).empty()) << failure;
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Replicas,
    testing::Values(Row{"undamaged", "cpu:0-2", {}, 1, ""}, Row{"never", "cpu:0-2", {1, "fc1.weight", 3}, 0, ""},
                    Row{"every_second", "cpu:0-2", {1, "fc2.weight", 3}, 2,
                        "the replicas differ after step 4: parameter 'fc2.weight' of cpu:1 is not that of cpu:0 and of 1 more"},
                    Row{"the_first_is_another", "cpu:0-2", {0, "fc1.bias", 5}, 3,
                        "the replicas differ after step 6: parameter 'fc1.bias' of cpu:0 is not that of cpu:1 and of 1 more"},
                    Row{"at_the_end_of_the_epoch", "cpu:0-1", {1, "fc1.weight", 3}, 1000,
                        "the replicas differ after step 10: parameter 'fc1.weight' of cpu:1 is not that of cpu:0;"},
                    Row{"one_device_has_no_replica", "cpu", {0, "fc1.weight", 3}, 1, ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ReplicasOfRanks, AreComparedAndNoCheckpointHoldsWhatDiffers) {
  const test::RankAddress address;
  const TemporaryFolder folder;
  std::string failures[2];
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      World world({.rank = r, .ranks = 2, .address = address.text(), .timeout_seconds = 60});
      failures[r] =
          train(OpenBackend(), "cpu:0-3", {3, "fc2.bias", 14}, {.epochs = 3, .run_dir = folder / "run", .checkpoint_steps = 4}, &world);
    });
  for (std::thread& t : ranks) t.join();
  // Before the checkpoint of that step is written: the last is that of step 12.
  for (const std::string& f : failures)
    EXPECT_TRUE(f.starts_with(
        "the replicas differ after step 16: parameter 'fc2.bias' of cpu:3 of rank 1 is not that of cpu:0 of rank 0 and of 2 more"))
        << f;
  EXPECT_EQ(train(OpenBackend(), "cpu:0-3", {}, {.steps = 12, .run_dir = folder / "run", .resume = true}), "") << "it goes on from step 12";
}

}  // namespace
}  // namespace tandem
