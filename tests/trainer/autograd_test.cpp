// A forward and a backward pass for a caller's own loop: they are those of a training of the library's own, and what does not fit is told.
#include "trainer/autograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "kernels/cpu/backend.h"
#include "planner/plan/plan_file.h"
#include "tests/importer/model_builder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
const Shape image{6, 1, 8, 8};
const std::vector<std::string> weights{"conv.weight", "bn.scale", "bn.bias", "fc.weight", "fc.bias"};

std::vector<float> drawn(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, 0.5F);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = normal(generator);
  return values;
}

Tensor noise(const Shape& shape, unsigned seed) {
  return Tensor::of<float>(shape, std::span<const float>(drawn(shape.elements(), seed)));
}

// Convolution, normalization and a layer; the features are an output, too.
Model model() {
  test::Model m;
  m.input("x", "N,1,8,8").output("y").output("features");
  m.add(float_tensor("conv.weight", {4, 1, 3, 3}, drawn(36, 1)));
  m.add(float_tensor("bn.scale", {4}, {0.5F, 1, 1.5F, 2})).add(float_tensor("bn.bias", {4}, drawn(4, 2)));
  m.add(filled_tensor("bn.mean", {4}, 0.1F)).add(filled_tensor("bn.var", {4}, 1));
  m.add(float_tensor("fc.weight", {5, 4}, drawn(20, 3))).add(float_tensor("fc.bias", {5}, drawn(5, 4)));
  m.add(node("Conv", {"x", "conv.weight"}, {"c"}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}));
  m.add(node("BatchNormalization", {"c", "bn.scale", "bn.bias", "bn.mean", "bn.var"}, {"n"}));
  m.add(node("Relu", {"n"}, {"r"})).add(node("GlobalAveragePool", {"r"}, {"p"})).add(node("Flatten", {"p"}, {"features"}));
  m.add(node("Gemm", {"features", "fc.weight", "fc.bias"}, {"y"}, {{"transB", std::int64_t{1}}}));
  return Model(m.parse());
}

ModelOptions options(const std::string& devices = "cpu") {
  ModelOptions o;
  o.plan.batch = image[0];
  o.plan.devices = parse_devices(devices);
  return o;
}

const Tensor& named(const std::vector<NamedTensor>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name, &NamedTensor::name);
  if (found == list.end()) throw std::runtime_error("nothing is named " + name);
  return found->tensor;
}

void expect_near(const Tensor& found, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(found.type(), wanted.type()) << what;
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < found.values<float>().size(); ++i) {
    distance += std::pow(found.values<float>()[i] - wanted.values<float>()[i], 2);
    norm += std::pow(wanted.values<float>()[i], 2);
  }
  EXPECT_LE(std::sqrt(distance), tolerance * std::sqrt(norm) + 1e-12) << what;
}

// The gradient of the mean square of y - t.
Tensor gradient_of_mse(const Tensor& y, const Tensor& t) {
  Tensor g(y.type());
  const auto to = g.write<float>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = 2 * (y.values<float>()[i] - t.values<float>()[i]) / static_cast<float>(to.size());
  return g;
}

TEST(Autograd, GivesTheGradientsOfATrainingWithThatLoss) {
  const Tensor x = noise(image, 7), t = noise({6, 5}, 8);
  Model trained = model();
  ModelOptions o = options();
  o.plan.loss.name = "mse";
  o.plan.loss.on = "y";
  trained.compile(o, backends);
  const std::vector<Tensor> batch{x, t};
  const std::vector<NamedTensor> wanted = trained.gradients(batch);
  trained.train_on_batch(batch, 0);

  const Model source = model();
  Autograd passes(source.source(), {.model = options(), .parameters = weights, .inputs = {"x"}}, backends);
  const std::vector<NamedTensor> outputs = passes.forward(std::vector<NamedTensor>{{"x", x}});
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_EQ(outputs[0].name, "y");
  EXPECT_EQ(outputs[1].name, "features");
  const std::vector<NamedTensor> gradients =
      passes.backward(std::vector<NamedTensor>{{"y", gradient_of_mse(outputs[0].tensor, t)}});
  for (const std::string& w : weights) expect_near(named(gradients, w), named(wanted, w), 1e-6, w);
  for (const std::string name : {"bn.mean", "bn.var"})
    expect_near(named(passes.statistics(), name), trained.parameter(name), 1e-6, name);
  EXPECT_EQ(named(gradients, "x").shape(), image);
}

