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

struct SmallGraph {
  Graph g;
  unsigned seed = 1;
  ValueId weight(const std::string& name, const Shape& shape, float scale) {
    return g.add_parameter(name, {DType::float32, shape}, noise(shape, ++seed, scale), true);
  }
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return g[g.add_node(internal_operator(op), concat(op, g.nodes.size()), std::move(a), std::move(in), 1, {concat(op, g.nodes.size())})]
        .outputs[0];
  }
};

// The image's rows as steps, two recurrent layers both ways, the mean of all steps, a dense layer.
Graph recurrent_network(std::int64_t n, const std::string& cell) {
  constexpr std::int64_t T = 8, H = 9;
  const bool linear = cell == "linear GRU";
  const std::string op = linear ? "GRU" : cell;
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  SmallGraph s;
  s.g.name = "recurrent";
  ValueId x = s.g.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = s.node("Transpose", {s.node("Reshape", {x}, {{"shape", Ints{n, T, 24}}})}, {{"perm", Ints{1, 0, 2}}});
  std::int64_t width = 24;
  for (const std::string layer : {"first", "second"}) {
    Attributes a{{"direction", std::string("bidirectional")}, {"hidden_size", H}};
    if (linear) a.set("linear_before_reset", std::int64_t{1});
    x = s.node(op.c_str(),
               {x, s.weight(layer + "_w", {2, gates * H, width}, 0.2F), s.weight(layer + "_r", {2, gates * H, H}, 0.3F),
                s.weight(layer + "_b", {2, 2 * gates * H}, 0.2F)},
               a);
    width = 2 * H;
    x = s.node("Reshape", {s.node("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3}}})}, {{"shape", Ints{T, n, width}}});
  }
  x = s.node("ReduceMean", {x}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}});
  s.g.outputs = {s.node("Gemm", {x, s.weight("w", {classes, width}, 1), s.weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}})};
  return s.g;
}

// Three dense layers.
Graph dense_network(std::int64_t n) {
  SmallGraph s;
  s.g.name = "dense";
  ValueId x = s.node("Flatten", {s.g.add_input("x", {DType::float32, {n, 3, 8, 8}})}, {{"axis", std::int64_t{1}}});
  std::int64_t width = 192;
  for (const char* layer : {"first", "second"}) {
    x = s.node("Gemm", {x, s.weight(layer, {16, width}, 0.1F), s.weight(concat(layer, "_b"), {16}, 0.1F)}, {{"transB", std::int64_t{1}}});
    x = s.node("Relu", {x});
    width = 16;
  }
  s.g.outputs = {s.node("Gemm", {x, s.weight("w", {classes, width}, 0.3F), s.weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}})};
  return s.g;
}

// Two layers of a transformer without attention: dropout of what is added, the norm behind the sum and before the layer.
Graph residual_network(std::int64_t n) {
  SmallGraph s;
  s.g.name = "residual";
  constexpr std::int64_t T = 8, width = 24;
  ValueId x = s.node("Reshape", {s.g.add_input("x", {DType::float32, {n, 3, 8, 8}})}, {{"shape", Ints{n, T, width}}});
  const auto norm = [&](ValueId v, const std::string& name) {
    return s.node("LayerNormalization", {v, s.weight(name + "_scale", {width}, 1), s.weight(name + "_bias", {width}, 0.1F)},
                  {{"axis", std::int64_t{-1}}, {"epsilon", 1e-3F}});
  };
  const auto layer = [&](ValueId v, const std::string& name) {
    const ValueId y = s.node("MatMul", {v, s.weight(name, {width, width}, 0.3F)});
    return s.node("Dropout", {s.node("Add", {y, s.weight(name + "_b", {width}, 0.1F)}),
                              s.g.add_constant(name + "_ratio", Tensor::scalar(0.25F))});
  };
  x = norm(s.node("Add", {x, layer(x, "first")}), "behind");
  x = s.node("Add", {layer(norm(x, "before"), "second"), x});
  x = s.node("ReduceMean", {norm(x, "last")}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  s.g.outputs = {s.node("Gemm", {x, s.weight("w", {classes, width}, 1), s.weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}})};
  return s.g;
}

