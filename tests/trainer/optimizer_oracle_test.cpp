// Twenty steps of every optimizer are PyTorch's, or its paper's, to 1e-6 (optimizer_oracle.py); on one device and on two.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

constexpr int packages_missing = 3, steps = 20, samples = 4;

struct Case {
  std::string name, optimizer;
  void (*set)(OptimizerOptions& o);
  double rate;
  std::string reference;  // Python: makes o of w, b and p = [w, b]
};

const std::vector<Case>& cases() {
  const auto none = [](OptimizerOptions&) {};
  static const std::vector<Case> list{
      {"sgd", "SGD", none, 0.1, "o = torch.optim.SGD(p, lr=0.1)"},
      {"sgd_dampening", "sgd", [](OptimizerOptions& o) { o.momentum = 0.9, o.dampening = 0.3, o.weight_decay = 0.1; }, 0.1, "o = torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)"},
      {"nesterov", "nesterov", none, 0.1, "o = torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)"},
      {"rmsprop", "keras.optimizers.RMSprop", none, 0.01, "o = torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-7)"},
      {"rmsprop_centered", "torch.optim.RMSprop", [](OptimizerOptions& o) { o.centered = true, o.momentum = 0.8, o.epsilon = 1e-3; }, 0.01,
       "o = torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-3, centered=True, momentum=0.8)"},
      {"adam", "Adam", [](OptimizerOptions& o) { o.weight_decay = 0.1; }, 0.01, "o = torch.optim.Adam(p, lr=0.01, weight_decay=0.1)"},
      {"amsgrad", "adam", [](OptimizerOptions& o) { o.amsgrad = true, o.beta2 = 0.5; }, 0.01, "o = torch.optim.Adam(p, lr=0.01, amsgrad=True, betas=(0.9, 0.5))"},
      {"adamw", "torch.optim.AdamW", none, 0.01, "o = torch.optim.AdamW(p, lr=0.01)"},
      {"nadam", "Nadam", none, 0.01, "o = torch.optim.NAdam(p, lr=0.01)"},
      {"nadam_decoupled", "nadam", [](OptimizerOptions& o) { o.decoupled = true, o.weight_decay = 0.1; }, 0.01, "o = torch.optim.NAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)"},
      {"radam", "RAdam", [](OptimizerOptions& o) { o.weight_decay = 0.1; }, 0.01, "o = torch.optim.RAdam(p, lr=0.01, weight_decay=0.1)"},
      {"adagrad", "Adagrad", [](OptimizerOptions& o) { o.rate_decay = 0.1; }, 0.1, "o = torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1)"},
      {"adadelta", "Adadelta", none, 1, "o = torch.optim.Adadelta(p)"},
      {"adamax", "Adamax", none, 0.01, "o = torch.optim.Adamax(p, lr=0.01)"},
      {"lion", "Lion", [](OptimizerOptions& o) { o.weight_decay = 0.1; }, 0.01, "o = Lion(p, lr=0.01, b1=0.9, b2=0.99, wd=0.1)"},
      {"lamb", "LAMB", none, 0.01, "o = Lamb(p, lr=0.01, b1=0.9, b2=0.999, eps=1e-6, wd=0.01)"},
      {"lars", "LARS", none, 1, "o = Lars(p, lr=1, m=0.9, trust=0.001, wd=0.0001)"},
      {"adafactor", "Adafactor", [](OptimizerOptions& o) { o.weight_decay = 0.1; }, 0.05, "o = torch.optim.Adafactor(p, lr=0.05, weight_decay=0.1, eps=(1.1920929e-07, 0.001))"},
      {"muon", "muon", none, 0.05, "o = Muon([w], [b], lr=0.05)"},
      {"muon_clipped", "torch.optim.Muon", [](OptimizerOptions& o) { o.clip_value = 0.3, o.clip_parameter_norm = 0.4; }, 0.05, "o = Muon([w], [b], lr=0.05); clip = lambda p: (clip_each(0.4)(p), clip_values(0.3)(p))"},
      {"clip_norm", "adamw", [](OptimizerOptions& o) { o.clip_norm = 0.5; }, 0.01, "o = torch.optim.AdamW(p, lr=0.01); clip = clip_norm(0.5)"},
      {"clip_value", "sgd", [](OptimizerOptions& o) { o.clip_value = 0.25; }, 0.1, "o = torch.optim.SGD(p, lr=0.1); clip = clip_values(0.25)"},
      {"clip_each", "momentum", [](OptimizerOptions& o) { o.clip_parameter_norm = 0.5; }, 0.1, "o = torch.optim.SGD(p, lr=0.1, momentum=0.9); clip = clip_each(0.5)"},
      {"groups", "adamw", [](OptimizerOptions& o) { o.groups = {{.patterns = {"b"}, .weight_decay = 0, .rate = 0.1}}; }, 0.01,
       "o = torch.optim.AdamW([{'params': [w]}, {'params': [b], 'weight_decay': 0, 'lr': 0.001}], lr=0.01)"},
      {"no_decay", "adamw", [](OptimizerOptions& o) { o.weight_decay = 1, o.decay_vectors = false; }, 0.01, "o = torch.optim.AdamW([{'params': [w]}, {'params': [b], 'weight_decay': 0}], lr=0.01, weight_decay=1)"},
  };
  return list;
}

