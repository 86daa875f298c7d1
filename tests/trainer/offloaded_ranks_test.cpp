// Weights and optimizer states that GPUs leave to host memory. Two ranks (threads of this process, each with its World), of which each has
// a home for some of the weights, learn and keep what one process does, and what replicas do that keep their own.
#include <thread>

#include "tests/planner/small_models.h"
#include "tests/ranks/address.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

struct Row {
  const char* name;
  const char *of_one, *of_ranks;  // devices
  const char* optimizer;
  int samples;  // in batches of 32
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

struct Learned {
  std::vector<double> losses;
  Checkpoint last;
  std::string file;  // the trained model's bytes
};

std::int64_t states_on(const Plan& plan, bool cpu) {
  std::int64_t bytes = 0;
  for (const PlanDevice& d : plan.devices)
    for (const Arena& a : plan.programs[d.program].arenas)
      if ((d.device.backend == "cpu") == cpu && a.kind == ArenaKind::optimizer) bytes += a.bytes;
  return bytes;
}

// Three batches. `homes`: of so many ranks; 0: each device keeps its own.
Learned trained(const Row& row, const std::string& devices, int homes, const TemporaryFolder& folder, World* world = nullptr) {
  small_models::AskedCpu gpu;  // the CPU by another name
  gpu.called = "cuda";
  const Backend* const both[] = {&gpu, &cpu_backend()};
  ModelOptions o = options(32, devices);
  o.plan.optimizer = optimizer_defaults(row.optimizer);
  if (homes > 0) offload_optimizer(o.plan, homes);
  o.world = world;
  Model model = Model::load(template_path("mlp"));
  model.compile(o, both);
  if (homes > 0) {
    EXPECT_EQ(states_on(model.plan(), false), 0);
    EXPECT_GT(states_on(model.plan(), true), 0);
  }
  Learned learned;
  FitOptions fit{.epochs = 1, .learning_rate = 0.002, .run_dir = folder / "run", .check_replicas = 1};
  fit.callbacks.on_step = [&](const StepReport& r) { learned.losses.push_back(r.loss); };
  const Splits data = digits(concat("synthetic:digits,train=", row.samples, ",test=8"));
  model.fit(*data.train, fit);
  model.gather_parameters();
  if (world && world->rank() > 0) return learned;
  model.save(folder / "trained.onnx", false, {});
  learned.last = read_checkpoint(folder / "run/last.checkpoint");
  std::ranges::sort(learned.last.optimizer, {}, &NamedTensor::name);  // states stand in the order of the plan's parameters
  learned.file = read_file(folder / "trained.onnx");
  return learned;
}

void expect_same(const Learned& got, const Learned& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_TRUE(same(got.last.weights, wanted.last.weights));
  EXPECT_TRUE(same(got.last.optimizer, wanted.last.optimizer));
  EXPECT_TRUE(got.file == wanted.file) << "the trained model";
}

class OffloadedOnRanks : public testing::TestWithParam<Row> {};

TEST_P(OffloadedOnRanks, TrainAsOneProcess) {
  const Row& row = GetParam();
  const TemporaryFolder own, one, two;
  const Learned by_one = trained(row, row.of_one, 1, one);
  ASSERT_EQ(by_one.losses.size(), 3U);
  // Replicas' weights keep the layouts of the first plan in that of a short batch: others choose anew, and round otherwise.
  if (row.samples % 32 == 0) expect_same(by_one, trained(row, row.of_one, 0, own));

  constexpr int ranks = 2;
  const test::RankAddress address;
  Learned got[ranks];
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = 60});
        got[r] = trained(row, row.of_ranks, ranks, two, &world);
        world.leave();
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  expect_same(got[0], by_one);
  EXPECT_EQ(got[1].losses, by_one.losses);
}
INSTANTIATE_TEST_SUITE_P(Rows, OffloadedOnRanks,
                         testing::Values(Row{"one_gpu_each", "cuda:0-1", "cuda:0,cuda:0", "adamw", 96},
                                         Row{"two_gpus_each", "cuda:0-3", "cuda:0-1,cuda:0-1", "adam", 96},
                                         Row{"a_short_batch", "cuda:0-1", "cuda:0,cuda:0", "adamw", 80}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::model_tests