// Convolution, a residual block, batch normalization, a shortcut, pooling, dropout, a dense layer.
Graph small_network(std::int64_t n) {
  SmallGraph s;
  Graph& g = s.g;
  g.name = "small";
  const auto weight = [&](const std::string& name, const Shape& shape, float scale) { return s.weight(name, shape, scale); };
  const auto ones = [&](const std::string& name, const Shape& shape, bool trains) {
    Tensor t(TensorType{DType::float32, shape});
    for (float& v : t.write<float>()) v = 1;
    return g.add_parameter(name, {DType::float32, shape}, t, trains);
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, Attributes a = {}) { return s.node(op, std::move(in), std::move(a)); };
  const Attributes three{{"kernel_shape", Ints{3, 3}},
                         {"strides", Ints{1, 1}},
                         {"pads", Ints{1, 1, 1, 1}},
                         {"dilations", Ints{1, 1}},
                         {"group", std::int64_t{1}}};
  ValueId x = g.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = node("Relu", {node("Conv", {x, weight("c1", {8, 3, 3, 3}, 0.2F), weight("b1", {8}, 0.1F)}, three)});
  x = node("Relu", {node("Conv", {x, weight("c1b", {8, 8, 3, 3}, 0.1F), weight("b1b", {8}, 0.1F)}, three)});
  for (const std::string block : {"", "_2"}) {
    const ValueId shortcut = x;
    const auto of = [&](const char* name) { return name + block; };
    x = node("Conv", {x, weight(of("c2"), {8, 8, 3, 3}, 0.1F)}, three);
    x = node(
        "BatchNormalization",
        {x, ones(of("scale"), {8}, true), weight(of("shift"), {8}, 0.1F), weight(of("mean"), {8}, 0), ones(of("variance"), {8}, false)},
        {{"epsilon", 1e-3F}, {"momentum", 0.9F}});
    x = node("Relu", {node("Add", {x, shortcut})});
  }
  x = node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}});
  x = node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = node("Gemm", {x, weight("w", {classes, 128}, 0.1F), weight("b", {classes}, 0.1F)}, {{"transB", std::int64_t{1}}});
  g.outputs = {x};
  return g;
}

}  // namespace

std::vector<float> train_small_network(const Backend& backend, const SmallTraining& training,
                                       const std::function<void(const Session&)>& before_step) {
  const int devices = training.devices;
  CompileOptions o;
  o.batch = batch;
  for (int i = 0; i < devices; ++i) o.devices.push_back({{backend.name(), backend.name() == "cpu" ? i : 0}, i == 0 ? 2.0 : 1.0});
  o.optimizer = optimizer_defaults(training.optimizer);
  o.kernel.deterministic = true;
  o.synchronize_batch_norm = devices > 1;
  const Backend* const backends[] = {&backend};
  o.parallel = training.parallel;
  o.weight_gradients_beside = training.weight_gradients_beside && backend.stages_inputs();
  o.precision = training.precision;
  o.passes.without = training.without_passes;
  const auto network = [&](std::int64_t n) {
    if (training.cell == "layers") return dense_network(n);
    if (training.cell == "residual") return residual_network(n);
    return training.cell.empty() ? small_network(n) : recurrent_network(n, training.cell);
  };
  Session session(compile(network, o, backends), backends);
  const Graph graph = network(batch);
  std::vector<NamedTensor> values;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter) values.push_back({v.name, *v.data});
  session.set_parameters(values);
  const Tensor batches[] = {noise({batch, 3, 8, 8}, 77, 1), noise({batch, 3, 8, 8}, 78, 1)};  // in turn
  const Tensor labels = Tensor::of<std::int64_t>({batch}, {0, 1, 2, 3, 4, 0});
  const double rate = training.optimizer != std::string_view("sgd") ? 0.002 : training.cell.empty() ? 0.05 : 0.5;
  std::vector<float> all;
  for (int step = 1; step <= steps; ++step) {
    const Plan& plan = session.plan();
    const auto inputs_of = [&](int number) {
      std::vector<const std::byte*> inputs;
      for (const HostInput& in : plan.inputs)
        inputs.push_back(in.name == "x"                     ? batches[number % 2].bytes().data()
                         : in.role == ValueRole::step_state ? nullptr
                                                            : labels.bytes().data());
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
