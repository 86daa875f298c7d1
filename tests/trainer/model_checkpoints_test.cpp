// Runs that stop and go on: checkpoints, whole and damaged, and the folders that hold them.
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

TEST(ModelCheckpoints, AResumedRunEndsAsIfItHadNotStopped) {
  const Splits data = digits();
  const Trained whole = train(options(48), {.epochs = 3}, *data.train);
  const TemporaryFolder folder;
  const ModelOptions o = options(48);
  std::int64_t steps = 0;
  FitOptions first{.epochs = 3, .run_dir = folder / "run"};
  first.callbacks.on_step = [&](const StepReport&) { ++steps; };
  first.callbacks.stop = [&] { return steps == 7; };  // in the middle of the second epoch
  const Trained stopped = train(o, first, *data.train);
  EXPECT_TRUE(stopped.history.stopped);
  EXPECT_EQ(stopped.history.steps, 7);
  const Trained rest = train(o, {.epochs = 3, .run_dir = folder / "run", .resume = true}, *data.train);
  EXPECT_FALSE(rest.history.stopped);
  EXPECT_EQ(rest.history.steps, 15);
  EXPECT_TRUE(same(rest.parameters, whole.parameters));
  std::vector<double> joined = stopped.losses;
  joined.insert(joined.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(joined, whole.losses);
  ASSERT_EQ(rest.history.epochs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(rest.history.epochs[i].loss, whole.history.epochs[i].loss, 1e-12);

  expect_error(ExitCode::usage, "was started with option batch 48, now it is 32",
               [&] { train(options(32), {.epochs = 3, .run_dir = folder / "run", .resume = true}, *data.train); });
}

// Relu turns what is not a number into zero, so the loss may stay finite while the weights are lost.
TEST(ModelCheckpoints, LostWeightsStopTheRunAndSpareTheCheckpoint) {
  MemoryDataset data("poisoned");
  Tensor x(TensorType{DType::float32, {20, 1, 28, 28}});
  for (float& v : x.write<float>()) v = std::numeric_limits<float>::max();
  data.add({.name = "image"}, std::move(x));
  data.add({.name = "y", .role = Role::label}, Tensor(TensorType{DType::int64, {20}}));
  const TemporaryFolder folder;
  Model model = compiled("mlp", options(10));
  expect_error(ExitCode::diverged, " step ", [&] { model.fit(data, {.epochs = 2, .learning_rate = 0.1, .run_dir = folder / "run"}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "run/last.checkpoint"));
}

TEST(ModelCheckpoints, ACheckpointThatDoesNotFitIsRefusedByName) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run/last.checkpoint";
  train(options(10), {.epochs = 1, .run_dir = folder / "run"}, *data.train);
  const Checkpoint good = read_checkpoint(path);
  const auto resume = [&](const std::string& model, const Checkpoint& changed) {
    write_checkpoint(path, changed);
    Model(compiled(model, options(10))).fit(*data.train, {.epochs = 2, .run_dir = folder / "run", .resume = true});
  };
  const auto with = [&](std::string_view key, Json value) {
    Checkpoint c = good;
    Json::Object state;
    for (const auto& [name, was] : good.state.object()) state.emplace_back(name, name == key ? value : was);
    c.state = std::move(state);
    return c;
  };
  expect_error(ExitCode::usage, path.string() + " is a checkpoint of another model", [&] { resume("lenet", good); });
  expect_error(ExitCode::data, path.string() + ": batch is 3, expected 0 to 2", [&] { resume("mlp", with("batch", 3)); });
  expect_error(ExitCode::data, path.string() + ": step is -1", [&] { resume("mlp", with("step", -1)); });
  expect_error(ExitCode::data, path.string() + ": JSON: expected", [&] { resume("mlp", with("history", 1)); });
  Checkpoint lacking = good;
  lacking.weights.erase(lacking.weights.begin());
  std::filesystem::remove(folder / "run/previous.checkpoint");
  expect_error(ExitCode::data, path.string() + ": holds no '" + good.weights[0].name + "'", [&] { resume("mlp", lacking); });
  const Splits other = digits("synthetic:digits,train=20,test=10,seed=7");
  resume("mlp", good);
  expect_error(ExitCode::usage, path.string() + " is a checkpoint of a run on other data", [&] {
    Model(compiled("mlp", options(10))).fit(*other.train, {.epochs = 3, .run_dir = folder / "run", .resume = true});
  });
}

TEST(ModelCheckpoints, ADamagedCheckpointGivesWayToTheOneBeforeLoudly) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  const auto weights_after = [&](const std::filesystem::path& at, std::int64_t epochs, bool resume, std::string& note) {
    Model model(compiled("mlp", options(10)));
    FitOptions fit{.epochs = epochs, .run_dir = at, .resume = resume};
    fit.callbacks.on_warning = [&](const std::string& text) { note = text; };
    model.fit(*data.train, fit);
    return model.parameters();
  };
  std::string note;
  const auto wanted = weights_after(folder / "whole", 3, false, note);
  weights_after(run, 2, false, note);
  EXPECT_EQ(note, "");
  std::string bytes = read_file(run / "last.checkpoint");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_atomically(run / "last.checkpoint", bytes);
  const auto got = weights_after(run, 3, true, note);
  EXPECT_NE(note.find("is damaged"), std::string::npos) << note;
  EXPECT_NE(note.find("previous.checkpoint"), std::string::npos) << note;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(got[i].tensor.bytes(), wanted[i].tensor.bytes())) << got[i].name;
}

