// Checkpoints that ranks (threads of this process, each with its World) write together: when they are there, what they hold, who goes on
// from them, and what becomes of a write that fails on one rank.
#include "trainer/records/rank_parts.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "planner/place/parallel.h"
#include "tests/ranks/address.h"
#include "tests/trainer/model_runs.h"
#include "trainer/checkpoint_parts.h"

namespace {
std::atomic<std::int64_t> sent_bytes = 0;  // of all ranks of this process, by sockets
constexpr std::int64_t most_bytes = 4000;  // of what they say of a checkpoint in parts; the values of the smallest model are 100 times that
}  // namespace

// In the C library's place, through which ranks send.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto library = reinterpret_cast<decltype(&sendmsg)>(::dlsym(RTLD_NEXT, "sendmsg"));
  const ssize_t sent = library(socket, message, flags);
  if (sent > 0) sent_bytes += sent;
  return sent;
}

namespace tandem::model_tests {
namespace {

namespace fs = std::filesystem;

struct Cluster {
  const char* name;
  int ranks;
  const char *devices, *parallel;
};
void PrintTo(const Cluster& cluster, std::ostream* out) { *out << cluster.name; }

constexpr Cluster alone{"one_process", 1, "cpu", ""};
constexpr Cluster clusters[] = {{"zero_on_two", 2, "cpu:0-1", "zero=3"},
                                {"states_on_three", 3, "cpu:0-2", "zero=1"},
                                {"layers_on_two", 2, "cpu:0-1", "tensor=2"},
                                {"stages_on_two", 2, "cpu:0-3", "data=2,pipeline=2"},
                                {"replicas", 2, "cpu:0-1", ""},
                                alone};

// What rank r does, in a thread each.
void on_ranks(int ranks, const std::function<void(World*)>& work) {
  if (ranks == 1) return work(nullptr);
  const test::RankAddress address;
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = 60});
        work(&world);
        world.leave();
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (std::thread& t : threads) t.join();
}

ModelOptions options_on(const Cluster& cluster, World* world = nullptr) {
  ModelOptions o = options(48, cluster.devices);
  o.plan.parallel = parse_parallelism(cluster.parallel);
  o.plan.optimizer = optimizer_defaults("adamw");
  o.world = world;
  return o;
}

// Trains to the end of an epoch of two steps; what rank 0 has then.
std::vector<NamedTensor> train_to(std::int64_t epochs, const Cluster& cluster, const fs::path& run, bool resume,
                                  std::string* warned = nullptr) {
  std::vector<NamedTensor> parameters;
  const Splits data = digits("synthetic:digits,train=96,test=8");
  on_ranks(cluster.ranks, [&](World* world) {
    Model model = compiled("mlp", options_on(cluster, world));
    FitOptions fit{.epochs = epochs, .learning_rate = 0.01, .run_dir = run, .resume = resume};
    if (warned && (!world || world->rank() == 0)) fit.callbacks.on_warning = [&](const std::string& text) { *warned += text; };
    model.fit(*data.train, fit);
    model.gather_parameters();
    if (!world || world->rank() == 0) parameters = model.parameters();
  });
  return parameters;
}

std::size_t parts_in(const fs::path& run) {
  return fs::exists(run / "parts") ? static_cast<std::size_t>(std::distance(fs::directory_iterator(run / "parts"), {})) : 0;
}

class PartsOfRanks : public testing::TestWithParam<Cluster> {};

