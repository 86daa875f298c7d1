// The commands one after another, as a user runs them.
#include <atomic>
#include <csignal>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "base/file.h"
#include "cli/interrupt.h"
#include "data/npy.h"
#include "data/zip.h"
#include "tests/cli/process.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> list;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) list.push_back(Json::parse(line));
  return list;
}

const std::string digits = "--data synthetic:digits,train=400,test=100 --batch-size 64 --no-autotune ";

TEST(Commands, TrainEvaluateAndPredict) {
  const TemporaryFolder folder;
  const Outcome trained = run_tandem(words("train MODELS/lenet.onnx " + digits +
                                               "--init he-normal --epochs 2 --lr 0.05 --momentum 0.9 --devices cpu:0-1 "
                                               "--run-dir TMP/run --output TMP/out.onnx --also-training-graph TMP/graph.onnx --json",
                                           folder.text()));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<Json> events = lines(trained.out);
  ASSERT_EQ(events.size(), 1u + 14 + 2 + 1);
  std::map<std::string, int> count;
  for (const Json& e : events) ++count[e.at("event").text()];
  EXPECT_EQ(count, (std::map<std::string, int>{{"plan", 1}, {"step", 14}, {"epoch", 2}, {"done", 1}}));
  for (const char* key :
       {"step", "loss", "epoch", "accuracy", "val_accuracy", "samples_per_second", "waiting_share", "peak_bytes", "predicted_peak_bytes"})
    EXPECT_TRUE(events.back().at(key).number() >= 0) << key;
  EXPECT_EQ(events.back().at("peak_bytes").integer(), events.back().at("predicted_peak_bytes").integer());
  EXPECT_LT(events.back().at("loss").number(), events[1].at("loss").number());
  EXPECT_GT(std::filesystem::file_size(folder / "graph.onnx"), 1000u);

  const Outcome evaluated = run_tandem(words("evaluate TMP/out.onnx " + digits + "--json", folder.text()));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(lines(evaluated.out).at(0).at("loss").number(), events.back().at("val_loss").number(), 1e-4);
  EXPECT_EQ(lines(evaluated.out).at(0).at("samples").integer(), 100);
  EXPECT_EQ(evaluated.err, "");
  EXPECT_EQ(lines(evaluated.out).at(0).at("tables").at("").at("confusion").array().size(), 0u) << "counted without being asked for";
  const Outcome watched = run_tandem(words("evaluate TMP/out.onnx " + digits + "--json --metrics confusion", folder.text()), {}, true);
  std::int64_t counted = 0;
  const Json confusion = lines(watched.out).at(0).at("tables").at("").at("confusion");
  for (const Json& label : confusion.array())
    for (const Json& predicted : label.array()) counted += predicted.integer();
  EXPECT_EQ(counted, 100);
  EXPECT_NE(watched.err.find("\r[###############.........] 64 of 100 samples"), std::string::npos) << watched.err;

  write_atomically(folder / "x.npy", npy_of(Tensor(TensorType{DType::uint8, {5, 28, 28}})));
  const Outcome predicted = run_tandem(words("predict TMP/out.onnx --data TMP/x.npy --output TMP/y.npy --batch-size 2", folder.text()));
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  const std::string file = read_file(folder / "y.npy");
  EXPECT_EQ(to_string(parse_npy(std::as_bytes(std::span(file)), "y").type()), "float32[5,10]");
  EXPECT_EQ(run_tandem(words("predict TMP/out.onnx " + digits + "--output TMP/y.npz --json", folder.text())).code, 0);
  EXPECT_EQ(ZipReader(folder / "y.npz").names().size(), 1u);
}

