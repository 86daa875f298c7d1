// Whole plans of small models, trained by the CPU backend.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "runtime/session.h"

namespace tandem {
namespace {

Tensor noise(const Shape& shape, unsigned seed, float scale = 1) {
  Tensor t(TensorType{DType::float32, shape});
  std::mt19937 g(seed);
  std::normal_distribution<float> normal;
  for (float& v : t.write<float>()) v = scale * normal(g);
  return t;
}

struct Builder {
  Graph graph;
  unsigned seed = 1;
  ValueId weight(const std::string& name, Shape shape, float scale) { return graph.add_parameter(name, {DType::float32, shape}, noise(shape, ++seed, scale), true); }
  ValueId node(const std::string& op, std::vector<ValueId> in, Attributes a = {}) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), 1, {concat(op, graph.nodes.size())})].outputs[0];
  }
};

Graph mlp(std::int64_t n) {
  Builder b;
  b.graph.name = "mlp";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {b.node("Gemm", {x, b.weight("w1", {32, 20}, 0.3F), b.weight("b1", {32}, 0.1F)}, {{"transB", std::int64_t{1}}})});
  x = b.node("Gemm", {x, b.weight("w2", {32, 5}, 0.3F), b.weight("b2", {5}, 0.1F)});
  b.graph.outputs = {x};
  return b.graph;
}

Graph convnet_with(const std::string& relu, std::int64_t n) {
  Builder b;
  b.graph.name = "convnet";
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3}, two{2, 2}, none{0, 0, 0, 0};
  const Attributes conv{{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}};
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Relu", {b.node("Conv", {x, b.weight("c1", {12, 3, 3, 3}, 0.2F), b.weight("cb1", {12}, 0.1F)}, conv)});
  const ValueId skip = x;
  x = b.node("Conv", {x, b.weight("c2", {12, 12, 3, 3}, 0.1F)}, conv);
  x = b.node(relu, {b.node("Add", {x, skip})}, relu == "LeakyRelu" ? Attributes{{"alpha", 0.0F}} : Attributes{});
  x = b.node("MaxPool", {x}, {{"kernel_shape", two}, {"strides", two}, {"pads", none}, {"dilations", ones}});
  x = b.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = b.node("Gemm", {x, b.weight("w", {192, 5}, 0.1F), b.weight("b", {5}, 0.1F)});
  b.graph.outputs = {b.node("Softmax", {x}, {{"axis", std::int64_t{-1}}})};
  return b.graph;
}

Graph convnet(std::int64_t n) {
  return convnet_with("Relu", n);
}

// The same function, of operators that are not moved behind pooling.
Graph convnet_as_written(std::int64_t n) {
  return convnet_with("LeakyRelu", n);
}

Graph normalized(std::int64_t n) {
  Builder b;
  b.graph.name = "normalized";
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3};
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Conv", {x, b.weight("c", {12, 3, 3, 3}, 0.2F)}, {{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}});
  const ValueId scale = b.weight("scale", {12}, 0.5F), bias = b.weight("bias", {12}, 0.1F);
  const auto running = [&](const char* name, float value) {
    const std::vector<float> values(12, value);
    return b.graph.add_parameter(name, {DType::float32, {12}}, Tensor::of<float>(Shape{12}, std::span<const float>(values)), false);
  };
  x = b.node("Relu", {b.node("BatchNormalization", {x, scale, bias, running("mean", 0), running("variance", 1)})});
  x = b.node("GlobalAveragePool", {x});
  x = b.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {12, 5}, 0.5F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

struct Trained {
  std::vector<float> losses;
  std::vector<std::vector<NamedTensor>> replicas;
};

Trained train(Graph (*model)(std::int64_t), std::int64_t batch, const std::vector<double>& weights, int steps, std::string optimizer = "sgd", double rate = 0.05, bool synchronize = false) {
  CompileOptions o;
  o.synchronize_batch_norm = synchronize;
  o.batch = batch;
  for (std::size_t d = 0; d < weights.size(); ++d) o.devices.push_back({{"cpu", static_cast<int>(d)}, weights[d]});
  o.optimizer = optimizer_defaults(optimizer);
  if (optimizer == "sgd") o.optimizer.momentum = 0.9;
  o.first_bucket_bytes = 1024;
  o.bucket_bytes = 4096;
  const Backend* backends[] = {&cpu_backend()};
  Session session(compile(model, o, backends), backends);
  const Plan& plan = session.plan();
  std::vector<NamedTensor> initial;
  const Graph graph = model(1);
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter) initial.push_back({v.name, *v.data});
  session.set_parameters(initial);

  Trained run;
  const Shape sample = graph[graph.inputs[0]].type.shape;
  Shape shape = sample;
  shape[0] = batch;
  for (int step = 1; step <= steps; ++step) {
    const Tensor x = noise(shape, static_cast<unsigned>(1000 + step % 7));
    Tensor labels(TensorType{DType::int64, {batch}});
    // A learnable rule: the sign pattern of the first two numbers of each sample.
    const std::int64_t row = shape.elements() / batch;
    for (std::int64_t i = 0; i < batch; ++i) labels.write<std::int64_t>()[static_cast<std::size_t>(i)] = 2 * (x.values<float>()[static_cast<std::size_t>(i * row)] > 0) + (x.values<float>()[static_cast<std::size_t>(i * row + 1)] > 0);
    std::vector<const std::byte*> in;
    for (const HostInput& h : plan.inputs) in.push_back(h.name == "x" ? x.bytes().data() : h.name == "labels" ? labels.bytes().data() : nullptr);
    std::vector<std::vector<float>> out;
    std::vector<std::byte*> pointers;
    for (const HostOutput& h : plan.outputs) out.emplace_back(static_cast<std::size_t>(h.type.shape.elements()) * weights.size());
    for (auto& o2 : out) pointers.push_back(reinterpret_cast<std::byte*>(o2.data()));
    session.run(0, in, pointers, {.learning_rate = rate, .step = step});
    float loss = 0;
    for (const float part : out[0]) loss += part;
    run.losses.push_back(loss);
  }
  for (int d = 0; d < session.devices(); ++d) run.replicas.push_back(session.parameters(d));
  return run;
}

