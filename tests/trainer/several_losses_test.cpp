// Several outputs with their losses and weights, and the verbs that look at one batch.
#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// a = x * u, b = x * v, c = x * v + u
std::string heads() {
  test::Model m;
  m.input("x", "N,3").add(float_tensor("u", {3}, {1, 2, 3})).add(float_tensor("v", {3}, {-1, 0.5, 2}));
  m.add(node("Mul", {"x", "u"}, {"a"})).add(node("Mul", {"x", "v"}, {"b"})).add(node("Add", {"b", "u"}, {"c"}));
  return m.output("a").output("b").output("c").bytes();
}

Tensor floats(const Shape& shape, std::vector<float> values) {
  Tensor t(TensorType{DType::float32, shape});
  std::copy(values.begin(), values.end(), t.write<float>().begin());
  return t;
}
Tensor indices(std::vector<std::int64_t> values) {
  Tensor t(TensorType{DType::int64, Shape{std::ssize(values)}});
  std::copy(values.begin(), values.end(), t.write<std::int64_t>().begin());
  return t;
}
const Tensor x = floats({4, 3}, {1, 0, -1, 0.5F, 2, 1, -1, 1, 0, 0.25F, -0.5F, 2});
const Tensor target = floats({4, 3}, {0, 1, 0, 1, 1, 1, 2, 0, 1, -1, 0, 1});
const Tensor classes = indices({0, 1, 1, 2});

ModelOptions options(const std::string& loss, const std::string& devices = "cpu") {
  ModelOptions o{.init = "keep"};
  o.plan.batch = 4;
  o.plan.devices = parse_devices(devices);
  o.plan.loss.name = loss;
  return o;
}

MemoryDataset both() {
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  data.add({.name = "b", .role = Role::label}, classes);  // not in the losses' order: names tell
  data.add({.name = "a", .role = Role::label}, target);
  return data;
}

struct Parts {
  double total, a, b;
};
Parts by_hand() {
  const auto v = x.values<float>(), t = target.values<float>();
  const float u[] = {1, 2, 3}, w[] = {-1, 0.5F, 2};
  Parts p{};
  for (std::size_t n = 0; n < 4; ++n) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      p.a += std::pow(static_cast<double>(v[3 * n + i] * u[i] - t[3 * n + i]), 2) / 12;
      sum += std::exp(static_cast<double>(v[3 * n + i] * w[i]));
    }
    const auto label = static_cast<std::size_t>(classes.values<std::int64_t>()[n]);
    p.b += (std::log(sum) - static_cast<double>(v[3 * n + label] * w[label])) / 4;
  }
  p.total = 0.3 * p.a + p.b;
  return p;
}

TEST(SeveralLosses, AddUpByTheirWeights) {
  const Parts want = by_hand();
  struct Way {
    const char* devices;
    std::int64_t stages = 1, micro_batches = 1;
  };
  std::vector<NamedTensor> first;
  for (const auto& [devices, stages, micro_batches] :
       {Way{"cpu"}, Way{"cpu:0-2"}, Way{"cpu", 1, 2}, Way{"cpu:0-1", 2}, Way{"cpu:0-1", 2, 4}, Way{"cpu:0-2", 3, 2}}) {
    SCOPED_TRACE(concat(devices, ", ", stages, " stages, ", micro_batches, " micro-batches"));
    Model model(ModelFile::parse(heads(), {}));
    ModelOptions o = options("a=mse*0.3,b=cross-entropy", devices);
    o.plan.parallel.pipeline = stages;
    o.plan.parallel.micro_batches = micro_batches;
    const MemoryDataset data = both();
    model.source().fit_labels(o, data);
    model.compile(o, backends);
    const Evaluation e = model.evaluate(data, {.batch = 3});
    EXPECT_NEAR(e.loss, want.total, 1e-6);
    EXPECT_NEAR(e.metrics.at("a_loss"), want.a, 1e-6);
    EXPECT_NEAR(e.metrics.at("b_loss"), want.b, 1e-6);
    EXPECT_TRUE(e.metrics.contains("b_f1"));
    EXPECT_TRUE(e.metrics.contains("a_rmse"));
    const std::vector<Tensor> batch{x, target, classes};
    EXPECT_NEAR(model.test_on_batch(batch).loss, want.total, 1e-6);
    const StepReport r = model.train_on_batch(batch, 0);
    EXPECT_NEAR(r.loss, want.total, 1e-6);
    EXPECT_NEAR(r.metrics.at("a_loss"), want.a, 1e-6);
    EXPECT_NEAR(r.metrics.at("b_loss"), want.b, 1e-6);
    const History h = model.fit(data, {.learning_rate = 0, .validation = &data});
    EXPECT_NEAR(h.epochs[0].metrics.at("a_loss"), want.a, 1e-6);
    EXPECT_NEAR(h.epochs[0].metrics.at("val_b_loss"), want.b, 1e-6);
    const std::vector<NamedTensor> outputs = model.predict(data);
    EXPECT_EQ(outputs.size(), 3U);
    if (first.empty()) first = outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].tensor.to_doubles(), first[i].tensor.to_doubles());
  }
}