TEST(Commands, ARunIsNotOverwrittenUnasked) {
  const TemporaryFolder folder;
  const std::string line = "train MODELS/mlp.onnx " + digits + "--init he-normal --run-dir TMP/run --output TMP/out.onnx --quiet";
  const Outcome first = run_tandem(words(line, folder.text()));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  const Outcome again = run_tandem(words(line, folder.text()));
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--resume goes on with it, --overwrite starts anew"), std::string::npos) << again.err;
  EXPECT_EQ(run_tandem(words(line + " --overwrite", folder.text())).code, 0);
  // A resumed run needs no more than its folder: its other options are those it was started with.
  const Outcome resumed = run_tandem(words("train --resume --run-dir TMP/run --epochs 2", folder.text()));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const std::string csv = read_file(folder / "run/metrics.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  // The run's configuration is enough to start it again.
  const Outcome by_file = run_tandem(words("train --config TMP/run/config.json --overwrite --quiet", folder.text()));
  EXPECT_EQ(by_file.code, 0) << by_file.err;
}

// A line that a queue starts again and again is the same each time.
TEST(Commands, AResumedRunWithoutACheckpointStartsAnew) {
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/mlp.onnx " + digits + "--init he-normal --run-dir TMP/run --output TMP/out.onnx --no-autotune --resume";
  const std::string says = "holds no checkpoint yet: the run starts anew";
  const Outcome first = run_tandem(words(line, folder.text()));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find(says), std::string::npos) << first.err;
  const std::string trained = read_file(folder / "out.onnx");
  for (const char* name : {"run/last.checkpoint", "run/best.checkpoint"})
    std::filesystem::remove(folder / name);  // as it was killed before these
  const Outcome again = run_tandem(words("train --resume --run-dir TMP/run --devices cpu:0", folder.text()));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find(says), std::string::npos) << again.err;
  EXPECT_TRUE(read_file(folder / "out.onnx") == trained);
  const Outcome resumed = run_tandem(words(line, folder.text()));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find(says), std::string::npos) << resumed.err;
  std::filesystem::remove(folder / "run/last.checkpoint");
  std::filesystem::remove(folder / "run/previous.checkpoint");
  const Outcome ranks =
      Process(folder, "ranks", words("train --resume --run-dir TMP/run --processes 2 --devices cpu:0-1 --epochs 2", folder.text())).wait();
  EXPECT_EQ(ranks.code, 0) << ranks.err;
  EXPECT_NE(ranks.err.find(says), std::string::npos) << ranks.err;
}

// Every option says what another value means for a resumed run, once.
TEST(Commands, WhatAResumedRunTakesIsDocumentedForEveryOption) {
  const std::string page = read_file(std::string(TANDEM_SOURCE_DIR) + "/docs/training.md"),
                    help = run_tandem({"train", "--help", "all"}).out;
  const std::size_t begin = page.find("| another value on `--resume` |"), end = page.find("\n\n", begin);
  ASSERT_NE(begin, std::string::npos);
  std::multiset<std::string> told;
  const std::regex quoted("`--([a-z0-9-]+)`"), listed("\n  --(no-)?([a-z0-9-]+)");
  const std::string table = page.substr(page.find('\n', begin), end - page.find('\n', begin));
  for (auto at = std::sregex_iterator(table.begin(), table.end(), quoted); at != std::sregex_iterator(); ++at) told.insert((*at)[1]);
  std::set<std::string> options;  // the most used stand in the help twice
  for (auto at = std::sregex_iterator(help.begin(), help.end(), listed); at != std::sregex_iterator(); ++at) options.insert((*at)[2]);
  for (const std::string& name : options) {
    if (name != "resume" && name != "help") {
      EXPECT_EQ(told.count(name), 1U) << name;
    }
    told.erase(name);
  }
  EXPECT_TRUE(told.empty()) << *told.begin() << " is no option";
}