// The same bits in a run's one file, and on every number of ranks and placement that goes on from it.
TEST_P(PartsOfRanks, AreWhatOneFileIs) {
  const Cluster& cluster = GetParam();
  const TemporaryFolder folder;
  const std::vector<NamedTensor> written = train_to(2, cluster, folder / "run", false);
  const bool in_parts = names_of_parts(folder / "run/last.checkpoint").size() > 1;
  EXPECT_EQ(in_parts, std::string(cluster.parallel) != "") << "replicas: rank 0 has all, and writes one file";
  EXPECT_EQ(parts_in(folder / "run"), in_parts ? 2U * static_cast<std::size_t>(cluster.ranks) : 0U) << "of the last and the one before";
  const Checkpoint checkpoint = read_checkpoint(folder / "run/last.checkpoint");
  EXPECT_TRUE(same(checkpoint.weights, written));
  fs::create_directory(folder / "one");
  write_checkpoint(folder / "one/last.checkpoint", checkpoint);
  const std::vector<NamedTensor> wanted = train_to(3, alone, folder / "one", true);
  for (const Cluster& other : clusters) {
    SCOPED_TRACE(other.name);
    const fs::path run = folder / other.name;
    fs::copy(folder / "run", run, fs::copy_options::recursive);
    EXPECT_TRUE(same(train_to(2, other, run, true), written));
    if (other.ranks == 1) EXPECT_TRUE(same(train_to(3, other, run, true), wanted)) << "other states";
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, PartsOfRanks, testing::ValuesIn(clusters),
                         [](const auto& info) { return std::string(info.param.name); });

// A part that is missing, or another's, costs the steps since the checkpoint before, and is told.
TEST(PartsOfARun, ThatAreNotWholeGiveWayToTheCheckpointBefore) {
  for (const Cluster& reader : {clusters[0], alone}) {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const std::vector<NamedTensor> first = train_to(1, clusters[0], run, false), wanted = train_to(2, clusters[0], run, true);
    const fs::path part = run / "parts" / *names_of_parts(run / "last.checkpoint").rbegin();
    std::string warned;
    if (reader.ranks > 1) {
      std::string bytes = read_file(part);
      bytes[bytes.size() / 2] ^= 1;
      write_atomically(part, bytes);
    } else {
      fs::remove(part);
    }
    EXPECT_TRUE(same(train_to(1, reader, run, true, &warned), first));
    EXPECT_NE(warned.find(part.string()), std::string::npos) << warned;
    EXPECT_NE(warned.find(reader.ranks > 1 ? "rank 1: " : "cannot be read"), std::string::npos) << warned;
    EXPECT_NE(warned.find("; going on from the checkpoint before it, "), std::string::npos) << warned;
    if (reader.ranks > 1) EXPECT_TRUE(same(train_to(2, reader, run, true), wanted));
  }
}

TEST(PartsOfARun, GoWithTheCheckpointsThatNameThem) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  train_to(5, clusters[0], run, false);
  EXPECT_LE(parts_in(run), 6U) << "of the last, the one before and the best";
  train_to(7, alone, run, true);
  fs::remove(run / "best.checkpoint");
  train_to(8, alone, run, true);
  EXPECT_FALSE(fs::exists(run / "parts")) << "one process has replaced all of them";
}

// Of a plan alone.
struct Writer {
  Session session;
  RankParts parts;
  Writer(const std::string& model, World& world, const fs::path& folder)
      : session(Model::load(template_path(model)).source().make_plan(options_on(clusters[0], nullptr), backends), backends, &world),
        parts(session, world, folder) {}
};

TEST(PartsOfARun, TakeNoMoreMessagesForALargerModel) {
  const TemporaryFolder folder;
  std::vector<std::uint64_t> taken;
  for (const char* model : {"mlp", "lenet"}) {
    fs::create_directory(folder / model);
    on_ranks(2, [&](World* world) {
      Writer writer(model, *world, folder / model);
      const std::uint64_t before = world->messages();
      const std::int64_t bytes_before = sent_bytes;
      EXPECT_EQ(writer.parts.write(1, [&](const Json& parts) { write_index(folder / model / "c", Json::Object{}, parts); }), "");
      EXPECT_LT(sent_bytes - bytes_before, most_bytes) << "and no value of the model";
      if (world->rank() == 0) taken.push_back(world->messages() - before);
    });
    EXPECT_EQ(names_of_parts(folder / model / "c").size(), 2U);
  }
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0], taken[1]);
  EXPECT_LT(taken[0], 10U);
}

