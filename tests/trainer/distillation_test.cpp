// A model that learns of a teacher: ten steps against the formula and its gradient in double, on one device and on three with
// uneven slices; the teacher stays as it is and is not written.
#include <cmath>

#include "base/file.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::size_t samples = 7, classes = 3;
const std::vector<float> start{0.5F, -1, 2}, taught{1, 2, -1};

// The scores are x * w, or a softmax of them; the teacher normalizes and drops out, too, which in inference changes nothing here.
std::string student() {
  test::Model m;
  return m.input("x", "N,3").add(float_tensor("w", {3}, start)).add(node("Mul", {"x", "w"}, {"y"})).output("y").bytes();
}
std::string teacher(const std::string& input) {
  test::Model m;
  m.input(input, "N,3").add(float_tensor("u", {3}, taught)).add(node("Mul", {input, "u"}, {"z"}));
  for (const auto& [name, value] : {std::pair{"scale", 1.0F}, {"bias", 0.0F}, {"mean", 0.0F}, {"variance", 1.0F}})
    m.add(test::filled_tensor(name, {3}, value));
  m.add(node("BatchNormalization", {"z", "scale", "bias", "mean", "variance"}, {"n"}, {{"epsilon", 0.0F}}))
      .add(node("Dropout", {"n"}, {"d"}));
  return m.add(node("Softmax", {"d"}, {"p"}, {{"axis", std::int64_t{1}}})).output("p").bytes();
}

MemoryDataset data() {
  MemoryDataset d("made here");
  Tensor x(TensorType{DType::float32, Shape{samples, classes}}), t(TensorType{DType::int64, Shape{samples}});
  for (std::size_t i = 0; i < samples * classes; ++i) x.write<float>()[i] = static_cast<float>(i * i % 11) / 5 - 1;
  for (std::size_t i = 0; i < samples; ++i) t.write<std::int64_t>()[i] = static_cast<std::int64_t>(i * 2 % classes);
  d.add({.name = "x"}, x);
  d.add({.name = "t", .role = Role::label}, t);
  return d;
}

using Row = std::array<double, classes>;
Row softmax(Row v, double temperature) {
  double sum = 0;
  for (double& e : v) sum += e = std::exp(e / temperature);
  for (double& e : v) e /= sum;
  return v;
}

struct Steps {
  std::vector<double> losses;
  Row weights;
};
Steps by_hand(double rate, double temperature, double alpha) {
  const MemoryDataset d = data();
  std::vector<float> x(samples * classes);
  std::vector<std::int64_t> t(samples), all(samples);
  for (std::size_t i = 0; i < samples; ++i) all[i] = static_cast<std::int64_t>(i);
  d.read(0, all, reinterpret_cast<std::byte*>(x.data()));
  d.read(1, all, reinterpret_cast<std::byte*>(t.data()));
  Steps s{{}, {start[0], start[1], start[2]}};
  for (int step = 0; step < 10; ++step) {
    double loss = 0;
    Row gradient{};
    for (std::size_t n = 0; n < samples; ++n) {
      Row y{}, z{};
      for (std::size_t c = 0; c < classes; ++c) {
        y[c] = static_cast<double>(x[n * classes + c]) * s.weights[c];
        z[c] = static_cast<double>(x[n * classes + c]) * static_cast<double>(taught[c]);
      }
      const Row own = softmax(y, 1), soft = softmax(y, temperature), wanted = softmax(z, temperature);
      const auto label = static_cast<std::size_t>(t[n]);
      loss -= (1 - alpha) * std::log(own[label]) / samples;
      for (std::size_t c = 0; c < classes; ++c) {
        loss += alpha * temperature * temperature * wanted[c] * std::log(wanted[c] / soft[c]) / samples;
        const double dy = (1 - alpha) * (own[c] - (c == label)) + alpha * temperature * (soft[c] - wanted[c]);
        gradient[c] += dy * static_cast<double>(x[n * classes + c]) / samples;
      }
    }
    s.losses.push_back(loss);
    for (std::size_t c = 0; c < classes; ++c) s.weights[c] -= rate * gradient[c];
  }
  return s;
}

