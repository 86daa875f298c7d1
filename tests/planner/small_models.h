// Small models with values, and their training on data that can be learnt.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "planner/place/place.h"
#include "runtime/session.h"

namespace tandem::small_models {

inline Tensor noise(const Shape& shape, unsigned seed, float scale = 1) {
  Tensor t(TensorType{DType::float32, shape});
  std::mt19937 g(seed);
  std::normal_distribution<float> normal;
  for (float& v : t.write<float>()) v = scale * normal(g);
  return t;
}

inline std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& n : graph.nodes) names.emplace_back(n.op->name);
  return names;
}

// Two samples, one on each of two devices.
inline PlacementRequest two_devices(const Graph& g) { return by_samples(g, std::vector<std::int64_t>{1, 1}); }

struct Builder {
  Graph graph;
  unsigned seed = 1;
  ValueId weight(const std::string& name, Shape shape, float scale) {
    return graph.add_parameter(name, {DType::float32, shape}, noise(shape, ++seed, scale), true);
  }
  ValueId node(const std::string& op, std::vector<ValueId> in, Attributes a = {}) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), 1,
                                {concat(op, graph.nodes.size())})]
        .outputs[0];
  }
};

inline Graph mlp(std::int64_t n) {
  Builder b;
  b.graph.name = "mlp";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {b.node("Gemm", {x, b.weight("w1", {32, 20}, 0.3F), b.weight("b1", {32}, 0.1F)}, {{"transB", std::int64_t{1}}})});
  x = b.node("Gemm", {x, b.weight("w2", {32, 5}, 0.3F), b.weight("b2", {5}, 0.1F)});
  b.graph.outputs = {x};
  return b.graph;
}

inline Graph convnet_with(const std::string& relu, std::int64_t n) {
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

inline Graph convnet(std::int64_t n) {
  return convnet_with("Relu", n);
}

// The same function, of operators that are not moved behind pooling.
inline Graph convnet_as_written(std::int64_t n) {
  return convnet_with("LeakyRelu", n);
}

inline Graph normalized(std::int64_t n) {
  Builder b;
  b.graph.name = "normalized";
  const Ints ones{1, 1}, pads{1, 1, 1, 1}, three{3, 3};
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Conv", {x, b.weight("c", {12, 3, 3, 3}, 0.2F)},
             {{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}});
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

// Convolutions that sum for a normalization: one behind the other, and two that end a residual block; the first one does not.
inline Graph chain(std::int64_t n) {
  Builder b;
  b.graph.name = "chain";
  const auto conv = [&](ValueId x, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::int64_t pad = kernel / 2;
    return b.node(
        "Conv", {x, b.weight(concat('c', b.graph.nodes.size()), {out, in, kernel, kernel}, 1 / std::sqrt(static_cast<float>(in * kernel)))},
        {{"kernel_shape", Ints{kernel, kernel}},
         {"strides", Ints{stride, stride}},
         {"pads", Ints{pad, pad, pad, pad}},
         {"dilations", Ints{1, 1}},
         {"group", std::int64_t{1}}});
  };
  const auto norm = [&](ValueId x) {
    const std::int64_t channels = b.graph[x].type.shape[1];
    const std::string number = std::to_string(b.graph.nodes.size());
    const auto filled = [&](const std::string& name, float value, bool trains) {
      const std::vector<float> values(static_cast<std::size_t>(channels), value);
      return b.graph.add_parameter(name + number, {DType::float32, {channels}},
                                   Tensor::of<float>(Shape{channels}, std::span<const float>(values)), trains);
    };
    const ValueId scale = filled("scale", 1, true), bias = b.weight("bias" + number, {channels}, 0.2F);
    return b.node("BatchNormalization", {x, scale, bias, filled("mean", 0, false), filled("variance", 1, false)});
  };
  const auto relu = [&](ValueId x) { return b.node("Relu", {x}); };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = relu(norm(conv(x, 3, 8, 3, 1)));
  const ValueId shortcut = norm(conv(x, 8, 16, 1, 2));
  x = relu(norm(conv(x, 8, 8, 3, 2)));
  x = relu(b.node("Add", {norm(conv(x, 8, 16, 3, 1)), shortcut}));
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {16, 5}, 0.5F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

// A layer that a message can name.
inline ValueId gemm(Builder& b, ValueId x, const std::string& name, std::int64_t in, std::int64_t out, bool bias = true) {
  std::vector<ValueId> operands{x, b.weight(name, {out, in}, 1 / std::sqrt(static_cast<float>(in)))};
  if (bias) operands.push_back(b.weight(name + "b", {out}, 0.1F));
  const NodeId id = b.graph.add_node(internal_operator("Gemm"), name, {{"transB", std::int64_t{1}}}, std::move(operands), 1, {name});
  return b.graph[id].outputs[0];
}

// A product and a bias apart, as transformers are exported.
inline ValueId dense(Builder& b, ValueId x, const std::string& name, std::int64_t in, std::int64_t out, bool bias = true) {
  const ValueId product = b.node("MatMul", {x, b.weight(name, {in, out}, 1 / std::sqrt(static_cast<float>(in)))});
  return bias ? b.node("Add", {product, b.weight(name + ".bias", {out}, 0.1F)}) : product;
}
inline ValueId normal(Builder& b, ValueId x, const std::string& name) {
  const std::int64_t width = b.graph[x].type.shape.dims.back();
  return b.node("LayerNormalization", {x, b.weight(name, {width}, 0.5F), b.weight(name + ".bias", {width}, 0.1F)},
                {{"axis", std::int64_t{-1}}});
}

// Layers of which some may be in 8 bits. Two products read what `in` gives; their sum goes on.
inline Graph deep(std::int64_t n) {
  Builder b;
  b.graph.name = "deep";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {gemm(b, x, "in", 20, 48)});
  x = b.node("Relu", {b.node("Add", {gemm(b, x, "left", 48, 32), gemm(b, x, "right", 48, 32, false)})});
  x = b.node("Gelu", {gemm(b, x, "middle", 32, 64)});
  x = b.node("Gelu", {gemm(b, x, "odd", 64, 40)});
  b.graph.outputs = {gemm(b, x, "out", 40, 5)};
  return b.graph;
}

inline CompileOptions options_for(std::int64_t batch, const std::vector<double>& weights) {
  CompileOptions o;
  o.batch = batch;
  for (std::size_t d = 0; d < weights.size(); ++d) o.devices.push_back({{"cpu", static_cast<int>(d)}, weights[d]});
  o.optimizer.momentum = 0.9;
  o.memory.first_bucket_bytes = 1024;
  o.memory.bucket_bytes = 4096;
  o.passes.verify = true;
  return o;
}

struct Trained {
  std::vector<float> losses;
  std::vector<float> scales;  // of the loss, where it is scaled
  std::vector<std::vector<NamedTensor>> replicas, states;  // by device
  std::vector<std::int64_t> allocated;  // bytes, by device
  Plan plan;
};

inline std::vector<NamedTensor> values_of(const Graph& graph) {
  std::vector<NamedTensor> values;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter) values.push_back({v.name, *v.data});
  return values;
}

