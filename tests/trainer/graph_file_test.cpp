// Losses that ONNX files compute: of several outputs, what their inputs are taken for, and what is refused. What they give is
// compared with PyTorch's in loss_oracle_test.cpp.
#include "base/file.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// a = x * u, b = x * v
Model heads() {
  test::Model m;
  m.input("x", "N,3").add(float_tensor("u", {3}, {1, 2, 3})).add(float_tensor("v", {3}, {-1, 0.5, 2}));
  return Model(
      ModelFile::parse(m.add(node("Mul", {"x", "u"}, {"a"})).add(node("Mul", {"x", "v"}, {"b"})).output("a").output("b").bytes(), {}));
}

// The mean of all (p - q)^2
std::string squares(const std::string& p, const std::string& q, const std::string& dims = "N,3", const std::string& op = "ReduceMean") {
  test::Model m;
  m.input(p, dims).input(q, dims).add(node("Sub", {p, q}, {"d"})).add(node("Mul", {"d", "d"}, {"s"}));
  return m.add(node(op, {"s"}, {"loss"}, {{"keepdims", std::int64_t{0}}})).output("loss").bytes();
}

MemoryDataset data() {
  MemoryDataset d("made here");
  Tensor x(TensorType{DType::float32, Shape{5, 3}}), a = x, b = x;
  for (std::size_t i = 0; i < 15; ++i) {
    x.write<float>()[i] = static_cast<float>(i % 7) - 3;
    a.write<float>()[i] = static_cast<float>(i % 4);
    b.write<float>()[i] = static_cast<float>(i % 3) - 1;
  }
  d.add({.name = "x"}, x);
  d.add({.name = "a", .role = Role::label}, a);
  d.add({.name = "b", .role = Role::label}, b);
  return d;
}

ModelOptions options(const std::string& loss, const char* devices = "cpu") {
  ModelOptions o{.init = "keep"};
  o.plan.batch = 4;
  o.plan.devices = parse_devices(devices);
  o.plan.loss.name = loss;
  return o;
}

History trained(const std::string& loss, const char* devices) {
  Model model = heads();
  const MemoryDataset d = data();
  ModelOptions o = options(loss, devices);
  model.source().fit_labels(o, d);
  model.compile(o, backends);
  return model.fit(d, {.epochs = 2, .learning_rate = 0.01, .shuffle = false, .validation = &d});
}

TEST(GraphFile, IsOneOfSeveralLosses) {
  const TemporaryFolder folder;
  const std::string file = folder / "squares.onnx";
  write_atomically(file, squares("pred", "target"));
  const History want = trained("a=mse*0.3,b=l1", "cpu");
  for (const char* devices : {"cpu", "cpu:0-2"}) {
    const History h = trained(concat("a=", file, "*0.3,b=l1"), devices);
    for (std::size_t e = 0; e < 2; ++e) {
      EXPECT_NEAR(h.epochs[e].loss, want.epochs[e].loss, 1e-6 * want.epochs[e].loss) << devices;
      EXPECT_NEAR(h.epochs[e].val_loss, want.epochs[e].val_loss, 1e-6 * want.epochs[e].loss) << devices;
      EXPECT_NEAR(h.epochs[e].metrics.at("a_loss"), want.epochs[e].metrics.at("a_loss"), 1e-6 * want.epochs[e].metrics.at("a_loss"))
          << devices;
    }
  }
}

TEST(GraphFile, SaysWhatItsInputsAreTakenFor) {
  const TemporaryFolder folder;
  const std::string file = folder / "squares.onnx";
  write_atomically(file, squares("b", "y_true"));
  Model model = heads();
  model.compile(options(file), backends);
  EXPECT_TRUE(std::any_of(model.notes().begin(), model.notes().end(), [](const std::string& n) {
    return n.find("its input 'b' is the model's 'b', 'y_true' the labels") != std::string::npos;
  }));
}

struct Refused {
  const char* name;
  std::string file;
  ExitCode code;
  const char* reason;
};

TEST(GraphFile, WhatCannotBeBoundOrSharedOutIsRefused) {
  test::Model meets;
  meets.input("pred", "N,3").add(node("Transpose", {"pred"}, {"t"})).add(node("MatMul", {"pred", "t"}, {"g"}));
  meets.add(node("ReduceMean", {"g"}, {"loss"}, {{"keepdims", std::int64_t{0}}})).output("loss");
  const Refused rows[] = {
      {"names", squares("foo", "bar"), ExitCode::usage, "goes by the name of its inputs 'foo', 'bar'"},
      {"labels twice", squares("target", "label"), ExitCode::usage, "several of its inputs go by names of labels"},
      {"another size", squares("a", "target", "N,4"), ExitCode::usage, "'a' is float32[4,4]"},
      {"samples meet", meets.bytes(), ExitCode::model, "samples would meet"},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    const std::string file = folder / "loss.onnx";
    write_atomically(file, row.file);
    Model model = heads();
    expect_error(row.code, row.reason, [&] { model.compile(options(file), backends); });
  }
}

TEST(GraphFile, OneNumberOfABatchCannotBeWeighted) {
  const TemporaryFolder folder;
  const std::string file = folder / "squares.onnx";
  write_atomically(file, squares("a", "target"));
  Model model = heads();
  ModelOptions o = options(file);
  o.plan.loss.sample_weights = true;
  expect_error(ExitCode::usage, "have it give one for each sample", [&] { model.compile(o, backends); });
}

}  // namespace
}  // namespace tandem