TEST(Distillation, TenStepsAreThoseOfTheFormula) {
  const TemporaryFolder folder;
  const MemoryDataset d = data();
  for (const char* const devices : {"cpu", "cpu:0-2"})
    for (const char* const input : {"x", "image"}) {
      SCOPED_TRACE(concat(devices, ", the teacher's input is ", input));
      const std::string file = folder / "teacher.onnx", out = folder / "out.onnx";
      write_atomically(file, teacher(input));
      const Steps want = by_hand(0.5, 3, 0.7);
      Model model(ModelFile::parse(student(), {}));
      ModelOptions o{.teacher = file, .init = "keep"};
      o.plan.batch = samples;
      o.plan.devices = parse_devices(devices);
      o.plan.loss.distillation = Distillation{.temperature = 3, .weight = 0.7};
      model.source().fit_labels(o, d);
      model.compile(o, backends);
      const bool told = std::any_of(model.notes().begin(), model.notes().end(),
                                    [](const std::string& n) { return n.find("by their places") != std::string::npos; });
      EXPECT_EQ(told, input != std::string("x"));
      std::vector<double> losses;
      FitOptions fit{.epochs = 10, .learning_rate = 0.5, .shuffle = false, .validation = &d};
      fit.callbacks.on_step = [&](const StepReport& r) { losses.push_back(r.loss); };
      const History h = model.fit(d, fit);
      ASSERT_EQ(losses.size(), want.losses.size());
      for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], want.losses[i], 1e-5) << i;
      const std::vector<NamedTensor> weights = model.parameters();
      ASSERT_EQ(weights.size(), 1u);
      for (std::size_t c = 0; c < classes; ++c) EXPECT_NEAR(weights[0].tensor.values<float>()[c], want.weights[c], 1e-5);
      EXPECT_TRUE(h.epochs[0].metrics.contains("distillation_loss"));
      const auto& held = model.plan().parameters;
      EXPECT_TRUE(std::any_of(held.begin(), held.end(), [](const PlanParameter& p) { return p.role == ValueRole::teacher; }));
      model.save(out);
      EXPECT_EQ(ModelFile::read(out).tensors().size(), 1u);
    }
}

TEST(Distillation, ATeacherOfOtherScoresIsRefused) {
  const TemporaryFolder folder;
  const std::string file = folder / "teacher.onnx";
  test::Model m;
  write_atomically(
      file,
      m.input("x", "N,3").add(float_tensor("u", {3, 2}, {1, 2, 3, 4, 5, 6})).add(node("MatMul", {"x", "u"}, {"z"})).output("z").bytes());
  Model model(ModelFile::parse(student(), {}));
  ModelOptions o{.teacher = file};
  o.plan.batch = 4;
  o.plan.devices = parse_devices("cpu");
  o.plan.loss.distillation = Distillation{};
  expect_error(ExitCode::usage, "'z' is float32[4,2], the model's 'y' is float32[4,3]", [&] { model.compile(o, backends); });
}

TEST(Distillation, WhichOfSeveralOutputsIsLearntFromIsSaid) {
  const TemporaryFolder folder;
  const std::string file = folder / "teacher.onnx";
  for (const std::string second : {"other", "y"}) {
    test::Model m;
    m.input("x", "N,3").add(float_tensor("u", {3}, taught)).add(node("Mul", {"x", "u"}, {"first"})).add(node("Relu", {"first"}, {second}));
    write_atomically(file, m.output("first").output(second).bytes());
    Model model(ModelFile::parse(student(), {}));
    ModelOptions o{.teacher = file, .init = "keep"};
    o.plan.batch = 4;
    o.plan.devices = parse_devices("cpu");
    o.plan.loss.distillation = Distillation{};
    model.compile(o, backends);
    const bool told = std::any_of(model.notes().begin(), model.notes().end(), [](const std::string& n) {
      return n.find("none is called 'y' (it has 'first', 'other'") != std::string::npos;
    });
    EXPECT_EQ(told, second == "other");
  }
}

}  // namespace
}  // namespace tandem
