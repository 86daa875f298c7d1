#include "tests/cuda/small_network.h"

#include <random>

#include "graph/operator.h"
#include "planner/compile.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t batch = 6, classes = 5;
constexpr int steps = 4;

Tensor noise(const Shape& shape, unsigned seed, float scale) {
  Tensor t(TensorType{DType::float32, shape});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& v : t.write<float>()) v = scale * normal(random);
  return t;
}

// Convolution, a residual block, batch normalization, a shortcut, pooling, dropout, a dense layer.
Graph small_network(std::int64_t n) {
  Graph g;
  g.name = "small";
  unsigned seed = 1;
  const auto weight = [&](const std::string& name, const Shape& shape, float scale) { return g.add_parameter(name, {DType::float32, shape}, noise(shape, ++seed, scale), true); };
  const auto ones = [&](const std::string& name, const Shape& shape, bool trains) {
    Tensor t(TensorType{DType::float32, shape});
    for (float& v : t.write<float>()) v = 1;
    return g.add_parameter(name, {DType::float32, shape}, t, trains);
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return g[g.add_node(internal_operator(op), concat(op, g.nodes.size()), std::move(a), std::move(in), 1, {concat(op, g.nodes.size())})].outputs[0];
  };
  const Attributes three{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"group", std::int64_t{1}}};
  ValueId x = g.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = node("Relu", {node("Conv", {x, weight("c1", {8, 3, 3, 3}, 0.2F), weight("b1", {8}, 0.1F)}, three)});
  x = node("Relu", {node("Conv", {x, weight("c1b", {8, 8, 3, 3}, 0.1F), weight("b1b", {8}, 0.1F)}, three)});
  for (const std::string block : {"", "_2"}) {
    const ValueId shortcut = x;
    const auto of = [&](const char* name) { return name + block; };
    x = node("Conv", {x, weight(of("c2"), {8, 8, 3, 3}, 0.1F)}, three);
    x = node("BatchNormalization", {x, ones(of("scale"), {8}, true), weight(of("shift"), {8}, 0.1F), weight(of("mean"), {8}, 0), ones(of("variance"), {8}, false)}, {{"epsilon", 1e-3F}, {"momentum", 0.9F}});
    x = node("Relu", {node("Add", {x, shortcut})});
  }
  x = node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}});
  x = node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = node("Gemm", {x, weight("w", {classes, 128}, 0.1F), weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}});
  g.outputs = {x};
  return g;
}

}  // namespace

std::vector<float> train_small_network(const Backend& backend, const SmallTraining& training, const std::function<void(const Session&)>& before_step) {
  const int devices = training.devices;
  CompileOptions o;
  o.batch = batch;
  for (int i = 0; i < devices; ++i) o.devices.push_back({{backend.name(), backend.name() == "cpu" ? i : 0}, i == 0 ? 2.0 : 1.0});
  o.optimizer = optimizer_defaults(training.optimizer);
  o.kernel.deterministic = true;
  o.synchronize_batch_norm = devices > 1;
  const Backend* const backends[] = {&backend};
  Session session(compile(small_network, o, backends), backends);
  const Graph graph = small_network(batch);
  std::vector<NamedTensor> values;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter) values.push_back({v.name, *v.data});
  session.set_parameters(values);
  const Tensor batches[] = {noise({batch, 3, 8, 8}, 77, 1), noise({batch, 3, 8, 8}, 78, 1)};  // in turn
  const Tensor labels = Tensor::of<std::int64_t>({batch}, {0, 1, 2, 3, 4, 0});
  const double rate = training.optimizer == std::string_view("sgd") ? 0.05 : 0.002;
  std::vector<float> all;
  for (int step = 1; step <= steps; ++step) {
    const Plan& plan = session.plan();
    const auto inputs_of = [&](int number) {
      std::vector<const std::byte*> inputs;
      for (const HostInput& in : plan.inputs) inputs.push_back(in.name == "x" ? batches[number % 2].bytes().data() : in.name.starts_with("tandem.") ? nullptr : labels.bytes().data());
      return inputs;
    };
    const std::vector<const std::byte*> inputs = inputs_of(step), next = inputs_of(step + 1);
    std::vector<std::vector<float>> rooms;
    std::vector<std::byte*> outputs;
    for (const HostOutput& out : plan.outputs) rooms.emplace_back(static_cast<std::size_t>(out.type.shape.elements() * out.parts));
    for (auto& room : rooms) outputs.push_back(reinterpret_cast<std::byte*>(room.data()));
    if (before_step) before_step(session);
    session.run(0, inputs, outputs, {.learning_rate = rate, .step = step, .seed = 3}, {.announced = step > 1, .plan = 0, .inputs = next});
    float loss = 0;
    for (const float part : rooms[0]) loss += part;
    all.push_back(loss);
  }
  return all;
}

}  // namespace tandem::cuda