void expect_same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(std::memcmp(a[i].tensor.bytes().data(), b[i].tensor.bytes().data(), a[i].tensor.bytes().size()), 0) << a[i].name;
  }
}

struct Model {
  std::string name;
  Graph (*graph)(std::int64_t);
};
const std::vector<Model> models = {{"mlp", mlp}, {"convnet", convnet}};

TEST(Training, DevicesTrainAsOneDoes) {
  for (const Model& m : models) {
    const Trained one = train(m.graph, 10, {1}, 50);
    EXPECT_LT(one.losses.back(), 0.8F * one.losses.front()) << m.name;
    for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {3, 1}, {1, 1, 1, 1}, {1, 0, 2}}) {
      const Trained many = train(m.graph, 10, weights, 50);
      for (std::size_t s = 0; s < one.losses.size(); ++s)
        ASSERT_NEAR(many.losses[s], one.losses[s], 1e-4F * std::abs(one.losses[s])) << m.name << " on " << weights.size() << " devices, step " << s;
      for (std::size_t d = 1; d < many.replicas.size(); ++d) expect_same_bits(many.replicas[0], many.replicas[d]);
    }
  }
}

TEST(Training, SynchronizedBatchNormalizationTrainsAsOneDevice) {
  const Trained one = train(normalized, 10, {1}, 30);
  for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {3, 1}, {1, 0, 2}}) {
    const Trained many = train(normalized, 10, weights, 30, "sgd", 0.05, true);
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      ASSERT_NEAR(many.losses[s], one.losses[s], 2e-4F * std::abs(one.losses[s])) << weights.size() << " devices, step " << s;
    for (std::size_t d = 1; d < many.replicas.size(); ++d) expect_same_bits(many.replicas[0], many.replicas[d]);
    for (std::size_t i = 0; i < one.replicas[0].size(); ++i)
      for (std::size_t k = 0; k < static_cast<std::size_t>(one.replicas[0][i].tensor.elements()); ++k)
        ASSERT_NEAR(many.replicas[0][i].tensor.values<float>()[k], one.replicas[0][i].tensor.values<float>()[k], 2e-3F) << one.replicas[0][i].name;
  }
  // Each replica's own statistics give another result: the option is what makes the difference.
  EXPECT_GT(std::abs(train(normalized, 10, {3, 1}, 30).losses.back() - one.losses.back()), 1e-3F * one.losses.back());
}

TEST(Training, PoolingBeforeReluTrainsAsAfterIt) {
  const Trained moved = train(convnet, 10, {1}, 20), as_written = train(convnet_as_written, 10, {1}, 20);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(moved.losses[i], as_written.losses[i], 1e-5F * as_written.losses[i]) << i;
}

TEST(Training, ReplicasKeepTheSameStatistics) {
  const Trained run = train(normalized, 10, {3, 1}, 5);
  expect_same_bits(run.replicas[0], run.replicas[1]);
  for (const NamedTensor& t : run.replicas[0])
    if (t.name == "variance") EXPECT_NE(t.tensor.values<float>()[0], 1.0F);
}

TEST(Training, TheSameRunTwiceIsTheSame) {
  for (const Model& m : models)
    for (const std::vector<double>& weights : {std::vector<double>{1}, {3, 1}}) {
      const Trained a = train(m.graph, 10, weights, 10), b = train(m.graph, 10, weights, 10);
      EXPECT_EQ(a.losses, b.losses) << m.name;
      expect_same_bits(a.replicas[0], b.replicas[0]);
    }
}

TEST(Training, EveryOptimizerLearns) {
  struct Row {
    std::string name;
    double rate;
  };
  for (const Row& row : std::vector<Row>{{"sgd", 0.05}, {"rmsprop", 0.002}, {"adam", 0.005}, {"adamw", 0.005}}) {
    const Trained run = train(mlp, 16, {1, 1}, 60, row.name, row.rate);
    EXPECT_LT(run.losses.back(), 0.7F * run.losses.front()) << row.name;
  }
}

}  // namespace
}  // namespace tandem
