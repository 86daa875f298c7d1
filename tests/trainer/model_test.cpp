// The C++ API end to end, on the bundled templates and the CPU backend.
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

TEST(ModelApi, TheSameRunTwiceIsBitwiseTheSame) {
  const Splits data = digits();
  const Trained a = train(options(32, "cpu:0-1"), {.epochs = 2}, *data.train),
                b = train(options(32, "cpu:0-1"), {.epochs = 2}, *data.train);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_TRUE(same(a.parameters, b.parameters));
}

struct DevicesRow {
  const char* devices;
  const char* weights;
};
// 200 samples in batches of 48: the last batch has 8, fewer rows than some slices round to.
TEST(ModelApi, AnyDevicesTrainAsOneDoes) {
  const Splits data = digits();
  const Trained one = train(options(48), {.epochs = 2}, *data.train);
  ASSERT_EQ(one.losses.size(), 10u);
  for (const DevicesRow& row :
       {DevicesRow{"cpu:0-1", ""}, DevicesRow{"cpu:0-3", ""}, DevicesRow{"cpu:0-1", "3,1"}, DevicesRow{"cpu:0-2", "1,0,2"}}) {
    const Trained many = train(options(48, row.devices, row.weights), {.epochs = 2}, *data.train);
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(many.losses[i] / one.losses[i], 1, 1e-4) << row.devices << " step " << i;
  }
}

// One-hot rows in float32 stand for the same classes as indices do.
TEST(ModelApi, OneHotLabelsTrainAsClassIndicesDo) {
  const Splits data = digits();
  const auto& whole = dynamic_cast<const MemoryDataset&>(*data.train);
  MemoryDataset one_hot("one-hot");
  Tensor labels(TensorType{DType::float32, {whole.size(), 10}});
  for (std::int64_t i = 0; i < whole.size(); ++i)
    labels.write<float>()[static_cast<std::size_t>(10 * i + whole.values(1).values<std::uint8_t>()[static_cast<std::size_t>(i)])] = 1;
  one_hot.add(whole.fields()[0], whole.values(0));
  one_hot.add({.name = "y", .role = Role::label}, labels);

  ModelOptions o = options(48);
  const Trained by_index = train(o, {.epochs = 1, .validation = &whole}, whole);
  Model::load(template_path("mlp")).source().fit_labels(o, one_hot);
  EXPECT_TRUE(o.plan.loss.dense_labels);
  const Trained by_row = train(o, {.epochs = 1, .validation = &one_hot}, one_hot);
  ASSERT_EQ(by_row.losses.size(), by_index.losses.size());
  for (std::size_t i = 0; i < by_row.losses.size(); ++i) EXPECT_NEAR(by_row.losses[i], by_index.losses[i], 1e-5) << "step " << i;
  EXPECT_EQ(by_row.history.epochs[0].accuracy, by_index.history.epochs[0].accuracy);
  EXPECT_EQ(by_row.history.epochs[0].val_accuracy, by_index.history.epochs[0].val_accuracy);
  EXPECT_NEAR(by_row.history.epochs[0].val_loss, by_index.history.epochs[0].val_loss, 1e-5);
}

TEST(ModelApi, ARunLeavesItsFiles) {
  const Splits data = digits();
  const TemporaryFolder folder;
  train(options(50), {.epochs = 2, .validation = data.test.get(), .run_dir = folder / "run", .config = Json::Object{{"lr", 0.02}}},
        *data.train);
  for (const char* name : {"config.json", "plan.txt", "metrics.csv", "curves.svg", "last.checkpoint", "best.checkpoint"})
    EXPECT_GT(std::filesystem::file_size(folder / (std::string("run/") + name)), 10u) << name;
  const std::string csv = read_file(folder / "run/metrics.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").optimizer.size(),
            read_checkpoint(folder / "run/last.checkpoint").weights.size());
}

TEST(ModelApi, ADivergingLossStopsTheRun) {
  const Splits data = digits();
  Model model = compiled("mlp", options(50));
  expect_error(ExitCode::diverged, "at step ", [&] { model.fit(*data.train, {.epochs = 20, .learning_rate = 1e20}); });
}