// The loss is the samples' mean of x·w + u·b, so the gradients are the means of the data.
tandem::Model linear() {
  using test::float_tensor, test::int_tensor, test::node;
  std::vector<float> w, b;
  for (int i = 0; i < 12; ++i) w.push_back(0.25F * static_cast<float>((i * 7) % 11 - 5) + 0.1F);
  for (const float v : {0.5F, -0.75F, 0.3F, 0.9F, -0.2F}) b.push_back(v);
  test::Model m(17);
  m.input("x", "N,3,4").input("u", "N,5").output("loss");
  m.add(float_tensor("w", {3, 4}, w)).add(float_tensor("b", {5}, b));
  m.add(node("Mul", {"x", "w"}, {"xw"})).add(node("Mul", {"u", "b"}, {"ub"}));
  m.add(int_tensor("both", {2}, {1, 2})).add(int_tensor("one", {1}, {1}));
  m.add(node("ReduceSum", {"ub", "one"}, {"s"}, {{"keepdims", std::int64_t{0}}}))
      .add(node("ReduceMean", {"xw"}, {"t"}, {{"axes", std::vector<std::int64_t>{1, 2}}, {"keepdims", std::int64_t{0}}}));
  m.add(node("Add", {"s", "t"}, {"loss"}));
  return tandem::Model(m.parse());
}

struct Batches {
  std::vector<Tensor> x, u;
  Tensor gw{TensorType{DType::float32, {steps, 3, 4}}}, gb{TensorType{DType::float32, {steps, 5}}};
};
Batches batches() {
  Batches all;
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  for (int s = 0; s < steps; ++s) {
    Tensor x(TensorType{DType::float32, {samples, 3, 4}}), u(TensorType{DType::float32, {samples, 5}});
    for (auto [values, sums, part] :
         {std::tuple(x.write<float>(), all.gw.write<float>(), 1.0F / 12), {u.write<float>(), all.gb.write<float>(), 1.0F}}) {
      const std::size_t n = values.size() / samples;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::round(normal(random) * 64) / 64 + (part < 1 ? 1.0F : 0.25F);
        sums[static_cast<std::size_t>(s) * n + i % n] += values[i] * part / samples;
      }
    }
    all.x.push_back(x);
    all.u.push_back(u);
  }
  return all;
}

std::vector<NamedTensor> train(const Case& c, const char* devices, const Batches& data) {
  const Backend* backends[] = {&cpu_backend()};
  ModelOptions o{.init = "keep"};
  o.plan.batch = samples;
  o.plan.devices = parse_devices(devices);
  o.plan.loss.name = "output";
  o.plan.optimizer = optimizer_defaults(c.optimizer);
  c.set(o.plan.optimizer);
  tandem::Model model = linear();
  model.compile(o, backends);
  for (int s = 0; s < steps; ++s) {
    const Tensor inputs[] = {data.x[static_cast<std::size_t>(s)], data.u[static_cast<std::size_t>(s)]};
    model.train_on_batch(inputs, c.rate);
  }
  return model.parameters();
}

TEST(OptimizerOracle, TwentyStepsAreThoseOfPyTorch) {
  const char* const python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with torch and numpy (./run-tests makes one)";
  const TemporaryFolder folder;
  const Batches data = batches();
  std::string bytes, lines;
  ZipWriter run([&](std::string_view part) { bytes += part; });
  for (const NamedTensor& t : train({"", "sgd", [](OptimizerOptions&) {}, 0, ""}, "cpu", data))
    run.add(concat("first/", t.name, ".npy"), npy_of(t.tensor));
  run.add("gradients/w.npy", npy_of(data.gw));
  run.add("gradients/b.npy", npy_of(data.gb));
  for (const Case& c : cases())
    for (const char* devices : {"cpu", "cpu:0-1"}) {
      const std::string name = concat(c.name, devices == std::string("cpu") ? "" : "_on_two");
      for (const NamedTensor& t : train(c, devices, data)) run.add(concat(name, '/', t.name, ".npy"), npy_of(t.tensor));
      lines += concat(name, '\t', c.reference, '\n');
    }
  run.finish();
  folder.write("run.npz", bytes);
  folder.write("cases.txt", lines);
  const std::string log = (folder / "log").string();
  const int status =
      std::system(concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/optimizer_oracle.py ", folder.text(), " >", log, " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) GTEST_SKIP() << "TANDEM_PYTHON: " << read_file(log);
  EXPECT_EQ(status, 0) << read_file(log);
}

}  // namespace
}  // namespace tandem
