// What prepares a run: whose word counts for each option, in which parts the data comes, and what is said of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/prepare.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// scores = x [N,4] · w [4,3], trained as `metadata` says.
Model classifier(const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
  std::vector<float> w(12);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
  test::Model m;
  m.input("x", "N,4").add(float_tensor("w", {4, 3}, w)).add(node("MatMul", {"x", "w"}, {"scores"})).output("scores");
  for (const auto& [key, value] : metadata) {
    auto& entry = *m.proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  return Model(ModelFile::parse(m.bytes(), {}));
}

std::unique_ptr<Dataset> samples(std::int64_t count, std::int64_t label_columns = 0, const char* name = "made here") {
  Tensor x(TensorType{DType::float32, {count, 4}});
  std::iota(x.write<float>().begin(), x.write<float>().end(), 0.0F);
  auto data = std::make_unique<MemoryDataset>(name);
  data->add({.name = "x"}, std::move(x));
  Tensor y(label_columns > 0 ? TensorType{DType::float32, {count, label_columns}} : TensorType{DType::int64, {count}});
  if (label_columns == 0)
    for (std::int64_t i = 0; i < count; ++i) y.write<std::int64_t>()[static_cast<std::size_t>(i)] = i % 4 == 3 ? 0 : i % 4;
  data->add({.name = "y", .role = Role::label}, std::move(y));
  return data;
}

struct Told {
  std::vector<std::string> notes, warnings;
  Prepared run;
  bool has(const std::string& text) const {
    return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(text) != std::string::npos; });
  }
};
Told prepared(const Model& model, RunOptions options) {
  Told told;
  options.model.plan.batch = 4;
  options.model.plan.devices = parse_devices("cpu");
  if (options.data.empty() && !options.splits.train && !options.splits.test) options.splits.train = samples(8);
  options.on_note = [&](const std::string& text) { told.notes.push_back(text); };
  options.on_warning = [&](const std::string& text) { told.warnings.push_back(text); };
  told.run = prepare(model, std::move(options), backends);
  return told;
}

TEST(Prepare, WhatNobodySaysIsAsTheFileWasTrained) {
  const Model model = classifier({{"tandem.loss", "focal"}, {"tandem.normalize", "0.5,2"}, {"tandem.class_axis", "1"}});
  const Told told = prepared(model, {});
  EXPECT_EQ(told.run.options.plan.loss.name, "focal");
  EXPECT_FALSE(told.run.options.plan.loss.assumed);
  EXPECT_EQ(told.run.options.plan.loss.class_axis, 1);
  EXPECT_EQ(text_of_normalize(told.run.fit.preprocess), "0.5,2");
  EXPECT_TRUE(told.has("class-axis is 1, as the model was trained (option class_axis overrules it)"));
  EXPECT_TRUE(told.has("normalize is 0.5,2, as the model was trained (option normalize overrules it, none for none)"));
}

TEST(Prepare, WhatIsSetOrChosenStays) {
  const Model model = classifier({{"tandem.loss", "focal"}, {"tandem.normalize", "0.5,2"}, {"tandem.ignore_index", "1"}});
  RunOptions asked{.chosen = {"loss", "normalize"}};  // though both are at their defaults
  asked.model.plan.loss.ignore_index = 2;
  const Told told = prepared(model, std::move(asked));
  EXPECT_EQ(told.run.options.plan.loss.name, "softmax-cross-entropy");
  EXPECT_EQ(told.run.options.plan.loss.ignore_index, 2);
  EXPECT_TRUE(told.run.fit.preprocess.mean.empty());
  EXPECT_TRUE(told.notes.empty()) << told.notes[0];
}

