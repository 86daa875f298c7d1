// Ranks as processes: what they train, and what they are told.
#include <fstream>

#include "base/file.h"
#include "cli/rank_flags.h"
#include "tests/cli/rank_runs.h"

namespace tandem::rank_tests {
namespace {

struct Row {
  const char* name;
  std::string line;
  int ranks;
  bool tcp = false, launcher = false;
};
class Ranks : public testing::TestWithParam<Row> {};

TEST_P(Ranks, TrainWhatOneProcessTrains) {
  const Row& row = GetParam();
  const TemporaryFolder folder;
  const std::string line = "train " + row.line + " " + digits + "--json ";
  const Outcome alone = Process(folder, "alone", words(line + "--output TMP/alone.onnx --run-dir TMP/alone", folder.text())).wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string together = line + "--output TMP/together.onnx --run-dir TMP/run ";
  Outcome first;
  if (row.launcher) {
    first = Process(folder, "launcher", words(concat(together, "--processes ", row.ranks), folder.text())).wait();
    ASSERT_EQ(first.code, 0) << first.err;
  } else {
    const test::RankAddress address(row.tcp);
    std::vector<Process> processes = start_ranks(folder, address, row.ranks, together);
    const std::vector<Outcome> outcomes = wait_all(processes);
    for (const Outcome& o : outcomes) ASSERT_EQ(o.code, 0) << o.err;
    for (std::size_t r = 1; r < outcomes.size(); ++r) EXPECT_EQ(outcomes[r].out + outcomes[r].err, "") << "only rank 0 speaks";
    first = outcomes[0];
  }
  EXPECT_EQ(results(first.out), results(alone.out));
  EXPECT_TRUE(read_file(folder / "together.onnx") == read_file(folder / "alone.onnx")) << "the weights differ";
  EXPECT_TRUE(std::filesystem::exists(folder / "run/last.checkpoint"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Ranks,
    testing::Values(Row{"two", "MODELS/lenet.onnx --devices cpu:0-1 --batch-size 64 --epochs 2 --momentum 0.9", 2},
                    Row{"four_uneven_by_tcp", "MODELS/mlp.onnx --devices cpu:0-3 --slice-weights 3,1,2,1 --batch-size 50 --epochs 2 --optimizer adam", 4, true},
                    Row{"two_of_two_started_here", "MODELS/mlp.onnx --devices cpu:0-3 --batch-size 61 --epochs 2 --keep best", 2, false, true},
                    Row{"that_share_layers", "MODELS/mlp.onnx --devices cpu:0-1 --parallel tensor=2 --batch-size 64 --optimizer adamw --clip-norm 1", 2, false, true},
                    Row{"with_uneven_parts_of_parameters", "MODELS/lenet.onnx --devices cpu:0-3 --parallel zero=3 --batch-size 64 --optimizer adam", 2, false, true},
                    Row{"that_take_the_best_from_parts", "MODELS/mlp.onnx --devices cpu:0-1 --parallel zero=3 --batch-size 61 --epochs 2 --best max:loss --ema 0.9 --keep best", 2, false, true},
                    Row{"with_parts_beside_an_idle_device", "MODELS/mlp.onnx --devices cpu:0-2 --slice-weights 2,0,1 --parallel zero=1 --batch-size 48", 3, false, true},
                    Row{"of_stages", "MODELS/mlp.onnx --devices cpu:0-3 --parallel data=2,pipeline=2 --batch-size 64 --optimizer adamw --clip-norm 1", 2, false, true},
                    Row{"of_a_mesh", "MODELS/lenet.onnx --devices cpu:0-3 --parallel data=2,tensor=2,zero=2 --batch-size 63 --momentum 0.9", 4, false, true},
                    Row{"with_a_layer_elsewhere", "MODELS/mlp.onnx --devices cpu:0-1 --place fc3=cpu:1 --batch-size 64 --optimizer adamw --clip-norm 1", 2, false, true},
                    Row{"with_layers_on_groups", "MODELS/lenet.onnx --devices cpu:0-3 --place fc*=cpu:2-3 --batch-size 64 --momentum 0.9", 2, false, true},
                    Row{"one_device_each", "MODELS/mlp.onnx --devices 2 --batch-size 64", 2, false, true},
                    Row{"one_without_samples", "MODELS/mlp.onnx --devices cpu:0-2 --slice-weights 2,0,1 --batch-size 64 --validation-split 0.2", 3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RanksOfInference, MeasureAndPredictWhatOneProcessDoes) {
  const TemporaryFolder folder;
  const std::string model = "TMP/model.onnx ", data = "--data synthetic:digits,train=10,test=75 --batch-size 32 --devices cpu:0-2 ";
  const auto run = [&](const std::string& name, const std::string& line) {
    const Outcome o = Process(folder, name, words(line, folder.text())).wait();
    EXPECT_EQ(o.code, 0) << o.err;
    return o;
  };
  run("train", "train MODELS/mlp.onnx --data synthetic:digits,train=64,test=8 --no-autotune --init he-normal --output " + model);
  const Outcome alone = run("evaluate_alone", "evaluate " + model + data + "--json");
  const Outcome together = run("evaluate", "evaluate " + model + data + "--json --processes 3");
  EXPECT_EQ(results(together.out), results(alone.out));
  EXPECT_NE(results(alone.out).find("samples 75"), std::string::npos) << alone.out;

  run("predict_alone", "predict " + model + data + "--output TMP/alone.npy");
  const test::RankAddress address;
  std::vector<Process> ranks = start_ranks(folder, address, 3, "predict " + model + data,
                                           [](int r) { return concat("--output TMP/", r == 0 ? "together" : "nobody", ".npy"); });
  for (const Outcome& o : wait_all(ranks)) EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(read_file(folder / "together.npy") == read_file(folder / "alone.npy")) << "the outputs differ";
  EXPECT_FALSE(std::filesystem::exists(folder / "nobody.npy")) << "only rank 0 writes";
}

TEST(RankDevices, AreNumberedByMachine) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  const std::string line = "train MODELS/mlp.onnx " + digits + "--devices cpu:0,cpu:0 --steps 2 --output TMP/out.onnx ";
  std::vector<Process> ranks = start_ranks(folder, address, 2, line);
  for (const Outcome& o : wait_all(ranks)) EXPECT_EQ(o.code, 0) << o.err;
  for (const char* processes : {"", "--processes 2"}) {
    const Outcome o = Process(folder, "alone", words(line + processes, folder.text())).wait();
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find("devices cpu:0, cpu:0: cpu:0 is there twice"), std::string::npos) << o.err;
  }
}

TEST(RankOptions, ProcessesAreComparedWithTheDevicesFirst) {
  const TemporaryFolder folder;
  const struct {
    const char* line;
    int code;
    const char* message;
  } rows[] = {
      {"--devices cpu:0-3 --processes 3", 2, "--processes 3 for 4 devices (cpu:0, cpu:1, cpu:2, cpu:3): expected as many devices for each process"},
      {"--devices cpu:0 --processes 2", 2, "--processes 2 for 1 device (cpu:0)"},
      {"--devices cpu:0-1 --processes 0", 2, "--processes 0 for 2 devices"},
      {"--devices cpu:0-1 --processes 4000000000000", 2, "--processes 4000000000000 for 2 devices"},
      {"--devices cpu:0,cpu:99 --processes 2", 5, "device cpu:99 cannot be used: there are 64 cpu devices"},
      {"--devices tpu:0-1 --processes 2", 5, "tpu"},
  };
  for (const auto& row : rows) {
    const Outcome o =
        run_tandem(words(concat("train MODELS/mlp.onnx --data synthetic:digits --output TMP/out.onnx ", row.line), folder.text()));
    EXPECT_EQ(o.code, row.code) << row.line << ": " << o.err;
    EXPECT_NE(o.err.find(row.message), std::string::npos) << o.err;
  }
}

// Who this process is, by flags and by what starts processes.
struct Told {
  std::string flags;
  std::map<std::string, std::string> environment;
  std::string want;  // "rank of ranks at address", "alone", or part of the error
};
TEST(RankOptions, ComeFromFlagsAndFromWhatStartsProcesses) {
  const TemporaryFolder folder;
  std::ofstream(folder / "secret") << "fedcba9876543210\n";
  std::ofstream(folder / "empty") << "\n";
  std::ofstream(folder / "long") << std::string(5000, 'x');
  const Told rows[] = {
      {"", {}, "alone"},
      {"--rank 1 --world-size 3 --address a:1", {}, "1 of 3 at a:1"},
      {"", {{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "4"}, {"TANDEM_ADDRESS", "b:2"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "2 of 4 at b:2"},
      {"--rank 3", {{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "4"}, {"TANDEM_ADDRESS", "b:2"}}, "3 of 4 at b:2"},
      {"", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "3"}}, "1 of 2 at c:3"},
      {"", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "3"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "1 of 2 at c:4"},
      {"", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd77::1"}, {"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "0 of 2 at fd77::1:65534"},
      {"--address d:9", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "3"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "1 of 2 at d:9"},
      {"", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "3"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}, "1 of 2 at c:3"},
      {"", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "x"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "MASTER_PORT"},
      {"--address unix:/run/x", {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}}, "5 of 6 at unix:/run/x"},
      {"--address a:1", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "0 of 2 at a:1"},
      {"--address a:1", {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "9"}}, "1 of 2 at a:1"},
      {"", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, "alone"},
      {"--rank 1", {}, "--world-size is missing"},
      {"--rank 2 --world-size 2 --address a:1", {}, "rank 2 of 2 ranks"},
      {"", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "has no address: give --address HOST:PORT"},
      {"--address a:1", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"TANDEM_SECRET", "0123456789abcdef"}}, "0 of 2 at a:1 by 0123456789abcdef"},
      {"--address a:1", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"TANDEM_SECRET", "short"}}, "TANDEM_SECRET: a secret of 5 bytes, expected at least 16"},
      {"--address a:1 --secret-file TMP/secret", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"TANDEM_SECRET", "other"}}, "0 of 2 at a:1 by fedcba9876543210"},
      {"--address a:1", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"TANDEM_SECRET_FILE", (folder / "secret").string()}}, "0 of 2 at a:1 by fedcba9876543210"},
      {"--address a:1 --secret-file TMP/empty", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "/empty: a secret of 0 bytes"},
      {"--address a:1 --secret-file TMP/long", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "/long: has 5000 bytes, at most 4096 are read"},
      {"--address a:1 --rank-timeout 0", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "--rank-timeout 0: expected more than 0"},
  };
  for (const Told& row : rows) {
    const Environment environment = [&](const std::string& name) {
      const auto found = row.environment.find(name);
      return found == row.environment.end() ? nullptr : found->second.c_str();
    };
    const Arguments arguments = Arguments::parse(words(row.flags, folder.text()), {}, rank_flags.rows(), environment);
    std::istringstream in;
    std::ostringstream out;
    Streams streams{in, out, out};
    std::string got;
    try {
      const auto o = world_options({arguments, streams, environment});
      got = o ? concat(o->rank, " of ", o->ranks, " at ", o->address, o->secret.empty() ? "" : " by ", o->secret) : "alone";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      got = e.what();
    }
    EXPECT_NE(got.find(row.want), std::string::npos) << row.flags << ": " << got;
  }
}