// What one rank cannot write all are told, and nothing is left of it; the checkpoint before stays.
TEST(PartsOfARun, ThatOneRankCannotWriteAreNoCheckpoint) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run");
  fs::create_directories(folder / "broken");
  folder.write("broken/parts", "no folder");
  on_ranks(2, [&](World* world) {
    Writer writer("mlp", *world, folder / "run");
    const auto commit = [&](std::int64_t step) {
      return [&, step](const Json& parts) { write_index(folder / "run/last.checkpoint", Json::Object{{"step", step}}, parts); };
    };
    EXPECT_EQ(writer.parts.write(1, commit(1)), "");
    RankParts other(writer.session, *world, world->rank() == 1 ? folder / "broken" : folder / "run");
    const std::string failure = other.write(2, commit(2));
    EXPECT_NE(failure.find("rank 1: cannot open the folder of '"), std::string::npos) << failure;
    const std::string first = writer.parts.write(3, [](const Json&) { throw std::runtime_error("the disk is full"); });
    EXPECT_EQ(first, "the disk is full");
    if (world->rank() == 1) return;
    EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 1);
    EXPECT_EQ(parts_in(folder / "run"), 2U);
  });
}

// What steps change while a thread writes is not in it.
TEST(PartsOfARun, HoldWhatWasThereWhenTheyWereBegun) {
  const TemporaryFolder folder;
  on_ranks(2, [&](World* world) {
    Writer writer("mlp", *world, folder.text());
    const auto commit = [&](const Json& parts) { write_index(folder / "last.checkpoint", Json::Object{}, parts); };
    std::vector<NamedTensor> ones, twos;
    for (const PlanParameter& p : writer.session.plan().parameters) {
      if (p.role != ValueRole::plain) continue;
      for (auto [list, value] : {std::pair{&ones, 1.F}, {&twos, 2.F}}) {
        list->push_back({p.name, Tensor(p.type)});
        std::ranges::fill(list->back().tensor.write<float>(), value);
      }
    }
    writer.session.set_parameters(ones);
    writer.parts.begin(1);
    writer.session.set_parameters(twos);
    EXPECT_FALSE(fs::exists(folder / "last.checkpoint")) << "rank 0 has not heard of all";
    EXPECT_EQ(writer.parts.finish(commit), "");
    if (world->rank() == 0) EXPECT_TRUE(same(read_checkpoint(folder / "last.checkpoint").weights, ones));
    writer.parts.begin(2);
    writer.parts.abandon();  // then its parts are left, and go with the next that is written
    if (world->rank() == 0) EXPECT_TRUE(same(read_checkpoint(folder / "last.checkpoint").weights, ones));
    EXPECT_EQ(writer.parts.write(3, commit), "");
    if (world->rank() == 0) EXPECT_EQ(parts_in(folder.text()), 2U);
  });
}