TEST(Prepare, LabelsRatesAndWeightsFollowFromTheDataAndTheOptimizer) {
  RunOptions asked{.class_weights = "balanced"};
  asked.model.plan.optimizer = optimizer_defaults("adam");
  asked.fit.best = "val_f1";
  asked.validation_split = 0.5;
  const Told told = prepared(classifier(), std::move(asked));
  EXPECT_EQ(told.run.fit.learning_rate, default_learning_rate(optimizer_defaults("adam")));
  EXPECT_EQ(told.run.options.plan.loss.class_weights.size(), 3U);
  EXPECT_TRUE(told.has("the classes' weights are "));
  EXPECT_EQ(told.run.fit.metrics, (std::vector<std::string>{"auto", "f1"}));
  EXPECT_EQ(told.run.data.train->size(), 4);
  EXPECT_EQ(told.run.fit.validation, told.run.data.validation);
  EXPECT_EQ(told.run.data.validation->size(), 4);

  RunOptions dense;
  dense.splits.train = samples(8, 3);
  EXPECT_TRUE(prepared(classifier(), std::move(dense)).run.options.plan.loss.dense_labels);
}

TEST(Prepare, PartsAreThoseThatThePurposeWants) {
  const auto asked = [](Purpose purpose, const char* split = "") {
    RunOptions o{.purpose = purpose, .split = split};
    o.splits = {.train = samples(8), .validation = nullptr, .test = samples(5)};
    return o;
  };
  EXPECT_EQ(prepared(classifier(), asked(Purpose::train)).run.data.validation->size(), 5);
  const Told measured = prepared(classifier(), asked(Purpose::evaluate));
  EXPECT_EQ(measured.run.data.part->size(), 5);
  EXPECT_EQ(measured.run.options.plan.mode, PlanMode::inference);
  EXPECT_TRUE(measured.run.options.measures);
  EXPECT_EQ(prepared(classifier(), asked(Purpose::evaluate, "train")).run.data.part->size(), 8);
  EXPECT_EQ(prepared(classifier(), asked(Purpose::plan)).run.options.plan.mode, PlanMode::training);
  expect_error(ExitCode::usage, "the data has no part 'validation' (it has test, train)",
               [&] { prepared(classifier(), asked(Purpose::predict, "validation")); });
}

TEST(Prepare, MetricsWithoutValidationAreWarnedOf) {
  RunOptions asked;
  asked.fit.metrics = {"f1", "top2"};
  const Told told = prepared(classifier(), std::move(asked));
  ASSERT_EQ(told.warnings.size(), 1U);
  EXPECT_EQ(told.warnings[0],
            "option metrics f1,top2: they are measured on validation data, and there is none (option validation_split 0.1 holds a tenth out)");
}

TEST(Prepare, PlansAndPredictionsDoWithoutDataAndTrainingsDoNot) {
  const Model model = classifier();
  const auto asked = [](Purpose purpose) {
    return RunOptions{.purpose = purpose, .model = {.plan = {.batch = 4, .devices = parse_devices("cpu")}}};
  };
  for (const Purpose purpose : {Purpose::plan, Purpose::predict}) EXPECT_EQ(prepare(model, asked(purpose), backends).data.train, nullptr);
  for (const Purpose purpose : {Purpose::train, Purpose::evaluate})
    expect_error(ExitCode::usage, "option data is missing", [&] { prepare(model, asked(purpose), backends); });
}

TEST(Prepare, ARunOfItTrainsAndIsMeasured) {
  Model model = classifier();
  RunOptions asked{.model = {.plan = {.batch = 4, .devices = parse_devices("cpu")}}, .fit = {.epochs = 2, .learning_rate = 0.01}};
  asked.splits = {.train = samples(8), .validation = nullptr, .test = samples(4)};
  const Prepared run = prepare(model, std::move(asked), backends);
  model.compile(run.options, backends);
  EXPECT_EQ(model.fit(*run.data.train, run.fit).epochs.size(), 2U);
  EXPECT_TRUE(std::isfinite(model.evaluate(*run.data.test, run.measuring()).loss));
}

}  // namespace
}  // namespace tandem