// A kill between the last checkpoint and the best, or while the epoch is measured: what was not compared is, on resuming.
TEST(ModelCheckpoints, TheBestCheckpointIsRightAfterAKillBetweenTheTwo) {
  const Splits data = digits("synthetic:digits,train=40,test=20");
  const TemporaryFolder folder;
  for (const bool measured : {false, true}) {
    const Dataset* const validation = measured ? data.test.get() : nullptr;
    const std::filesystem::path run = folder / (validation ? "measured" : "by_loss");
    const auto fit = [&](std::int64_t epochs, bool resume) {
      return train(options(10), {.epochs = epochs, .validation = validation, .run_dir = run, .resume = resume}, *data.train).history;
    };
    const History first = fit(2, false);
    EXPECT_EQ(first.checkpoints, 2) << "one an epoch, the best under a second name";
    const std::vector<NamedTensor> best = read_checkpoint(run / "best.checkpoint").weights;
    std::filesystem::remove(run / "best.checkpoint");
    fit(2, true);
    ASSERT_TRUE(std::filesystem::exists(run / "best.checkpoint")) << run;
    EXPECT_TRUE(same(read_checkpoint(run / "best.checkpoint").weights, best)) << run;
  }
}

TEST(ModelCheckpoints, ARunThatStartsAnewKeepsNothingOfTheOneBefore) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  train(options(10), {.epochs = 3, .run_dir = folder / "run"}, *data.train);
  FitOptions fit{.epochs = 1, .run_dir = folder / "run"};
  fit.callbacks.on_step = [&](const StepReport&) {
    for (const char* name : {"last.checkpoint", "previous.checkpoint", "best.checkpoint"})
      EXPECT_FALSE(std::filesystem::exists(folder / "run" / name)) << name;
  };
  train(options(10), fit, *data.train);
}

// A damaged last checkpoint must not push the good one before it away.
TEST(ModelCheckpoints, ADamagedCheckpointNeverBecomesTheOneBefore) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  train(options(10), {.epochs = 2, .run_dir = run}, *data.train);
  const std::string before = read_file(run / "previous.checkpoint");
  folder.write("run/last.checkpoint", "damaged");
  train(options(10), {.epochs = 2, .run_dir = run, .resume = true}, *data.train);
  EXPECT_TRUE(read_file(run / "previous.checkpoint") == before);
}

TEST(ModelCheckpoints, OneRunHoldsItsFolder) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  Model model = compiled("mlp", options(10));
  FitOptions fit{.epochs = 1, .run_dir = folder / "run"};
  fit.callbacks.on_epoch = [&](const EpochReport&) {
    expect_error(ExitCode::io, "a run is going on there (process ",
                 [&] { train(options(10), {.epochs = 1, .run_dir = folder / "run"}, *data.train); });
  };
  model.fit(*data.train, fit);
  train(options(10), {.epochs = 1, .run_dir = folder / "run"}, *data.train);
}

}  // namespace
}  // namespace tandem::model_tests
