// Options as JSON: one table for the command line and for who uses the library.
#include "options/options.h"

#include <gtest/gtest.h>

#include <set>

#include "tandem/tandem.h"

namespace tandem {
namespace {

const std::string mlp = std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx";

RunOptions run_of(const std::string& json, Purpose purpose = Purpose::train) {
  const Options options = Options::parse(json, purpose);
  return options.run(Model::load(mlp, options.weights()), backends());
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage) << e.what();
    return e.what();
  }
  return "";
}

TEST(Options, BecomeThoseOfTheApi) {
  const RunOptions o = run_of(R"({"batch-size": 64, "optimizer": "adamw", "lr": 0.5, "epochs": 3, "data": "synthetic:digits", "seed": 7,
                                  "shuffle": false, "metrics": ["f1", "top5"], "devices": "cpu:0-1", "loss": "mse", "clip-norm": "2"})");
  EXPECT_EQ(o.model.plan.batch, 64);
  EXPECT_EQ(o.model.plan.optimizer.name, "adamw");
  EXPECT_EQ(o.model.plan.optimizer.clip_norm, 2);
  EXPECT_EQ(o.model.plan.devices.size(), 2U);
  EXPECT_EQ(o.model.plan.loss.name, "mse");
  EXPECT_EQ(o.model.seed, 7U);
  EXPECT_EQ(o.fit.learning_rate, 0.5);
  EXPECT_EQ(o.fit.epochs, 3);
  EXPECT_FALSE(o.fit.shuffle);
  EXPECT_EQ(o.fit.metrics, (std::vector<std::string>{"f1", "top5"}));
  EXPECT_EQ(o.data, "synthetic:digits");
  EXPECT_TRUE(o.chosen.contains("batch") && o.chosen.contains("loss") && !o.chosen.contains("normalize"));
  EXPECT_EQ(o.fit.config.at("lr").number(), 0.5);
  EXPECT_TRUE(o.fit.run_dir.empty());
}

TEST(Options, AreNamedInSeveralWays) {
  for (const char* name : {"batch-size", "batch_size", "batch"})
    EXPECT_EQ(run_of(concat("{\"", name, "\": 5}")).model.plan.batch, 5) << name;
  EXPECT_EQ(run_of(R"({"learning_rate": 2})").fit.learning_rate, 2);
  Options o;
  o.set("lr", 3.0);
  o.set("momentum", 0.9);
  EXPECT_EQ(o.values().dump(), R"({"lr":3,"momentum":0.9})");
  EXPECT_TRUE(o.given("learning_rate"));
  Options copy = o;
  copy.set("lr", Json());
  EXPECT_FALSE(copy.given("lr"));
  EXPECT_TRUE(o.given("lr"));
}

TEST(Options, TakeListsAndObjects) {
  const RunOptions o =
      run_of(R"({"devices": ["cpu:0", "cpu:1"], "parallel": {"data": 2}, "dim": {"N": 3}, "place": {"fc1*": "cpu:1", "fc2*": "cpu:0"},
                                  "placement": {"micro-batches": 2}, "group": ["*bias: weight-decay=0", "fc2*: lr=2x"]})");
  EXPECT_EQ(o.model.plan.devices.size(), 2U);
  EXPECT_EQ(o.model.dims.at("N"), 3);
  EXPECT_EQ(o.model.plan.parallel.places.size(), 2U);
  EXPECT_EQ(o.model.plan.parallel.micro_batches, 2);
  EXPECT_EQ(o.model.plan.optimizer.groups.size(), 2U);
}

TEST(Options, NameTheKeyInMessages) {
  const std::pair<std::string, std::string> rows[] = {
      {R"({"batch-size": 0})", "option batch_size 0: expected at least 1"},
      {R"({"batchsize": 1})", "unknown option 'batchsize', did you mean batch_size?"},
      {R"({"lr": "fast"})", "option lr"},
      {R"({"shuffle": "maybe"})", "option shuffle is a switch: expected on or off, got 'maybe'"},
      {R"({"layout": "rows"})", "option layout 'rows': expected auto, blocked or channels-last"},
      {R"({"placement": {"plaice": 1}})", "unknown key in placement 'plaice', did you mean place?"},
      {R"({"output": "x.onnx"})", "option output is the command line's alone"},
      {R"({"min-delta": 1})", "option min_delta needs option early_stopping"},
      {R"({"micro-batches": 3, "accumulate": 2})",
       "option micro_batches 3 are those of a step, and option accumulate 2 makes it of as many"},
      {R"({"dim": "N"})", "option dim N: expected NAME=SIZE"},
      {R"({"group": "bias"})", "option group 'bias': no ':' behind the patterns"},
      {R"({"momentum": 0.5, "optimizer": "adam"})", "option momentum: the optimizer adam has none"},
      {R"(["lr"])", "JSON"},
  };
  for (const auto& [json, message] : rows) {
    const std::string told = error_of([&, &json = json] { run_of(json); });
    EXPECT_NE(told.find(message), std::string::npos) << json << ": " << told;
    EXPECT_EQ(told.find("--"), std::string::npos) << told;
  }
}

TEST(Options, AreOthersOfAnotherPurpose) {
  EXPECT_EQ(run_of(R"({"split": "train", "metrics": "f1"})", Purpose::evaluate).split, "train");
  EXPECT_EQ(run_of(R"({"outputs": ["h", "y"]})", Purpose::predict).model.outputs, (std::vector<std::string>{"h", "y"}));
  EXPECT_NE(error_of([] { run_of(R"({"lr": 1})", Purpose::evaluate); }), "");
}

// What the table says of an option holds: its name is known, and its default is a value.
TEST(Options, AreDescribed) {
  for (const Purpose purpose : {Purpose::train, Purpose::evaluate, Purpose::predict}) {
    std::set<std::string> names;
    const Json described = describe_options(purpose);
    for (const Json& row : described.array()) {
      const std::string name = row.at("name").text();
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_FALSE(row.at("help").text().empty() || row.at("group").text().empty()) << name;
      Options options(purpose);
      EXPECT_NO_THROW(options.set(name, row.at("default"))) << name;
      EXPECT_TRUE(options.given(row.at("field").text()) || name == "checkpoint-every") << name;  // checkpoint-steps has its field's name
    }
    EXPECT_EQ(names.contains("lr"), purpose == Purpose::train);
    EXPECT_TRUE(names.contains("batch-size"));
  }
}

}  // namespace
}  // namespace tandem