// Two ranks, each with its own secret or none.
std::vector<Outcome> meet_by(const std::string& address, const std::vector<std::string>& secrets, const std::string& options = "") {
  const TemporaryFolder folder;
  std::vector<Process> ranks;
  for (int r = 0; r < 2; ++r) {
    std::map<std::string, std::string> told{{"TANDEM_RANK", text_of(r)}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_ADDRESS", address}};
    if (const std::string& secret = secrets[static_cast<std::size_t>(r)]; !secret.empty()) told["TANDEM_SECRET"] = secret;
    ranks.push_back(
        {folder, concat("rank", r),
         words(concat("train MODELS/mlp.onnx ", digits, "--steps 1 --devices cpu:0-1 --run-dir TMP/run --output TMP/out.onnx ", options),
               folder.text()),
         told});
  }
  std::vector<Outcome> outcomes = wait_all(ranks);
  const std::filesystem::path config = folder / "run/config.json";
  const std::string kept = std::filesystem::exists(config) ? read_file(config) : "";
  for (const std::string& secret : secrets) EXPECT_TRUE(secret.empty() || kept.find(secret) == kept.npos) << kept;
  return outcomes;
}

TEST(RankSecrets, AreTheSameOrNobodyMeets) {
  const std::string one(16, 'a'), other(16, 'b');
  for (const std::vector<std::string>& secrets : {std::vector{one, other}, {one, ""}, {"", one}}) {
    const test::RankAddress address(true);
    const std::vector<Outcome> outcomes = meet_by(address.text(), secrets, "--rank-timeout 3");
    for (const Outcome& o : outcomes) {
      EXPECT_EQ(o.code, 6) << o.err;
      EXPECT_EQ((o.err + o.out).find(one), std::string::npos) << o.err;
    }
    EXPECT_NE(outcomes[0].err.find("without this run's secret"), std::string::npos) << outcomes[0].err;
    EXPECT_NE(outcomes[1].err.find(": give all ranks the same one (--secret-file)"), std::string::npos) << outcomes[1].err;
  }
}

TEST(RankSecrets, OffThisMachineAreAskedFor) {
  const std::string secret(16, 'a'), note = "note: without a secret anyone who reaches ";
  const auto place = [](const std::string& host) {
    return concat(host, ':', test::RankAddress(true).text().substr(std::string("127.0.0.1:").size()));
  };
  for (const std::string& given : {std::string(), secret}) {
    const std::vector<Outcome> outcomes = meet_by(place("0.0.0.0"), {given, given});
    for (const Outcome& o : outcomes) EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(outcomes[0].err.find(note) != std::string::npos, given.empty()) << outcomes[0].err;
  }
  EXPECT_EQ(meet_by(place("127.0.0.1"), {"", ""})[0].err.find(note), std::string::npos);
}

}  // namespace
}  // namespace tandem::rank_tests
