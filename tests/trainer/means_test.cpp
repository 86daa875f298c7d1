// One rule for what a mean is divided by: a step of a large batch, of several small ones, over devices of uneven shares and over ranks
// moves the weights alike, and tells the same loss and accuracy, as do the epoch's line and an evaluation.
// tests/trainer/loss_oracle_test.cpp compares every loss with PyTorch's in the same ways.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/ranks/address.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 11, places = 4, classes = 3;

double noise(std::int64_t i) { return std::sin(12.9898 * static_cast<double>(i + 1)); }

Tensor floats(const Shape& shape, const std::function<double(std::int64_t)>& of) {
  Tensor t(TensorType{DType::float32, shape});
  std::int64_t i = 0;
  for (float& v : t.write<float>()) v = static_cast<float>(of(i++));
  return t;
}

// tokens = x * u [N,T,C], kind = their sums over places + v [N,C], size = x summed over all, times s [N]
std::string three_heads() {
  test::Model m;
  std::vector<float> u;
  for (std::int64_t i = 0; i < places * classes; ++i) u.push_back(static_cast<float>(noise(i + 50)));
  m.input("x", "N,4,3")
      .add(float_tensor("u", {places, classes}, u))
      .add(float_tensor("v", {classes}, {0.5F, -1, 0.25F}))
      .add(float_tensor("s", {1}, {0.75F}));
  m.add(test::int_tensor("one", {1}, {1})).add(test::int_tensor("all", {2}, {1, 2}));
  m.add(node("Mul", {"x", "u"}, {"tokens"}))
      .add(node("ReduceSum", {"tokens", "one"}, {"sums"}, {{"keepdims", std::int64_t{0}}}))
      .add(node("Add", {"sums", "v"}, {"kind"}));
  m.add(node("ReduceSum", {"x", "all"}, {"sum"}, {{"keepdims", std::int64_t{0}}})).add(node("Mul", {"sum", "s"}, {"size"}));
  return m.output("tokens").output("kind").output("size").bytes();
}

// Of samples that count unequally in every way: by their weights, classes, ignored places.
MemoryDataset data_of(const std::vector<std::string>& labels, bool weights) {
  MemoryDataset data("made here");
  data.add({.name = "x"}, floats({samples, places, classes}, noise));
  for (const std::string& label : labels) {
    if (label == "size") {
      data.add({.name = label, .role = Role::label}, floats({samples}, [](std::int64_t i) { return 2 * noise(i + 7); }));
      continue;
    }
    const std::int64_t each = label == "tokens" ? places : 1;
    Tensor t(TensorType{DType::int64, each == 1 ? Shape{samples} : Shape{samples, each}});
    std::int64_t i = 0;
    for (std::int64_t& v : t.write<std::int64_t>()) {
      const std::int64_t sample = i / each;
      v = (i * i + i / 3) % classes;
      if (each > 1 && (sample < 4 ? i % places > 0 : i % 5 == 0)) v = -100;  // of the first batch most
      ++i;
    }
    data.add({.name = label, .role = Role::label}, t);
  }
  if (weights)
    data.add({.name = "w", .role = Role::weight},
             floats({samples}, [](std::int64_t i) { return i < 4 ? 0.25 * static_cast<double>(i) : static_cast<double>(7 * i % 5); }));
  return data;
}