// The derivative along a direction, by differences of the forward pass.
TEST(Autograd, GradientsOfInputsAndOfAllOutputsAreThoseOfDifferences) {
  const Model source = model();
  Autograd passes(source.source(), {.model = options(), .inputs = {"x"}, .mode = AutogradMode::eval}, backends);
  const Tensor x = noise(image, 7), direction = noise(image, 9);
  const std::vector<NamedTensor> of{{"y", noise({6, 5}, 10)}, {"features", noise({6, 4}, 11)}};
  const auto moved = [&](float step) {
    Tensor at(x.type());
    for (std::size_t i = 0; i < at.values<float>().size(); ++i)
      at.write<float>()[i] = x.values<float>()[i] + step * direction.values<float>()[i];
    double sum = 0;
    for (const NamedTensor& out : passes.forward(std::vector<NamedTensor>{{"x", at}}))
      for (std::size_t i = 0; i < out.tensor.values<float>().size(); ++i)
        sum += out.tensor.values<float>()[i] * named(of, out.name).values<float>()[i];
    return sum;
  };
  const double wanted = (moved(1e-3F) - moved(-1e-3F)) / 2e-3;
  moved(0);
  const Tensor gradient = named(passes.backward(of), "x");
  double found = 0;
  for (std::size_t i = 0; i < gradient.values<float>().size(); ++i) found += gradient.values<float>()[i] * direction.values<float>()[i];
  EXPECT_NEAR(found, wanted, 2e-2 * std::abs(wanted));
}

TEST(Autograd, DevicesShareTheSamplesAndTheirGradientsAddUp) {
  const Model source = model();
  const Tensor x = noise(image, 7);
  const std::vector<NamedTensor> of{{"y", noise({6, 5}, 10)}};
  std::vector<std::vector<NamedTensor>> all;
  for (const double weight : {0.0, 1.0, 2.0}) {  // of the first device; 0: there is one alone
    ModelOptions o = options(weight > 0 ? "cpu:0-1" : "cpu");
    if (weight > 0) o.plan.devices[0].weight = weight;
    Autograd passes(source.source(), {.model = o, .parameters = weights, .inputs = {"x"}, .mode = AutogradMode::eval}, backends);
    all.push_back(passes.forward(std::vector<NamedTensor>{{"x", x}}));
    for (NamedTensor& g : passes.backward(of)) all.back().push_back({"gradient/" + g.name, g.tensor});
  }
  for (std::size_t d = 1; d < all.size(); ++d)
    for (const NamedTensor& one : all[0]) expect_near(named(all[d], one.name), one.tensor, 1e-6, one.name);
}

// Sums over devices within one pass are none of the other's.
TEST(Autograd, NormalizationsOverAllDevicesAreThoseOfOne) {
  const Model source = model();
  const std::vector<NamedTensor> x{{"x", noise(image, 7)}}, of{{"y", noise({6, 5}, 10)}};
  std::vector<std::vector<NamedTensor>> all;
  for (const char* const devices : {"cpu", "cpu:0-1"}) {
    ModelOptions o = options(devices);
    o.plan.synchronize_batch_norm = true;
    Autograd passes(source.source(), {.model = o, .parameters = weights}, backends);
    all.push_back(passes.forward(x));
    for (NamedTensor& g : passes.backward(of)) all.back().push_back({"gradient/" + g.name, g.tensor});
    for (NamedTensor& s : passes.statistics()) all.back().push_back(std::move(s));
  }
  for (const NamedTensor& one : all[0]) expect_near(named(all[1], one.name), one.tensor, 1e-5, one.name);
}

TEST(Autograd, AnotherOfTheSamePlanHasMemoryOfItsOwn) {
  const Model source = model();
  Autograd first(source.source(), {.model = options(), .parameters = weights}, backends);
  Autograd second = first.again();
  const std::vector<NamedTensor> of{{"y", noise({6, 5}, 10)}};
  const std::vector<NamedTensor> a{{"x", noise(image, 7)}}, b{{"x", noise(image, 8)}};
  first.forward(a);
  const std::vector<NamedTensor> wanted = first.backward(of);
  first.forward(a);
  second.forward(b);
  second.backward(of);
  const std::vector<NamedTensor> found = first.backward(of);
  for (const std::string& w : weights) EXPECT_EQ(named(found, w), named(wanted, w)) << w;
}

TEST(Autograd, ThePlanSaysItsPasses) {
  const Model source = model();
  const Autograd passes(source.source(), {.model = options(), .parameters = weights}, backends);
  EXPECT_NE(text_of_plan(passes.plan(), false).find("  passes          forward "), std::string::npos);
}