// The index comes when all ranks have met and found their parts written, long before the next checkpoint or the end of the epoch; each
// checkpoint has the values of its step.
TEST(PartsOfARun, AreACheckpointSoonAfterItsStep) {
  const TemporaryFolder folder;
  const Splits data = digits("synthetic:digits,train=2400,test=8");  // 50 steps an epoch
  std::vector<std::vector<NamedTensor>> checkpoints;
  std::atomic<std::int64_t> seen = 0;
  for (const Cluster& cluster : {clusters[0], Cluster{"in_one_process", 1, clusters[0].devices, clusters[0].parallel}}) {
    const fs::path run = folder / cluster.name;
    on_ranks(cluster.ranks, [&](World* world) {
      Model model = compiled("mlp", options_on(cluster, world));
      FitOptions fit{.epochs = 1, .learning_rate = 0.01, .run_dir = run, .checkpoint_steps = 20, .keep_checkpoints = 9};
      if (world && world->rank() == 0)
        fit.callbacks.on_step = [&](const StepReport& r) {
          EXPECT_FALSE(r.step <= 20 && fs::exists(run / "last.checkpoint"));
          if (r.step <= 20 || r.step >= 40) return;
          if (seen == 0 && fs::exists(run / "last.checkpoint")) seen = r.step;
          if (seen == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        };
      model.fit(*data.train, fit);
    });
    for (const char* step : {"step-20.checkpoint", "step-40.checkpoint", "step-50.checkpoint"})
      checkpoints.push_back(read_checkpoint(run / step).weights);
  }
  EXPECT_GT(seen, 0) << "no checkpoint of step 20 before that of step 40";
  ASSERT_EQ(checkpoints.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same(checkpoints[i], checkpoints[i + 3])) << i;
}

// Who fails while parts are written waits for nobody.
TEST(PartsOfARun, OfARankThatFailsAreNoCheckpoint) {
  const TemporaryFolder folder;
  const Splits data = digits("synthetic:digits,train=480,test=8");
  const test::RankAddress address;
  std::vector<std::string> failures(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = 2, .address = address.text(), .timeout_seconds = 60});
        Model model = compiled("mlp", options_on(clusters[0], &world));
        FitOptions fit{.epochs = 1, .learning_rate = 0.01, .run_dir = folder / "run", .checkpoint_steps = 2};
        fit.callbacks.on_step = [&](const StepReport& step) {
          if (r == 1 && step.step == 3) fail(ExitCode::data, "no more data");
        };
        model.fit(*data.train, fit);
      } catch (const Error& e) {
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures[1], "no more data");
  EXPECT_NE(failures[0].find("rank 1"), std::string::npos) << failures[0];
  if (fs::exists(folder / "run/last.checkpoint")) EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 2);
}

// Each rank reads what its devices need: no value goes from rank to rank.
TEST(WeightsOfACheckpoint, AreReadByEachRankFromItsParts) {
  for (const Cluster& cluster : {clusters[0], clusters[2], clusters[4]}) {
    SCOPED_TRACE(cluster.name);
    const TemporaryFolder folder;
    train_to(1, cluster, folder / "run", false);
    const std::vector<NamedTensor> wanted = read_checkpoint(folder / "run/last.checkpoint").weights;
    on_ranks(cluster.ranks, [&](World* world) {
      Model model = compiled("mlp", options_on(cluster, world));
      world->any(false);  // both are here
      const std::int64_t before = sent_bytes;
      model.take_checkpoint(folder / "run/last.checkpoint");
      if (*cluster.parallel) EXPECT_LT(sent_bytes - before, most_bytes);
      if (!*cluster.parallel) EXPECT_GT(sent_bytes - before, most_bytes) << "the values themselves";
      world->any(false);  // bytes of all are counted together: nobody gathers before the other has looked
      model.gather_parameters();
      EXPECT_TRUE(same(model.parameters(), wanted));
    });
  }
}

TEST(WeightsOfACheckpoint, ThatIsDamagedFailOnAllRanks) {
  for (const Cluster& cluster : {clusters[0], clusters[4]}) {
    SCOPED_TRACE(cluster.name);
    const TemporaryFolder folder;
    train_to(1, cluster, folder / "run", false);
    const fs::path last = folder / "run/last.checkpoint";
    folder.write("run/last.checkpoint", read_file(last).substr(1));
    on_ranks(cluster.ranks, [&](World* world) {
      Model model = compiled("mlp", options_on(cluster, world));
      expect_error(ExitCode::data, last.string(), [&] { model.take_checkpoint(last); });
    });
  }
}

TEST(SharedFolder, IsOneThatAllRanksSeeByWhateverName) {
  const TemporaryFolder folder;
  for (const char* name : {"run", "elsewhere"}) fs::create_directory(folder / name);
  fs::create_directory_symlink(folder / "run", folder / "link");
  for (const bool kept : {true, false})
    on_ranks(2, [&](World* world) {
      std::string why;
      const bool first = world->rank() == 0;
      const fs::path seen = shared_folder(*world, !first ? folder / "link" : kept ? folder / "run" : fs::path(), why);
      EXPECT_EQ(seen, kept ? folder / "run" : fs::path());
      EXPECT_EQ(why, "");
    });
  EXPECT_TRUE(fs::is_empty(folder / "run")) << "the token stays";
}

}  // namespace
}  // namespace tandem::model_tests