TEST(Commands, ARunsConfigurationIsReadByOthers) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_tandem(words("train MODELS/lenet.onnx " + digits +
                                 "--init he-normal --normalize 0.5,0.5 --run-dir TMP/run --output TMP/out.onnx --json",
                             folder.text()))
                .code,
            0);
  const std::string written = read_file(folder / "out.onnx");
  const Outcome evaluated = run_tandem(words("evaluate --config TMP/run/config.json --json", folder.text()));
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NE(evaluated.err.find("note: the model is " + (folder / "out.onnx").string()), std::string::npos) << evaluated.err;
  const Outcome by_options = run_tandem(words("evaluate TMP/out.onnx " + digits + "--normalize 0.5,0.5 --json", folder.text()));
  EXPECT_EQ(lines(evaluated.out).at(0).at("loss").number(), lines(by_options.out).at(0).at("loss").number());
  const Outcome planned = run_tandem(words("plan --config TMP/run/config.json --format summary", folder.text()));
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_NE(planned.out.find("batch           64"), std::string::npos) << planned.out;
  const Outcome predicted = run_tandem(words("predict --config TMP/run/config.json --output TMP/y.npy", folder.text()));
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(read_file(folder / "out.onnx") == written) << "no other command writes where the run wrote";
  std::string config = read_file(folder / "run/config.json");
  folder.write("slip.json", config.replace(config.find("\"loss\""), 6, "\"losss\""));
  const Outcome slip = run_tandem(words("evaluate --config TMP/slip.json", folder.text()));
  EXPECT_EQ(slip.code, 2);
  EXPECT_NE(slip.err.find("'losss', did you mean loss?"), std::string::npos) << slip.err;
}

// The end of a run that only --steps gives is kept too, not the default of --epochs.
TEST(Commands, AConfigurationKeepsTheNumberOfSteps) {
  const TemporaryFolder folder;
  const std::string line = "train MODELS/mlp.onnx " + digits + "--init he-normal --steps 9 --run-dir TMP/run --output TMP/out.onnx --json";
  const Outcome first = run_tandem(words(line, folder.text()));
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome again = run_tandem(words("train --config TMP/run/config.json --overwrite", folder.text()));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(lines(first.out).back().at("step").integer(), 9);
  EXPECT_EQ(lines(again.out).back().at("step").integer(), 9);
}