TEST(ModelApi, ASecondCompileKeepsTheWeights) {
  const Splits data = digits("synthetic:digits,train=40,test=10");
  Model model = compiled("mlp", options(10));
  model.fit(*data.train, {.epochs = 1, .learning_rate = 0.1});
  const std::vector<NamedTensor> trained = model.parameters();
  EXPECT_FALSE(same(trained, compiled("mlp", options(10)).parameters()));
  model.compile(options(20, "cpu:0-1"), backends);
  EXPECT_TRUE(same(trained, model.parameters()));
  ModelOptions inference = options(4);
  inference.plan.mode = PlanMode::inference;
  model.compile(inference, backends);
  EXPECT_TRUE(same(trained, model.parameters()));
}

TEST(ModelApi, RefusesALearningRateThatIsNone) {
  const Splits data = digits("synthetic:digits,train=10,test=10");
  Model model = compiled("mlp", options(10));
  for (const double rate : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()})
    expect_error(ExitCode::usage, "learning rate", [&] { model.fit(*data.train, {.epochs = 1, .learning_rate = rate}); });
}

// Epochs without end are no overflow: steps end the run.
TEST(ModelApi, RefusesADeviceThatIsThereTwice) {
  expect_error(ExitCode::usage, "cpu:0 is there twice", [] { compiled("mlp", options(32, "cpu:0,cpu:0")); });
}

TEST(ModelApi, AnyNumberOfEpochsCanBeAskedFor) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  Model model = compiled("mlp", options(10));
  EXPECT_EQ(model.fit(*data.train, {.epochs = std::numeric_limits<std::int64_t>::max(), .steps = 3}).steps, 3);
}

TEST(ModelApi, AValidationIsStoppedBetweenKernels) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  Model model = compiled("mlp", options(10));
  const auto asked_in = [&](int most) {
    std::atomic<int> asked = 0;
    const Evaluation e = model.evaluate(*data.test, {.stop = [&] { return ++asked > most; }});
    EXPECT_EQ(e.stopped, most < 1000);
    return asked.load();
  };
  const int all = asked_in(1000);
  EXPECT_GT(all, 3) << "of one batch: once a kernel, and after it";
  EXPECT_TRUE(std::isfinite(model.evaluate(*data.test).loss)) << "it can be measured again";
  asked_in(1);
  EXPECT_EQ(asked_in(1000), all);
}

TEST(ModelApi, EvaluationAgreesWithTrainingsOwnLoss) {
  const Splits data = digits("synthetic:digits,train=64,test=10");
  Model model = compiled("mlp", options(64));
  std::vector<StepReport> steps;
  FitOptions fit{.epochs = 1, .learning_rate = 0};
  fit.callbacks.on_step = [&](const StepReport& r) { steps.push_back(r); };
  model.fit(*data.train, fit);
  const Evaluation e = model.evaluate(*data.train, {.batch = 24});
  EXPECT_NEAR(e.loss, steps.at(0).loss, 1e-5 * steps[0].loss);
  EXPECT_DOUBLE_EQ(e.accuracy, steps[0].accuracy);
  EXPECT_EQ(e.samples, 64);
}

TEST(ModelApi, PredictsTheSameInBatchesAndAtOnce) {
  const Splits data = digits("synthetic:digits,train=10,test=25");
  Model model = compiled("lenet", options(8, "cpu:0-1"));
  const std::vector<NamedTensor> all = model.predict(*data.test);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(to_string(all[0].tensor.type()), "float32[25,10]");
  const Tensor pixels = static_cast<const MemoryDataset&>(*data.test).values(0).cast(DType::float32);
  std::vector<float> scaled(pixels.values<float>().begin(), pixels.values<float>().end());
  for (float& v : scaled) v *= 1.0f / 255;
  const Tensor batch = Tensor::of<float>({25, 1, 28, 28}, scaled);
  const Tensor at_once = model.predict_on_batch({&batch, 1}).at(0);
  for (std::size_t i = 0; i < 250; ++i) EXPECT_NEAR(at_once.values<float>()[i], all[0].tensor.values<float>()[i], 1e-4);
}

