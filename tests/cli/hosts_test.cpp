// Ranks on several hosts, as processes of the program: what they train, and what they say when one or its line is lost.
// The suite takes a sample; TANDEM_HOSTS says how many runs are drawn by chance, TANDEM_SEED which (scripts/kill-test).
#include "tests/ranks/hosts.h"

#include <csignal>
#include <iostream>
#include <random>

#include "base/file.h"
#include "tests/cli/rank_runs.h"

namespace tandem::rank_tests {
namespace {

using test::Cable, test::Hosts;

// Who tells a rank what it is: its flags, or the environment that a launcher gives it.
enum class By { flags, open_mpi, mpich, torchrun };

constexpr Cable slow{.rate = 50e6, .delay = 0.01};

struct Layout {
  int hosts, each = 1;    // ranks of each host
  bool by_turns = false;  // rank 1 is on the second host
  int ranks() const { return hosts * each; }
  int host_of(int rank) const { return by_turns ? rank % hosts : rank / each; }
  // Each rank's device, by its number on its host: cpu:0,cpu:1,cpu:0,cpu:1
  std::string devices() const {
    std::string list;
    for (int r = 0; r < ranks(); ++r) list += concat(r == 0 ? "cpu:" : ",cpu:", by_turns ? r / hosts : r % each);
    return list;
  }
};
std::string to_string(const Layout& l) {
  return concat(l.hosts, " hosts of ", l.each, l.by_turns ? " by turns" : "");
}

// One thread for each device, as a host of these shares its cores with the others; wherever the system likes.
const std::map<std::string, std::string> shared_cores{{"OMP_THREAD_LIMIT", "1"}, {"TANDEM_PIN", "0"}};

Process start(const TemporaryFolder& folder, const Hosts& hosts, const Layout& layout, int rank, By by, const std::string& line) {
  const std::string r = text_of(rank), n = text_of(layout.ranks()), host = Hosts::ipv4(0), port = "29500",
                    address = concat(host, ':', port);
  std::map<std::string, std::string> environment = shared_cores;
  std::string flags = concat("--address ", address, ' ');
  switch (by) {
    case By::flags: flags += concat("--rank ", r, " --world-size ", n); break;
    case By::open_mpi: environment.insert({{"OMPI_COMM_WORLD_RANK", r}, {"OMPI_COMM_WORLD_SIZE", n}}); break;
    case By::mpich: environment.insert({{"PMI_RANK", r}, {"PMI_SIZE", n}}); break;
    case By::torchrun:
      environment.insert({{"RANK", r}, {"WORLD_SIZE", n}, {"MASTER_ADDR", host}, {"MASTER_PORT", port}, {"LOCAL_RANK", "0"}});
      flags.clear();
  }
  std::optional<Process> process;
  hosts.on(layout.host_of(rank), [&] {
    process.emplace(folder, "rank" + r, words(concat(line, "--devices ", layout.devices(), ' ', flags), folder.text()), environment);
  });
  return std::move(*process);
}

std::vector<Process> start_all(const TemporaryFolder& folder, const Hosts& hosts, const Layout& layout, By by, const std::string& line) {
  std::vector<Process> list;
  for (int r = 0; r < layout.ranks(); ++r) list.push_back(start(folder, hosts, layout, r, by, line));
  return list;
}

struct Row {
  std::string name;
  Layout layout;
  By by = By::flags;
  Cable cable = {};
  std::string line = "MODELS/mlp.onnx --batch-size 50 --epochs 2 --optimizer adam";
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

void expect_bits_of_one_process(const Row& row) {
  const TemporaryFolder folder;
  const std::string line = concat("train ", row.line, ' ', digits, "--json ");
  const Outcome alone =
      Process(folder, "alone",
              words(concat(line, "--output TMP/alone.onnx --run-dir TMP/alone --devices cpu:0-", row.layout.ranks() - 1), folder.text()),
              shared_cores)
          .wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Hosts hosts(row.layout.hosts, row.cable);
  std::vector<Process> ranks = start_all(folder, hosts, row.layout, row.by, line + "--output TMP/together.onnx --run-dir TMP/run ");
  const std::vector<Outcome> outcomes = wait_all(ranks);
  for (const Outcome& o : outcomes) ASSERT_EQ(o.code, 0) << o.err;
  for (std::size_t r = 1; r < outcomes.size(); ++r) EXPECT_EQ(outcomes[r].out + outcomes[r].err, "") << "only rank 0 speaks";
  const auto behind_the_plan = [](const std::string& lines) {
    return lines.substr(lines.find('\n') + 1);
  };  // which says how cores are shared
  EXPECT_EQ(results(behind_the_plan(outcomes[0].out)), results(behind_the_plan(alone.out)));
  EXPECT_TRUE(read_file(folder / "together.onnx") == read_file(folder / "alone.onnx")) << "the weights differ";
}

class ProgramOnHosts : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  }
};
TEST_P(ProgramOnHosts, TrainsWhatOneProcessTrains) {
  expect_bits_of_one_process(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Rows, ProgramOnHosts,
    testing::Values(Row{"two_by_flags", {2}, By::flags, {}, "MODELS/lenet.onnx --batch-size 64 --epochs 2 --momentum 0.9"},
                    Row{"three_by_mpirun", {3}, By::open_mpi}, Row{"four_by_torchrun", {4}, By::torchrun},
                    Row{"two_of_two_by_mpiexec", {2, 2}, By::mpich}, Row{"two_of_two_by_turns", {2, 2, true}, By::torchrun},
                    Row{"three_over_a_slow_line", {3}, By::flags, slow, "MODELS/mlp.onnx --batch-size 150 --epochs 2"}),
    [](const auto& info) { return info.param.name; });

// torchrun itself on each of two hosts, with two processes each. It listens at its port.
TEST(TorchrunOnHosts, StartsRanks) {
  if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python || std::system(concat(python, " -c 'import torch.distributed.run' > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with PyTorch (scripts/install-dependencies --torch)";
  const TemporaryFolder folder;
  const Layout layout{2, 2};
  const std::string line = concat("train MODELS/mlp.onnx --batch-size 50 --epochs 2 ", digits);
  const Outcome alone =
      Process(folder, "alone", words(line + "--output TMP/alone.onnx --devices cpu:0-3", folder.text()), shared_cores).wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Hosts hosts(layout.hosts);
  std::vector<Process> launchers;
  for (int host = 0; host < layout.hosts; ++host) {
    const std::string torchrun = concat("-m torch.distributed.run --nnodes 2 --node-rank ", host, " --nproc-per-node 2 --master-addr ",
                                        Hosts::ipv4(0), " --master-port 29500 --no-python ");
    const std::string command =
        concat(torchrun, TANDEM_PROGRAM, ' ', line, "--run-dir none --output TMP/together.onnx --devices ", layout.devices());
    hosts.on(host, [&] { launchers.emplace_back(folder, concat("torchrun", host), words(command, folder.text()), shared_cores, python); });
  }
  const std::vector<Outcome> outcomes = wait_all(launchers);
  for (const Outcome& o : outcomes) EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(outcomes[0].err.find("note: torchrun listens at port 29500 itself: rank 0 listens at 10.77.0.1:29501"), std::string::npos)
      << outcomes[0].err;
  EXPECT_TRUE(read_file(folder / "together.onnx") == read_file(folder / "alone.onnx")) << "the weights differ";
}

// What happens to a rank, or to the host it is on.
enum class Loss { killed, cut, host };  // its process; its host's line; the whole host, which says nothing any more
struct Trouble {
  std::string name;
  Layout layout;
  Loss loss;
  int rank;
  Cable cable = {};
  By by = By::flags;
};
void PrintTo(const Trouble& t, std::ostream* out) {
  *out << t.name;
}

// All others end with exit code 6 and the numbers of those that are lost; who is cut off names rank 0, or if it is that, all others.
void expect_to_be_named(const Trouble& t, double seconds_to_live = 0) {
  const TemporaryFolder folder;
  Hosts hosts(t.layout.hosts, t.cable);
  std::vector<Process> ranks = start_all(folder, hosts, t.layout, t.by, forever + "--run-dir TMP/run --rank-timeout 3 ");
  if (seconds_to_live > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_to_live));
  else
    wait_for_file(folder / "run/last.checkpoint");
  const auto away = [&](int r) { return t.loss == Loss::killed ? r == t.rank : t.layout.host_of(r) == t.layout.host_of(t.rank); };
  if (t.loss != Loss::killed) hosts.cut(t.layout.host_of(t.rank));
  for (int r = 0; r < t.layout.ranks(); ++r)
    if (away(r) && t.loss != Loss::cut) ranks[static_cast<std::size_t>(r)].signal(SIGKILL);
  for (int r = 0; r < t.layout.ranks(); ++r) {
    const Outcome o = ranks[static_cast<std::size_t>(r)].wait();
    if (away(r) && t.loss != Loss::cut) continue;
    std::string others;
    for (int other = 0; other < t.layout.ranks(); ++other)
      if (away(other) != away(r)) others += concat(others.empty() ? "rank " : ", rank ", other);
    EXPECT_EQ(o.code, 6) << "rank " << r << ": " << o.err;
    if (t.by != By::flags && r > 0 && away(r) == away(0)) continue;  // what starts ranks gives them one terminal: rank 0 tells
    EXPECT_NE(o.err.find(others.starts_with("rank 0") ? "rank 0 " : others), std::string::npos) << "rank " << r << ": " << o.err;
  }
}

class LossOnHosts : public testing::TestWithParam<Trouble> {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  }
};
TEST_P(LossOnHosts, IsNamedByAllOthers) {
  expect_to_be_named(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rows, LossOnHosts,
                         testing::Values(Trouble{"a_rank_is_killed", {3}, Loss::killed, 1}, Trouble{"a_line_is_cut", {3}, Loss::cut, 1},
                                         Trouble{"the_line_of_two_ranks_is_cut", {2, 2}, Loss::cut, 3, {}, By::open_mpi},
                                         Trouble{"the_line_of_the_first_is_cut", {3}, Loss::cut, 0},
                                         Trouble{"a_host_of_two_ranks_is_lost", {2, 2, true}, Loss::host, 1},
                                         Trouble{"a_rank_is_killed_behind_a_slow_line", {3}, Loss::killed, 2, slow},
                                         Trouble{"a_slow_line_is_cut", {3}, Loss::cut, 2, slow}),
                         [](const auto& info) { return info.param.name; });

// Runs that are drawn by chance.
int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
struct Draws {
  unsigned seed = static_cast<unsigned>(from_environment("TANDEM_SEED", static_cast<int>(std::random_device()() % 1'000'000)));
  int count = from_environment("TANDEM_HOSTS", 1);
  std::mt19937 random{seed};
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  Layout layout() {
    const int hosts = 2 + below(4);
    return {hosts, 1 + below(hosts > 3 ? 1 : 6 / hosts), below(2) == 1};
  }
  Cable cable() {
    constexpr Cable cables[] = {{}, {1e9, 1e-4}, {1e8, 1e-3}, slow, {1e8, 0.05}};
    return cables[below(std::size(cables))];
  }
  By by() { return static_cast<By>(below(4)); }
};

class RandomHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(RandomHosts, TrainWhatOneProcessTrains) {
  Draws draws;
  constexpr const char* lines[] = {
      "MODELS/mlp.onnx --batch-size 53 --epochs 2 --optimizer adam", "MODELS/lenet.onnx --batch-size 64 --epochs 2 --momentum 0.9",
      "MODELS/mlp.onnx --batch-size 32 --epochs 2 --clip-norm 1", "MODELS/mlp.onnx --batch-size 100 --epochs 2 --accumulate 2"};
  for (int i = 0; i < draws.count; ++i) {
    const Row row{"", draws.layout(), draws.by(), draws.cable(), lines[draws.below(std::size(lines))]};
    SCOPED_TRACE(concat("TANDEM_SEED=", draws.seed, ", run ", i, ": ", to_string(row.layout), ", ", row.line));
    expect_bits_of_one_process(row);
  }
}

// At any moment: while they meet, plan, train.
TEST_F(RandomHosts, NameWhoIsLost) {
  Draws draws;
  for (int i = 0; i < draws.count; ++i) {
    Trouble t{"", draws.layout(), static_cast<Loss>(draws.below(3)), 0, draws.cable(), draws.by()};
    t.rank = draws.below(t.layout.ranks());
    const double seconds = 0.01 * (1 + draws.below(500));
    SCOPED_TRACE(concat("TANDEM_SEED=", draws.seed, ", run ", i, ": ", to_string(t.layout), ", rank ", t.rank, " is lost by way ",
                        static_cast<int>(t.loss), " after ", seconds, " s"));
    expect_to_be_named(t, seconds);
  }
}

// While they meet, or plan: whoever waits for one of its ranks names the other, too.
TEST_F(RandomHosts, NameBothRanksOfAHostThatIsLostBeforeTheFirstStep) {
  expect_to_be_named({"", {3, 2, true}, Loss::host, 2, slow, By::mpich}, 2.05);
}

}  // namespace
}  // namespace tandem::rank_tests