// By a plan; with a world, as one of its ranks.
inline Trained train_by(Plan made, const Backend& backend, Graph (*model)(std::int64_t), int steps, double rate, World* world = nullptr) {
  const Backend* backends[] = {&backend};
  Session session(std::move(made), backends, world);
  const Plan& plan = session.plan();
  const Graph graph = model(1);
  session.set_parameters(values_of(graph));

  Trained run;
  Shape shape = graph[graph.inputs[0]].type.shape;
  shape[0] = plan.batch;
  for (int step = 1; step <= steps; ++step) {
    const Tensor x = noise(shape, static_cast<unsigned>(1000 + step % 7));
    Tensor labels(TensorType{DType::int64, {plan.batch}});
    // A learnable rule: the sign pattern of the first two numbers of each sample.
    const std::int64_t row = shape.elements() / plan.batch;
    for (std::int64_t i = 0; i < plan.batch; ++i)
      labels.write<std::int64_t>()[static_cast<std::size_t>(i)] =
          2 * (x.values<float>()[static_cast<std::size_t>(i * row)] > 0) + (x.values<float>()[static_cast<std::size_t>(i * row + 1)] > 0);
    Tensor weights(TensorType{DType::float32, {plan.batch}});  // of samples
    for (std::int64_t i = 0; i < plan.batch; ++i) weights.write<float>()[static_cast<std::size_t>(i)] = 0.5F * static_cast<float>(i % 4);
    std::vector<const std::byte*> in;
    for (const HostInput& h : plan.inputs)
      in.push_back(h.name == "x"                           ? x.bytes().data()
                   : h.name == "labels"                    ? labels.bytes().data()
                   : h.role == ValueRole::sample_weight    ? weights.bytes().data()
                                                           : nullptr);
    std::vector<std::vector<float>> out;
    std::vector<std::byte*> pointers;
    for (const HostOutput& h : plan.outputs) out.emplace_back(static_cast<std::size_t>(h.bytes()) / sizeof(float));
    for (auto& o2 : out) pointers.push_back(reinterpret_cast<std::byte*>(o2.data()));
    session.run(0, in, pointers, {.learning_rate = rate, .step = step});
    float loss = 0;
    for (const float part : out[0]) loss += part;
    run.losses.push_back(loss);
    for (std::size_t i = 0; i < plan.outputs.size(); ++i)
      if (plan.outputs[i].name == "loss_scale") run.scales.push_back(*std::max_element(out[i].begin(), out[i].end()));
  }
  session.gather_parameters();
  for (int d = 0; d < session.devices(); ++d) {
    run.replicas.push_back(session.parameters(d));
    run.states.push_back(session.optimizer_state(d));
    run.allocated.push_back(session.allocated_bytes(d));
  }
  run.plan = plan;
  return run;
}