TEST(Commands, AnInterruptedRunGoesOn) {
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/mlp.onnx " + digits + "--init he-normal --epochs 20000 --run-dir TMP/run --output TMP/out.onnx --quiet ";
  std::atomic<bool> ended = false;
  std::thread interrupter([&] {
    // The handler stands before training begins; the first checkpoint follows the first of very many epochs.
    while (!ended && !std::filesystem::exists(folder / "run/last.checkpoint")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!ended) std::raise(SIGINT);
  });
  const Outcome stopped = run_tandem(words(line, folder.text()));
  ended = true;
  interrupter.join();
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
  const Outcome resumed = run_tandem(words(line + "--resume --steps 1", folder.text()));  // it is past that step: only the file is written
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.out.find("loss 0.0000"), std::string::npos) << "no loss was computed: " << resumed.out;
  EXPECT_TRUE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(Interrupts, TwoAtOnceAreOneAndALaterOneEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto signals = [](std::initializer_list<int> list, std::chrono::milliseconds wait) {
    Interrupt interrupt;
    interrupt.announce("", Interrupt::End::saved);
    for (const int s : list) std::raise(s);
    std::this_thread::sleep_for(wait);
    if (wait.count() > 0) std::raise(SIGTERM);
    return interrupt.signal();
  };
  EXPECT_EQ(signals({}, {}), 0);
  EXPECT_EQ(signals({SIGINT, SIGTERM, SIGINT}, {}), SIGINT);
  EXPECT_EXIT(signals({SIGINT, SIGINT}, std::chrono::milliseconds(1100)), testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EQ(signals({SIGUSR1}, std::chrono::milliseconds(400)), SIGUSR1) << "the end of Slurm's time comes after its warning";
  EXPECT_EQ(signals({SIGHUP}, std::chrono::milliseconds(400)), SIGHUP);
  EXPECT_EXIT(Interrupt interrupt; interrupt.announce("", Interrupt::End::soon); std::raise(SIGTERM); std::this_thread::sleep_for(std::chrono::seconds(5)),
              testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(Commands, AWrongLabelIsFoundBeforeTraining) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "d.npz");
  ZipWriter zip([&](std::string_view bytes) { file.append(bytes); });
  zip.add("x.npy", npy_of(Tensor(TensorType{DType::uint8, {3, 28, 28}})));
  zip.add("y.npy", npy_of(Tensor::of<std::int64_t>({3}, {1, 10, 2})));
  zip.finish();
  file.commit();
  const Outcome o = run_tandem(words("train MODELS/lenet.onnx --data npz:TMP/d.npz --no-autotune --output TMP/o.onnx", folder.text()));
  EXPECT_EQ(o.code, 4);
  EXPECT_NE(o.err.find("sample 1 has label 10, the model's output has 10 classes (0 to 9)"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("Training plan"), std::string::npos) << "nothing is planned for data that does not fit";
}

// Of noise, so that the best epoch is not the last.
TEST(Commands, HeldOutDataIsMeasuredWithTheWeightsThatAreKept) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "noise.npz");
  ZipWriter zip([&](std::string_view bytes) { file.append(bytes); });
  Tensor x(TensorType{DType::float32, {80, 28, 28}}), y(TensorType{DType::int64, {80}});
  std::mt19937 random(3);
  for (float& v : x.write<float>()) v = std::uniform_real_distribution<float>(-1, 1)(random);
  for (std::int64_t& v : y.write<std::int64_t>()) v = static_cast<std::int64_t>(random() % 10);
  zip.add("x.npy", npy_of(x));
  zip.add("y.npy", npy_of(y));
  zip.finish();
  file.commit();
  const Outcome o = run_tandem(
      words("train MODELS/mlp.onnx --data npz:TMP/noise.npz --validation-split 0.5 --keep best --epochs 8 --lr 0.2 --init he-normal "
            "--batch-size 8 --no-autotune --run-dir TMP/run --output TMP/o.onnx --json",
            folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  double best = 0;
  for (const Json& e : lines(o.out))
    if (e.at("event").text() == "epoch") best = std::max(best, e.at("val_accuracy").number());
  const Json done = lines(o.out).back();
  ASSERT_LT(done.at("val_accuracy").number(), best) << "the last epoch is the best: this says nothing";
  EXPECT_EQ(done.at("test_accuracy").number(), best);
}

TEST(Commands, APlanFileIsCheckedAndTheTrainingGraphIsOnnx) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_tandem(words("plan MODELS/lenet.onnx --devices cpu:0-1 --format plan --output TMP/a.plan", folder.text())).code, 0);
  const Outcome checked = run_tandem(words("plan --check TMP/a.plan", folder.text()));
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("ok, lenet, batch 32 over 2 devices"), std::string::npos) << checked.out;
  std::string bytes = read_file(folder / "a.plan");
  folder.write("cut.plan", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(run_tandem(words("plan --check TMP/cut.plan", folder.text())).code, 3);
  EXPECT_EQ(run_tandem(words("plan MODELS/lenet.onnx --format onnx --output TMP/a.onnx", folder.text())).code, 0);
  EXPECT_GT(std::filesystem::file_size(folder / "a.onnx"), 1000u);
}

TEST(Commands, CudaIsNeverSilentlyReplaced) {
  const Outcome devices = run_tandem({"devices"});
  const Outcome o = run_tandem(words("train MODELS/mlp.onnx --data random --devices cuda:0 --output /dev/null/x"));
  EXPECT_NE(o.code, 0);
  if (devices.out.find("cuda     not usable") == std::string::npos) GTEST_SKIP() << "this machine has a usable GPU";
  const TemporaryFolder folder;
  const Outcome refused = run_tandem(words("train MODELS/mlp.onnx --data random --devices cuda:0 --output TMP/o.onnx", folder.text()));
  EXPECT_EQ(refused.code, 5);
  EXPECT_NE(refused.err.find("device cuda:0 cannot be used: "), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace tandem