struct Row {
  const char* name;
  const char* loss;
  std::vector<std::string> labels;
  bool weights = false;
  std::function<void(CompileOptions&)> options = [](CompileOptions&) {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const auto by_class = [](CompileOptions& o) { o.loss.class_weights = {5, 0.2, 1}; };
const auto ignoring = [](CompileOptions& o) {
  o.loss.ignore_index = -100;
  o.loss.class_axis = -1;
};
const auto all_of_it = [](CompileOptions& o) {
  by_class(o);
  ignoring(o);
  o.loss.smoothing = 0.1;
};
const Row rows[] = {
    {"sample_weights", "kind=cross-entropy", {"kind"}, true},
    {"class_weights", "kind=cross-entropy", {"kind"}, false, by_class},
    {"ignored_tokens", "tokens=cross-entropy", {"tokens"}, false, ignoring},
    {"all_at_once", "tokens=cross-entropy", {"tokens"}, true, all_of_it},
    {"numbers_of_weighted_samples", "size=mse", {"size"}, true},
    {"clipped", "tokens=cross-entropy", {"tokens"}, false,
     [](CompileOptions& o) {
       ignoring(o);
       o.optimizer.clip_norm = 0.05;
     }},
    {"scaled", "tokens=cross-entropy", {"tokens"}, true,
     [](CompileOptions& o) {
       ignoring(o);
       o.loss.scaling = LossScaling{.start = 1024};
     }},
    {"clipped_and_scaled_by_adam", "tokens=cross-entropy", {"tokens"}, true,
     [](CompileOptions& o) {
       ignoring(o);
       o.optimizer = optimizer_defaults("adam");
       o.optimizer.clip_norm = 0.05;
       o.loss.scaling = LossScaling{.start = 64};
     }},
    {"composed_updates", "tokens=cross-entropy", {"tokens"}, false,
     [](CompileOptions& o) {
       ignoring(o);
       o.optimizer = optimizer_defaults("adafactor");
     }},
    {"several_losses", "tokens=cross-entropy*0.5,kind=cross-entropy,size=mse*0.3", {"tokens", "kind", "size"}, false, ignoring},
    {"several_weighted_losses", "tokens=cross-entropy*0.5,kind=cross-entropy,size=mse*0.3", {"tokens", "kind", "size"}, true, all_of_it},
};

struct Way {
  const char* name;
  const char *devices, *shares;
  std::int64_t batch;
};
const Way ways[] = {{"small batches", "cpu", "", 4},
                    {"batches of one", "cpu", "", 1},
                    {"devices", "cpu:0-2", "2,1,1", samples},
                    {"devices and small batches", "cpu:0-2", "2,1,1", 4}};

struct Trained {
  std::vector<double> moved;
  double loss = 0, accuracy = 0;
  std::map<std::string, double> metrics;
};

// One step of all samples.
Trained step(const Row& row, const Way& way, World* world = nullptr) {
  Model model(ModelFile::parse(three_heads(), {}));
  const MemoryDataset data = data_of(row.labels, row.weights);
  ModelOptions o{.init = "keep"};
  o.plan.parallel.micro_batches = (samples + way.batch - 1) / way.batch;
  o.plan.batch = way.batch * o.plan.parallel.micro_batches;
  o.plan.devices = parse_devices(way.devices, way.shares);
  o.plan.loss.name = row.loss;
  row.options(o.plan);
  o.world = world;
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  std::vector<NamedTensor> before = model.parameters();
  const History history = model.fit(data, {.learning_rate = 0.5, .shuffle = false});
  Trained t{.loss = history.epochs[0].loss, .accuracy = history.epochs[0].accuracy, .metrics = history.epochs[0].metrics};
  const std::vector<NamedTensor> after = model.parameters();
  for (std::size_t p = 0; p < after.size(); ++p)
    for (std::size_t i = 0; i < after[p].tensor.values<float>().size(); ++i)
      t.moved.push_back(static_cast<double>(after[p].tensor.values<float>()[i]) - static_cast<double>(before[p].tensor.values<float>()[i]));
  return t;
}

void expect_same(const Trained& got, const Trained& want) {
  double apart = 0, length = 0;
  ASSERT_EQ(got.moved.size(), want.moved.size());
  for (std::size_t i = 0; i < want.moved.size(); ++i) {
    apart += std::pow(got.moved[i] - want.moved[i], 2);
    length += std::pow(want.moved[i], 2);
  }
  EXPECT_GT(length, 0);
  EXPECT_LT(std::sqrt(apart / length), 1e-5);
  EXPECT_NEAR(got.loss, want.loss, 1e-5);
  if (!std::isnan(want.accuracy)) EXPECT_NEAR(got.accuracy, want.accuracy, 1e-6);
  ASSERT_EQ(got.metrics.size(), want.metrics.size());
  for (const auto& [name, value] : want.metrics) EXPECT_NEAR(got.metrics.at(name), value, 1e-5) << name;
}

class MeansOf : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, MeansOf, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST_P(MeansOf, AStepIsTheSameInAnyParts) {
  const Trained want = step(GetParam(), {"one batch", "cpu", "", samples});
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    expect_same(step(GetParam(), way), want);
  }
}

TEST_P(MeansOf, AStepOfRanksIsThatOfOneProcess) {
  const Trained want = step(GetParam(), {"one batch", "cpu", "", samples});
  const test::RankAddress address;
  std::vector<Trained> got(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        World world({.rank = rank, .ranks = 2, .address = address.text(), .timeout_seconds = 60});
        got[static_cast<std::size_t>(rank)] = step(GetParam(), {"ranks", "cpu:0-1", "3,1", 4}, &world);
        world.leave();
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << rank << ": " << e.what();
      }
    });
  for (std::thread& t : ranks) t.join();
  for (const Trained& t : got) expect_same(t, want);
}