TEST(SeveralLosses, OfOutputsThatAreNotThereAreRefused) {
  Model model(ModelFile::parse(heads(), {}));
  expect_error(ExitCode::usage, "computes no value of that name", [&] { model.compile(options("a=mse,nothing=l1"), backends); });
  expect_error(ExitCode::usage, "two losses of 'a'", [&] { model.compile(options("a=mse,a=l1"), backends); });
}

TEST(SeveralLosses, TripletTakesThreeOutputs) {
  Model model(ModelFile::parse(heads(), {}));
  model.compile(options("a+b+c=triplet:margin=2"), backends);
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  double want = 0;
  const auto v = x.values<float>();
  const double u[] = {1, 2, 3}, w[] = {-1, 0.5, 2};
  for (std::size_t n = 0; n < 4; ++n) {
    double ab = 0, ac = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double at = static_cast<double>(v[3 * n + i]);
      ab += std::pow(at * (u[i] - w[i]) + 1e-6, 2);
      ac += std::pow(at * (u[i] - w[i]) - u[i] + 1e-6, 2);
    }
    want += std::max(0.0, std::sqrt(ab) - std::sqrt(ac) + 2) / 4;
  }
  EXPECT_NEAR(model.evaluate(data).loss, want, 1e-6);
  EXPECT_NEAR(model.train_on_batch(std::vector<Tensor>{x}, 0).loss, want, 1e-6);
}

TEST(Verbs, GradientsAreThoseOfTheStepAndChangeNothing) {
  Model model(ModelFile::parse(heads(), {}));
  model.compile(options("a=mse*2", "cpu:0-1"), backends);
  const std::vector<Tensor> batch{x, target};
  const std::vector<NamedTensor> gradients = model.gradients(batch);
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(gradients[0].name, "u");
  const auto value = [&] {
    for (const NamedTensor& p : model.parameters())
      if (p.name == "u") return p.tensor.to_doubles();
    return std::vector<double>{};
  };
  EXPECT_EQ(value(), (std::vector<double>{1, 2, 3}));
  model.train_on_batch(batch, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(i + 1) - value()[i], gradients[0].tensor.to_doubles()[i], 1e-5);
}

TEST(Verbs, ProbabilitiesAndClasses) {
  Model model(ModelFile::parse(heads(), {}));
  model.compile(options("b=cross-entropy"), backends);
  const MemoryDataset data = both();
  const Tensor p = model.predict_proba(data), c = model.predict_classes(data);
  EXPECT_EQ(p.shape(), (Shape{4, 3}));
  EXPECT_EQ(c.shape(), (Shape{4}));
  const auto v = p.values<float>();
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_NEAR(v[3 * n] + v[3 * n + 1] + v[3 * n + 2], 1, 1e-6);
    const auto best = static_cast<std::size_t>(c.values<std::int64_t>()[n]);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(v[3 * n + i], v[3 * n + best]);
  }
  model.compile(options("a=mse"), backends);
  expect_error(ExitCode::usage, "its loss has no classes", [&] { model.predict_classes(data); });
}

TEST(Verbs, ASecondCompileKeepsWeights) {
  Model model(ModelFile::parse(heads(), {}));
  model.compile(options("a=mse"), backends);
  model.train_on_batch(std::vector<Tensor>{x, target}, 0.1);
  const std::vector<double> before = model.parameters()[0].tensor.to_doubles();
  EXPECT_NE(before, (std::vector<double>{1, 2, 3}));
  ModelOptions other = options("a=l1", "cpu:0-1");
  other.init = "he-normal";
  model.compile(other, backends);
  EXPECT_EQ(model.parameters()[0].tensor.to_doubles(), before);
}

TEST(ClassWeights, AreBalancedAsScikitLearnHasThem) {
  Model model(ModelFile::parse(heads(), {}));
  const ModelOptions o = options("b=cross-entropy");
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  data.add({.name = "y", .role = Role::label}, classes);
  EXPECT_EQ(model.source().class_weights("balanced", o, data), (std::vector<double>{4.0 / 3, 4.0 / 6, 4.0 / 3}));
  EXPECT_EQ(model.source().class_weights("1,2,0.5", o, data), (std::vector<double>{1, 2, 0.5}));
  expect_error(ExitCode::usage, "2 weights for 3 classes", [&] { model.source().class_weights("1,2", o, data); });
}

TEST(SampleWeights, ThatAModelIsNotCompiledForAreTold) {
  Model model(ModelFile::parse(heads(), {}));
  model.compile(options("a=mse"), backends);
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  data.add({.name = "a", .role = Role::label}, target);
  data.add({.name = "w", .role = Role::weight}, floats({4}, {1, 2, 0, 1}));
  expect_error(ExitCode::usage, "option sample_weights", [&] { model.fit(data, {}); });
}

}  // namespace
}  // namespace tandem
