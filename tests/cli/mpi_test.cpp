// Ranks that an mpirun starts: they train what one process trains, and say how they end. Skipped for an MPI that is not installed.
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "tests/cli/rank_runs.h"

namespace tandem::rank_tests {
namespace {

struct Row {
  const char *kind, *name;
  int ranks;
  std::string line;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.kind << ' ' << row.name;
}

const std::map<std::string, std::string> modules{{"TANDEM_MODULES", TANDEM_MODULES}};
constexpr int skipped = 77;

Process mpirun(const TemporaryFolder& folder, const char* kind, int ranks, const std::string& line) {
  return {folder, kind, words(concat(kind, ' ', ranks, ' ', TANDEM_PROGRAM, ' ', line), folder.text()), modules, TANDEM_MPIRUN};
}

bool has_ended(int id) {
  std::ifstream stream(concat("/proc/", id, "/stat"));
  std::string name, state;
  return !(stream >> id >> name >> state) || state == "Z";
}

class MpiRanks : public testing::TestWithParam<Row> {};

TEST_P(MpiRanks, TrainWhatOneProcessTrains) {
  const Row& row = GetParam();
  const TemporaryFolder folder;
  const std::string line = "train " + row.line + " --batch-size 64 --run-dir none " + digits + "--json ";
  const Outcome alone = Process(folder, "alone", words(line + "--output TMP/alone.onnx", folder.text())).wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome together = mpirun(folder, row.kind, row.ranks, line + "--collectives mpi --output TMP/together.onnx").wait();
  if (together.code == skipped) GTEST_SKIP() << together.out;
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(results(together.out), results(alone.out));
  EXPECT_TRUE(read_file(folder / "together.onnx") == read_file(folder / "alone.onnx")) << "the weights differ";
}

std::vector<Row> rows() {
  const std::pair<const char*, std::string> plans[] = {
      {"replicas", "MODELS/lenet.onnx --devices cpu:0-3 --slice-weights 3,1,2,1 --momentum 0.9"},
      {"shared_layers", "MODELS/mlp.onnx --devices cpu:0-3 --parallel tensor=4 --optimizer adamw --clip-norm 1"},
      {"parts_of_parameters", "MODELS/lenet.onnx --devices cpu:0-3 --parallel zero=3 --optimizer adam"},
      {"stages", "MODELS/mlp.onnx --devices cpu:0-3 --parallel data=2,pipeline=2 --optimizer adamw"},
  };
  std::vector<Row> list;
  for (const char* kind : {"openmpi", "mpich"})
    for (const auto& [name, line] : plans)
      for (const int ranks : {2, 4}) list.push_back({kind, name, ranks, line});
  return list;
}
INSTANTIATE_TEST_SUITE_P(Rows, MpiRanks, testing::ValuesIn(rows()),
                         [](const auto& info) { return concat(info.param.kind, "_", info.param.ranks, "_", info.param.name); });

class Mpi : public testing::TestWithParam<const char*> {};

// Own lines carry the exchanges, and MPI rank 0's address alone.
TEST_P(Mpi, NeedsNoAddress) {
  const TemporaryFolder folder;
  const Outcome o =
      mpirun(folder, GetParam(), 2, "train MODELS/mlp.onnx --devices cpu:0-1 --run-dir none --output TMP/out.onnx " + digits).wait();
  if (o.code == skipped) GTEST_SKIP() << o.out;
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("started 2 ranks on this machine: own lines carry what devices exchange"), std::string::npos) << o.err;
}

// A rank that is told of another run than its MPI sees would train alone, and write what others write.
TEST_P(Mpi, RefusesRanksOfAnotherRun) {
  const TemporaryFolder folder;
  const bool open = std::string(GetParam()) == "openmpi";
  const std::string line = concat("/usr/bin/env ", open ? "OMPI_COMM_WORLD_SIZE=3 " : "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 ",
                                  TANDEM_PROGRAM, " train MODELS/mlp.onnx --devices cpu:0-2 --run-dir none --output TMP/out.onnx ", digits);
  const Outcome o = Process(folder, GetParam(), words(concat(GetParam(), " 2 ", line), folder.text()), modules, TANDEM_MPIRUN).wait();
  if (o.code == skipped) GTEST_SKIP() << o.out;
  EXPECT_NE(o.code, 0);
  EXPECT_NE(o.err.find(", the environment says rank 0 of 3"), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

INSTANTIATE_TEST_SUITE_P(Rows, Mpi, testing::Values("openmpi", "mpich"), [](const auto& info) { return std::string(info.param); });

// A rank that is killed: its mpirun ends the others. MPICH's does so by SIGKILL at once, which may come before rank 0 has heard of it.
struct Loss {
  const char *kind, *rank_variable;
  int signal;
  const char* told;
};
std::ostream& operator<<(std::ostream& out, const Loss& loss) {
  return out << loss.kind << ' ' << loss.signal;
}
class MpiLoss : public testing::TestWithParam<Loss> {};

// The rank of a run in this folder; 0: it is not there.
int process_of_rank_1(const TemporaryFolder& folder, const std::string& variable) {
  const auto text = [](const std::filesystem::path& file) {
    std::ifstream stream(file);
    return concat('\0', std::string(std::istreambuf_iterator<char>(stream), {}));
  };
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path() / "exe", error) != TANDEM_PROGRAM) continue;
    if (text(entry.path() / "environ").find(concat('\0', variable, "=1", '\0')) == std::string::npos) continue;
    if (text(entry.path() / "cmdline").find(folder.text()) != std::string::npos) return std::stoi(entry.path().filename());
  }
  return 0;
}

TEST_P(MpiLoss, IsToldInTheRunsFolder) {
  const Loss& loss = GetParam();
  const TemporaryFolder folder;
  Process launcher = mpirun(folder, loss.kind, 3, forever + "--devices cpu:0-2 --collectives mpi --rank-timeout 3 --run-dir TMP/run");
  for (int i = 0; i < 1000 && !std::filesystem::exists(folder / "run/last.checkpoint") && !has_ended(launcher.id()); ++i) ::usleep(50'000);
  const int rank = process_of_rank_1(folder, loss.rank_variable);
  if (rank > 0) ::kill(rank, loss.signal);
  const Outcome o = launcher.wait();
  if (o.code == skipped) GTEST_SKIP() << o.out;
  ASSERT_GT(rank, 0) << o.err;
  EXPECT_NE(o.code, 0);
  const std::string end = read_file(folder / "run/end.json");
  EXPECT_NE(end.find(loss.told), std::string::npos) << end << o.err;
  EXPECT_NE(o.err.find(concat("note: ", loss.told, ", so that this run ends")), std::string::npos) << o.err;
}
INSTANTIATE_TEST_SUITE_P(Rows, MpiLoss,
                         testing::Values(Loss{"openmpi", "OMPI_COMM_WORLD_RANK", SIGKILL, "rank 1 has ended"},
                                         Loss{"openmpi", "OMPI_COMM_WORLD_RANK", SIGSTOP, "waited 3 s for rank 1"},
                                         Loss{"mpich", "PMI_RANK", SIGSTOP, "waited 3 s for rank 1"}),
                         [](const auto& info) { return concat(info.param.kind, info.param.signal == SIGKILL ? "_killed" : "_stopped"); });

}  // namespace
}  // namespace tandem::rank_tests