// The weights stay, so every batch's loss is of the same model.
TEST_P(MeansOf, TheEpochsLineIsTheMeanOfAnEvaluation) {
  for (const std::int64_t batch : {samples, std::int64_t{4}, std::int64_t{1}})
    for (const std::int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(concat("batches of ", batch, ", ", accumulate, " a step"));
      Model model(ModelFile::parse(three_heads(), {}));
      const MemoryDataset data = data_of(GetParam().labels, GetParam().weights);
      ModelOptions o{.init = "keep"};
      o.plan.batch = batch * accumulate;
      o.plan.parallel.micro_batches = accumulate;
      o.plan.devices = parse_devices("cpu");
      o.plan.loss.name = GetParam().loss;
      GetParam().options(o.plan);
      model.source().fit_labels(o, data);
      model.compile(o, backends);
      const EpochReport line = model.fit(data, {.learning_rate = 0, .shuffle = false}).epochs[0];
      const Evaluation e = model.evaluate(data, {.batch = 3});
      EXPECT_NEAR(line.loss, e.loss, 1e-5);
      if (!std::isnan(line.accuracy)) EXPECT_NEAR(line.accuracy, e.accuracy, 1e-6);
      for (const auto& [name, value] : line.metrics) EXPECT_NEAR(value, e.metrics.at(name), 1e-5) << name;
    }
}

// Who averages steps of his own has what to weigh them by; three samples are a micro-batch of two and one of a sample that fills it.
TEST(Means, ABatchSaysWhatItIsDividedBy) {
  std::vector<double> losses;
  for (const std::int64_t parts : {1, 2}) {
    Model model(ModelFile::parse(three_heads(), {}));
    const MemoryDataset data = data_of({"kind"}, true);
    ModelOptions o{.init = "keep"};
    o.plan.batch = 2 + parts;
    o.plan.parallel.micro_batches = parts;
    o.plan.devices = parse_devices("cpu");
    o.plan.loss.name = "kind=cross-entropy";
    o.plan.loss.class_weights = {5, 0.2, 1};
    model.source().fit_labels(o, data);
    model.compile(o, backends);
    Tensor kinds(TensorType{DType::int64, Shape{3}}), weights(TensorType{DType::float32, Shape{3}});
    for (std::size_t i = 0; i < 3; ++i) {
      kinds.write<std::int64_t>()[i] = static_cast<std::int64_t>(i);
      weights.write<float>()[i] = static_cast<float>(i + 1);
    }
    const std::vector<Tensor> batch{floats({3, places, classes}, noise), kinds, weights};
    const StepReport report = model.train_on_batch(batch, 0);
    ASSERT_EQ(report.weights.size(), 1U);
    EXPECT_NEAR(report.weights[0], 5 + 2 * 0.2 + 3, 1e-6);
    EXPECT_EQ(report.counted, 3);
    EXPECT_EQ(report.samples, 3);
    losses.push_back(report.loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
}

}  // namespace
}  // namespace tandem