inline Trained train_on(const Backend& backend, Graph (*model)(std::int64_t), const CompileOptions& o, int steps, double rate) {
  const Backend* backends[] = {&backend};
  return train_by(compile(model, o, backends), backend, model, steps, rate);
}

inline Trained train(Graph (*model)(std::int64_t), const CompileOptions& o, int steps, double rate) {
  return train_on(cpu_backend(), model, o, steps, rate);
}

// Says what a step gains by, as a GPU's backend: convolutions that sum what they write and perhaps normalize what they read,
// where all channels come in eights.
inline bool chains(const KernelRequest& r) {
  const auto eights = [](const Operand& o) { return !o.present() || o.shape.rank() < 2 || (o.shape[1] % 8 == 0); };
  return r.op == "BatchNormalizationTraining" ||
         (r.op.starts_with("Conv") && r.attributes->integer("group", 1) == 1 && eights(r.inputs[0]) && eights(r.outputs[0]));
}

// The CPU's own backend, which gains by what it is told.
class AskedCpu : public Backend {
 public:
  std::function<bool(const KernelRequest&)> gains = [](const KernelRequest&) { return false; };
  Gain sure = Gain::yes;
  std::function<double(const KernelDescription&)> seconds;  // of a run; empty: they are measured
  std::string called = "cpu";
  std::string name() const override { return called; }
  std::string version() const override { return cpu_.version(); }
  std::string unusable() const override { return cpu_.unusable(); }
  int device_count() const override { return cpu_.device_count(); }
  Gain fuses(const KernelRequest& request) const override { return gains(request) ? sure : Gain::no; }
  std::string declines(Precision precision) const override { return cpu_.declines(precision); }
  DeviceModel model(int index, int devices_in_use) const override { return cpu_.model(index, devices_in_use); }
  std::vector<KernelRow> rows() const override { return cpu_.rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return cpu_.describe(request); }
  Timing measure(const KernelDescription& d, const KernelOptions& o) const override {
    return seconds ? Timing{seconds(d)} : cpu_.measure(d, o);
  }
  std::unique_ptr<Device> open(int index, const KernelOptions& o) const override { return cpu_.open(index, o); }

 private:
  const Backend& cpu_ = cpu_backend();
};

// Equal to what float32 rounds in a few steps.
inline void expect_close(const Trained& got, const Trained& wanted) {
  for (std::size_t s = 0; s < wanted.losses.size(); ++s)
    EXPECT_NEAR(got.losses[s], wanted.losses[s], 1e-4F * wanted.losses[0]) << "step " << s;
  for (std::size_t p = 0; p < wanted.replicas[0].size(); ++p) {
    const auto a = got.replicas[0][p].tensor.values<float>(), b = wanted.replicas[0][p].tensor.values<float>();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-3F * std::max(1.0F, std::fabs(b[i]))) << wanted.replicas[0][p].name;
  }
}

inline void expect_same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(std::memcmp(a[i].tensor.bytes().data(), b[i].tensor.bytes().data(), a[i].tensor.bytes().size()), 0) << a[i].name;
  }
}

// Losses, weights and optimizer states of every device.
inline void expect_same_training(const Trained& got, const Trained& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  for (std::size_t d = 0; d < wanted.replicas.size(); ++d) {
    expect_same_bits(got.replicas[d], wanted.replicas[d]);
    expect_same_bits(got.states[d], wanted.states[d]);
  }
}

}  // namespace tandem::small_models