TEST(ModelApi, ASavedModelPredictsTheSame) {
  const TemporaryFolder folder;
  const Splits data = digits();
  Model model = compiled("lenet", options(20));
  model.fit(*data.train, {.epochs = 1, .learning_rate = 0.01});
  model.save(folder / "out.onnx");
  Model saved = Model::load(folder / "out.onnx");
  ModelOptions o = options(20);
  o.init = "keep";
  o.plan.mode = PlanMode::inference;
  saved.compile(o, backends);
  const auto a = model.predict(*data.test), b = saved.predict(*data.test);
  for (std::size_t i = 0; i < a[0].tensor.values<float>().size(); ++i)
    EXPECT_NEAR(a[0].tensor.values<float>()[i], b[0].tensor.values<float>()[i], 1e-5);
}

TEST(ModelApi, TrainsOnSingleBatches) {
  Model model = compiled("mlp", options(4));
  const std::vector<Tensor> batch{Tensor(TensorType{DType::float32, {4, 1, 28, 28}}), Tensor::of<std::int64_t>({4}, {0, 1, 2, 3})};
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(model.train_on_batch(batch, 0.1).loss);
  EXPECT_NEAR(losses[0], std::log(10), 1e-5);  // zero input, zero biases: all classes alike
  EXPECT_LT(losses[4], losses[0]);
  const std::vector<Tensor> wrong{Tensor(TensorType{DType::float32, {4, 1, 28, 27}}), batch[1]};
  expect_error(ExitCode::data, "given float32[4,1,28,27], expected float32[4,1,28,28]", [&] { model.train_on_batch(wrong, 0.1); });
}

TEST(ModelApi, MemoryIsAsPredicted) {
  Model model = compiled("lenet", options(32, "cpu:0-1"));
  EXPECT_EQ(model.allocated_bytes(), model.predicted_peak_bytes());
  const Splits data = digits();
  model.fit(*data.train, {.epochs = 1});
  model.evaluate(*data.test);
  EXPECT_EQ(model.allocated_bytes(), model.predicted_peak_bytes());
  const std::int64_t before = model.allocated_bytes();
  model.evaluate(*data.test, {.batch = 256});
  EXPECT_GT(model.allocated_bytes(), before) << "a larger plan than the first has memory of its own";
  EXPECT_EQ(model.allocated_bytes(), model.predicted_peak_bytes());
}

TEST(ModelApi, SaysThatATemplateIsUntrained) {
  Model model = Model::load(template_path("mlp"));
  expect_error(ExitCode::usage, "is not compiled", [&] { model.plan(); });
  ModelOptions o = options(4);
  o.init = "keep";
  model.compile(o, backends);
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("all values are equal in fc1.weight"), std::string::npos) << model.notes()[0];
  EXPECT_TRUE(compiled("mlp", options(4)).notes().empty());
}

TEST(ModelApi, LeNetReads97PercentOfTheDigits) {
  const Splits data = open_data("synthetic:digits,train=6000,test=1000");
  Model model = compiled("lenet", options(64, "cpu:0-1"));
  model.fit(*data.train, {.epochs = 2, .learning_rate = 0.03});
  EXPECT_GT(model.evaluate(*data.test).accuracy, 0.97);
}

TEST(ModelApi, LeNetLearnsMnist) {
  const char* shared = std::getenv("TANDEM_SHARED");
  const std::string folder = std::string(shared ? shared : TANDEM_SHARED_DEFAULT) + "/data/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there: set TANDEM_SHARED to the folder of test material";
  const Splits data = open_data("idx:" + folder);
  std::vector<std::int64_t> first(6000);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::int64_t>(i);
  const Subset part(*data.train, first, "the first 6000");
  Model model = compiled("lenet", options(64, "cpu:0-1"));
  Preprocess p;
  parse_normalize(p, "0.1307,0.3081");
  model.fit(part, {.epochs = 2, .learning_rate = 0.01, .preprocess = p});
  EXPECT_GT(model.evaluate(*data.test, {.preprocess = p}).accuracy, 0.95);
}

}  // namespace
}  // namespace tandem::model_tests