// What verify() says of a plan whose step that reads a gradient, or writes an output, stands in the other pass.
TEST(Autograd, VerifyKnowsWhatBelongsToWhichPass) {
  const Model source = model();
  const Plan sound = Autograd(source.source(), {.model = options(), .parameters = weights}, backends).plan();
  const auto moved = [&](auto is_it, Phase to) {
    Plan plan = sound;
    IdVector<StepId, Step>& steps = plan.programs[0].steps;
    const auto step = std::ranges::find_if(steps, is_it);
    Step taken = *step;
    steps.erase(step);
    taken.phase = to;
    steps.insert(std::ranges::find_if(steps, [&](const Step& s) { return s.phase > to; }), taken);
    try {
      verify(plan);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("it is sound");
  };
  const auto reads = [&](const Step& s) {
    return s.as<SliceStep>() && sound.inputs[at(s.as<SliceStep>()->host)].role == ValueRole::gradient;
  };
  EXPECT_NE(moved(reads, Phase::forward).find("the forward pass reads 'gradient/"), std::string::npos) << moved(reads, Phase::forward);
  const auto writes = [&](const Step& s) { return s.as<ConcatStep>() && sound.outputs[at(s.as<ConcatStep>()->host)].name == "y"; };
  EXPECT_NE(moved(writes, Phase::backward).find("output 'y' is written in the backward pass"), std::string::npos)
      << moved(writes, Phase::backward);
}

struct Fault {
  const char* name;
  std::function<void(Autograd&)> call;
  const char* message;
};

TEST(Autograd, WhatDoesNotFitIsTold) {
  const Model source = model();
  const std::vector<NamedTensor> x{{"x", noise(image, 7)}};
  const Fault faults[] = {
      {"no forward pass", [](Autograd& a) { a.backward({}); }, "a backward pass needs the values of a forward pass"},
      {"twice", [&](Autograd& a) { a.forward(x); a.backward({}); a.backward({}); }, "a backward pass needs the values of a forward pass"},
      {"new weights", [&](Autograd& a) { a.forward(x); a.set_parameters({}); a.backward({}); }, "a backward pass needs the values"},
      {"no input", [](Autograd& a) { a.forward({}); }, "no values for the model's input 'x' float32[6,1,8,8]"},
      {"a shape", [](Autograd& a) { a.forward(std::vector<NamedTensor>{{"x", noise({5, 1, 8, 8}, 1)}}); },
       "input 'x': expected float32[6,1,8,8], got float32[5,1,8,8]"},
      {"an input's name", [&](Autograd& a) { a.forward(std::vector<NamedTensor>{x[0], {"xx", noise({6}, 1)}}); },
       "the model has no input 'xx'"},
      {"an output's name", [&](Autograd& a) { a.forward(x); a.backward(std::vector<NamedTensor>{{"z", noise({6, 5}, 1)}}); },
       "no gradient is taken of an output 'z'"},
      {"a gradient's shape", [&](Autograd& a) { a.forward(x); a.backward(std::vector<NamedTensor>{{"y", noise({6, 4}, 1)}}); },
       "the gradient of output 'y': expected float32[6,5], got float32[6,4]"},
  };
  Autograd passes(source.source(), {.model = options(), .parameters = weights}, backends);
  for (const Fault& fault : faults) try {
      fault.call(passes);
      ADD_FAILURE() << fault.name << " is taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(fault.message), std::string::npos) << fault.name << ": " << e.what();
    }
}

TEST(Autograd, OptionsThatWorkBetweenThePassesAreRefused) {
  const Model source = model();
  const std::pair<const char*, std::function<void(ModelOptions&)>> refused[] = {
      {"micro_batches", [](ModelOptions& o) { o.plan.parallel.micro_batches = 2; }},
      {"zero", [](ModelOptions& o) { o.plan.parallel.zero = 1; }},
      {"memory_budget", [](ModelOptions& o) { o.plan.memory.budget = MemoryBudget{.fit = true}; }},
      {"recompute", [](ModelOptions& o) { o.plan.memory.recompute = {"Conv*"}; }},
  };
  for (const auto& [what, set] : refused) {
    ModelOptions o = options("cpu:0-1");
    set(o);
    try {
      Autograd(source.source(), {.model = o, .parameters = weights}, backends);
      ADD_FAILURE() << what << " is taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage) << what;
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem
