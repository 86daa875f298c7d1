// Runs that are resumed with other options than they were started with, and checkpoints that no such run writes.
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

struct RunSetup {
  ModelOptions model = options(10);
  FitOptions fit{.epochs = 1, .learning_rate = 0.02};
};
struct Row {
  const char* name;
  void (*change)(RunSetup&);
  const char* says;  // what differs
  bool refused;      // else a warning tells it; of an empty text: nothing
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// Returns what was warned of.
std::string train_once(RunSetup run, const std::filesystem::path& folder, bool resume) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  std::string warned;
  run.fit.run_dir = folder;
  run.fit.resume = resume;
  run.fit.callbacks.on_warning = [&](const std::string& text) { warned += text + "\n"; };
  Model model = compiled("mlp", run.model);
  model.fit(*data.train, run.fit);
  return warned;
}

class ChangedOption : public testing::TestWithParam<Row> {};
TEST_P(ChangedOption, IsRefusedOrTold) {
  const TemporaryFolder folder;
  RunSetup run;
  train_once(run, folder / "run", false);
  run.fit.epochs = 2;
  GetParam().change(run);
  const std::string says = GetParam().says, path = (folder / "run/last.checkpoint").string();
  if (GetParam().refused)
    return expect_error(ExitCode::usage, path + ": the run was started with " + says, [&] { train_once(run, folder / "run", true); });
  const std::string warned = train_once(run, folder / "run", true);
  if (says.empty())
    EXPECT_EQ(warned, "");
  else
    EXPECT_EQ(warned, path + ": the run was started with " + says + "; it goes on by the new\n");
}
constexpr const char* other_weights = "other weights to train than now (option freeze, ";
INSTANTIATE_TEST_SUITE_P(
    Rows, ChangedOption,
    testing::Values(Row{"seed", [](RunSetup& r) { r.model.seed = 2; }, "option seed 1, now it is 2", true},
                    Row{"shuffle", [](RunSetup& r) { r.fit.shuffle = false; }, "option shuffle true, now it is false", true},
                    Row{"normalize", [](RunSetup& r) { r.fit.preprocess.mean = {0.1}; r.fit.preprocess.deviation = {0.3}; }, "option normalize none, now it is 0.1,0.3", true},
                    Row{"resize", [](RunSetup& r) { r.fit.preprocess.resizing.stretch = true; }, "option resize crop, now it is stretch", true},
                    Row{"label_smoothing", [](RunSetup& r) { r.model.plan.loss.smoothing = 0.1; }, "option label_smoothing 0, now it is 0.1", true},
                    Row{"class_weights", [](RunSetup& r) { r.model.plan.loss.class_weights = std::vector<double>(10, 2.0); }, "option class_weights none, now it is [2,2", true},
                    Row{"ignore_index", [](RunSetup& r) { r.model.plan.loss.ignore_index = -1; }, "option ignore_index none, now it is -1", true},
                    Row{"running_variance", [](RunSetup& r) { r.model.unbiased_variance = true; }, "option running_variance none, now it is true", true},
                    Row{"max_loop_iterations", [](RunSetup& r) { r.model.max_loop_iterations = 3; }, "option max_loop_iterations 0, now it is 3", true},
                    Row{"sync_batch_norm", [](RunSetup& r) { r.model.plan.synchronize_batch_norm = true; }, "option synchronize_batch_norm false, now it is true", true},
                    Row{"precision", [](RunSetup& r) { r.model.plan.precision = Precision::bf16; }, "option precision fp32, now it is bf16", true},
                    Row{"optimizer", [](RunSetup& r) { r.model.plan.optimizer = optimizer_defaults("adam"); }, "option optimizer sgd, now it is adam", true},
                    Row{"ema", [](RunSetup& r) { r.fit.averaging.ema = 0.9; r.model.plan.optimizer.average = true; }, "option ema 0, now it is 0.9", true},
                    Row{"swa", [](RunSetup& r) { r.fit.averaging.swa = true; r.model.plan.optimizer.average = true; }, "option swa false, now it is true", true},
                    Row{"best", [](RunSetup& r) { r.fit.best = "loss"; }, "option best none, now it is loss", true},
                    Row{"freeze", [](RunSetup& r) { r.model.plan.trained.freeze = {"fc1*"}; }, other_weights, true},
                    Row{"two_at_once", [](RunSetup& r) { r.model.seed = 2; r.fit.shuffle = false; }, "option seed 1, now it is 2, with option shuffle true, now it is false", true},
                    Row{"learning_rate", [](RunSetup& r) { r.fit.learning_rate = 0.01; }, "option learning_rate 0.02, now it is 0.01", false},
                    Row{"schedule", [](RunSetup& r) { r.fit.schedule = parse_schedule("exponential"); }, "option lr_schedule constant,warmup=0, now it is exponential,factor=0.9,warmup=0", false},
                    Row{"momentum", [](RunSetup& r) { r.model.plan.optimizer.momentum = 0.5; }, "option momentum 0.9, now it is 0.5", false},
                    Row{"weight_decay", [](RunSetup& r) { r.model.plan.optimizer.weight_decay = 0.5; }, "option weight_decay 0, now it is 0.5", false},
                    Row{"clip_norm", [](RunSetup& r) { r.model.plan.optimizer.clip_norm = 1; }, "option clip_norm 0, now it is 1", false},
                    Row{"augment", [](RunSetup& r) { parse_augment(r.fit.preprocess, "cifar,rotate=10,randaugment"); }, "option augment none, now it is crop=4,flip,rotate=10,randaugment=9", false},
                    Row{"devices", [](RunSetup& r) { r.model.plan.devices = parse_devices("cpu:0-1", ""); }, "", false},
                    Row{"early_stopping", [](RunSetup& r) { r.fit.early_stopping.patience = 3; }, "", false},
                    Row{"records", [](RunSetup& r) { r.fit.checkpoint_steps = 1; r.fit.keep_checkpoints = 2; r.fit.metrics = {"f1"}; }, "", false}),
    [](const auto& row) { return std::string(row.param.name); });

// A plateau's factor is of its schedule: another one would go on with a rate that nobody asked for.
TEST(ChangedSchedule, OfAPlateauIsRefused) {
  const TemporaryFolder folder;
  RunSetup run;
  run.fit.epochs = 3;
  run.fit.schedule = parse_schedule("plateau,patience=0,threshold=0.9");
  train_once(run, folder / "run", false);
  run.fit.epochs = 4;
  EXPECT_EQ(train_once(run, folder / "run", true), "");
  for (const char* other : {"constant", "cosine", "plateau,patience=5", "plateau,factor=0.5"}) {
    run.fit.schedule = parse_schedule(other);
    expect_error(ExitCode::usage,
                 "option lr_schedule plateau,cooldown=0,factor=0.1,least=0,patience=0,threshold=0.9,warmup=0, whose factor and counters no "
                 "other has",
                 [&] { train_once(run, folder / "run", true); });
  }
}

// The state that steers a run, changed in a file that is whole.
TEST(Checkpoint, ThatContradictsItsRunIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run/last.checkpoint";
  RunSetup run;
  run.fit.epochs = 3;
  for (const bool plateau : {false, true}) {
    run.fit.schedule = parse_schedule(plateau ? "plateau,patience=0,threshold=0.9" : "constant");
    std::filesystem::remove_all(folder / "run");
    train_once(run, folder / "run", false);
    const Checkpoint good = read_checkpoint(path);
    const auto refused = [&](std::string_view key, std::string_view part, const Json& value, const std::string& says) {
      Json::Object state = good.state.object();
      for (auto& [name, was] : state)
        if (name == key && part.empty()) {
          was = value;
        } else if (name == key) {
          Json::Object inner = was.object();
          for (auto& [member, held] : inner)
            if (member == part) held = value;
          was = inner;
        }
      Checkpoint changed = good;
      changed.state = state;
      write_checkpoint(path, changed);
      expect_error(ExitCode::data, "contradicts the run's options: " + says, [&] { train_once(run, folder / "run", true); });
    };
    if (plateau) {
      refused("plateau", "factor", 0.5,
              "the schedule plateau,cooldown=0,factor=0.1,least=0,patience=0,threshold=0.9,warmup=0 does not give a factor of 0.5 after 3 "
              "epochs");
      refused("plateau", "factor", 1000.0, "the schedule plateau");
      refused("plateau", "factor", 1e-20, "the schedule plateau");
      refused("plateau", "bad", 7,
              "the schedule plateau,cooldown=0,factor=0.1,least=0,patience=0,threshold=0.9,warmup=0 does not give 7 epochs without a "
              "better measure");
      refused("plateau", "cooldown", 2, "the schedule plateau");
    } else {
      refused("plateau", "factor", 0.1, "it has a plateau's factor, 0.1, or its counters, and the schedule constant has none");
      refused("plateau", "bad", 1, "it has a plateau's factor");
      refused("step", "", 7, "step 7 is not in epoch 3, behind 0 batches of 2");
      refused("epoch", "", 1, "step 6 is not in epoch 1");
      refused("early", "bad", 9, "early stopping counts 9 epochs of 3");
      refused("averaged", "", 2, "the average of weights counts 2 steps of 0");
      refused("judged", "", 100, "epochs are measured beyond step 6");
    }
  }
}

// As versions before wrote it, whose plan was of one batch of several that made a step.
TEST(Checkpoint, OfStepsOfSeveralBatchesIsTakenUp) {
  const TemporaryFolder folder;
  RunSetup run;
  run.model.plan.batch = 8;
  run.model.plan.parallel.micro_batches = 2;
  run.fit.steps = 2;  // of three
  std::vector<Checkpoint> ends;
  for (const bool earlier : {false, true}) {
    const std::filesystem::path path = folder / (earlier ? "earlier" : "now") / "last.checkpoint";
    train_once(run, path.parent_path(), false);
    Checkpoint checkpoint = read_checkpoint(path);
    Json::Object state = checkpoint.state.object();
    for (auto& [key, value] : state) {
      if (key == "batch" && earlier) value = 4;
      if (key != "run" || !earlier) continue;
      Json::Object facts = value.object();
      for (auto& [fact, was] : facts)
        if (fact == "batch_size") was = 4;
      facts.emplace_back("accumulate", 2);
      value = facts;
    }
    checkpoint.state = state;
    if (earlier) checkpoint.optimizer.push_back({.name = "gradient_sum/fc1.bias", .tensor = Tensor::of<float>({1}, {3})});
    write_checkpoint(path, checkpoint);
    RunSetup whole = run;
    whole.fit.steps = 0;
    EXPECT_EQ(train_once(whole, path.parent_path(), true), "");
    ends.push_back(read_checkpoint(path));
  }
  EXPECT_EQ(ends[0].state.at("step").integer(), 3);
  EXPECT_EQ(ends[1].state.at("step").integer(), 3);
  ASSERT_EQ(ends[0].weights.size(), ends[1].weights.size());
  for (std::size_t i = 0; i < ends[0].weights.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(ends[0].weights[i].tensor.bytes(), ends[1].weights[i].tensor.bytes())) << ends[0].weights[i].name;
}

}  // namespace
}  // namespace tandem::model_tests
