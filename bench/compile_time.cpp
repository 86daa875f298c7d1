// Times planning and prints one JSON line a case: ResNet-50 (or the models given), and chains of 100, 1,000 and 10,000
// nodes (convolution, ReLU, convolution, ...), each for training on one CPU device without timing kernels.
//   compile_time [MODEL.onnx ...]
//   compile_time --devices N PARALLEL [MODEL.onnx ...]   the models, and a transformer of 48 layers, on N devices that share the work so
//                                                        ("data=8,tensor=8"): processor seconds, programs, bytes of the plan's file
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/json.h"
#include "graph/operator.h"
#include "importer/model_file.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"

namespace tandem {
namespace {

Graph chain(int nodes, std::int64_t batch) {
  constexpr std::int64_t channels = 16;
  Graph graph;
  graph.name = concat("chain of ", nodes);
  ValueId x = graph.add_input("x", {DType::float32, Shape{batch, channels, 8, 8}});
  const Attributes convolution = {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}},
                                  {"dilations", Ints{1, 1}},    {"group", std::int64_t{1}}};
  for (int i = 0; i < nodes; ++i) {
    std::vector<ValueId> inputs = {x};
    const bool even = i % 2 == 0;
    if (even)
      inputs.push_back(graph.add_parameter(concat("w", i), {DType::float32, Shape{channels, channels, 3, 3}}, {}, true));
    const NodeId node = graph.add_node(*find_operator(even ? "Conv" : "Relu"), concat("node", i), even ? convolution : Attributes{},
                                       inputs, 1, {concat("node", i)});
    x = graph[node].outputs[0];
  }
  graph.outputs = {x};
  return graph;
}

// Layers of attention by heads and of four times the width, with residuals and normalizations; each token is classified.
Graph transformer(int layers, std::int64_t batch) {
  constexpr std::int64_t tokens = 64, width = 512, heads = 8, classes = 1000;
  Graph graph;
  graph.name = concat("transformer of ", layers, " layers");
  const auto weight = [&](const std::string& name, Shape shape) {
    return graph.add_parameter(name, {DType::float32, std::move(shape)}, {}, true);
  };
  const auto node = [&](std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const std::string name = concat(op, graph.nodes.size());
    return graph[graph.add_node(*find_operator(op), name, std::move(attributes), std::move(inputs), 1, {name})].outputs[0];
  };
  const auto dense = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    return node("Add", {node("MatMul", {x, weight(name, {in, out})}), weight(name + ".bias", {out})});
  };
  const auto normal = [&](ValueId x, const std::string& name) {
    return node("LayerNormalization", {x, weight(name, {width}), weight(name + ".bias", {width})}, {{"axis", std::int64_t{-1}}});
  };
  const auto by_heads = [&](ValueId x, Ints perm) {
    return node("Transpose", {node("Reshape", {x}, {{"shape", Ints{batch, tokens, heads, width / heads}}})}, {{"perm", std::move(perm)}});
  };
  ValueId x = graph.add_input("x", {DType::float32, {batch, tokens, width}});
  for (int i = 0; i < layers; ++i) {
    const std::string l = concat("layer", i, '.');
    const ValueId y = normal(x, l + "norm1");
    const ValueId q = by_heads(dense(y, l + "q", width, width), {0, 2, 1, 3}), k = by_heads(dense(y, l + "k", width, width), {0, 2, 3, 1}),
                  v = by_heads(dense(y, l + "v", width, width), {0, 2, 1, 3});
    const ValueId scores = node("Softmax", {node("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}});
    const ValueId read = node("Transpose", {node("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
    x = node("Add", {x, dense(node("Reshape", {read}, {{"shape", Ints{batch, tokens, width}}}), l + "proj", width, width)});
    x = node("Add", {x, dense(node("Gelu", {dense(normal(x, l + "norm2"), l + "up", width, 4 * width)}), l + "down", 4 * width, width)});
  }
  x = node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  graph.outputs = {node("Gemm", {x, weight("head", {width, classes}), weight("head.bias", {classes})})};
  return graph;
}

struct Timing {
  double import_seconds = 1e30, compile_seconds = 1e30;
  std::size_t nodes = 0, steps = 0;
};

// The fastest of some runs; `make` gives the graph for a batch.
template <class Make>
Timing measure(const Make& make, CompileOptions options, int runs) {
  const Backend* backends[] = {&cpu_backend()};
  options.devices = {{{"cpu", 0}}};
  Timing best;
  for (int run = 0; run < runs; ++run) {
    double import_seconds = 0;
    const GraphSource source = [&](std::int64_t batch) {
      const auto begin = std::chrono::steady_clock::now();
      Graph graph = make(batch);
      import_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best.nodes = graph.nodes.size();
      return graph;
    };
    const auto begin = std::chrono::steady_clock::now();
    const Plan plan = compile(source, options, backends);
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best.steps = plan.programs[0].steps.size();
    best.import_seconds = std::min(best.import_seconds, import_seconds);
    best.compile_seconds = std::min(best.compile_seconds, all - import_seconds);
  }
  return best;
}

void print(const std::string& name, const Timing& t) {
  const Json json = Json::Object{{"case", name},
                                 {"nodes", t.nodes},
                                 {"plan_steps", t.steps},
                                 {"import_seconds", t.import_seconds},
                                 {"compile_seconds", t.compile_seconds},
                                 {"microseconds_per_node", 1e6 * t.compile_seconds / static_cast<double>(t.nodes)}};
  std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
}

void run_on_devices(int devices, const std::string& parallel, const std::vector<std::string>& models) {
  const Backend* backends[] = {&cpu_backend()};
  CompileOptions options;
  options.batch = 4 * devices;
  options.optimizer.momentum = 0.9;
  options.parallel = parse_parallelism(parallel);
  for (int d = 0; d < devices; ++d) options.devices.push_back({{"cpu", d}});
  const auto plan_of = [&](const std::string& name, const GraphSource& source) {
    const std::clock_t begin = std::clock();
    const Plan plan = compile(source, options, backends);
    const std::clock_t planned = std::clock();
    const std::string file = serialize(plan);
    const std::clock_t written = std::clock();
    parse_plan(file);
    const auto seconds = [](std::clock_t from, std::clock_t to) { return static_cast<double>(to - from) / CLOCKS_PER_SEC; };
    std::size_t steps = 0;
    for (const DeviceProgram& p : plan.programs) steps += p.steps.size();
    const Json json = Json::Object{{"case", name},
                                   {"devices", devices},
                                   {"parallel", parallel},
                                   {"programs", plan.programs.size()},
                                   {"steps", steps},
                                   {"exchanges", plan.exchanges.size()},
                                   {"file_bytes", file.size()},
                                   {"plan_processor_seconds", seconds(begin, planned)},
                                   {"write_processor_seconds", seconds(planned, written)},
                                   {"read_processor_seconds", seconds(written, std::clock())}};
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
  };
  for (const std::string& path : models) {
    const ModelFile file = ModelFile::read(path);
    try {
      plan_of(file.name(), [&](std::int64_t batch) { return file.graph({.batch = batch}); });
    } catch (const Error& e) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), e.what());
    }
  }
  plan_of("transformer of 48 layers", [&](std::int64_t batch) { return transformer(48, batch); });
}

void run(const std::vector<std::string>& models) {
  CompileOptions options;
  options.batch = 8;
  for (const std::string& path : models) {
    const ModelFile file = ModelFile::read(path);
    print(file.name(), measure([&](std::int64_t batch) { return file.graph({.batch = batch}); }, options, 3));
  }
  options.loss.name = "mse";
  options.loss.dense_labels = true;
  for (const int nodes : {100, 1000, 10000})
    print(concat("chain of ", nodes), measure([&](std::int64_t batch) { return chain(nodes, batch); }, options, 3));
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    std::vector<std::string> models(argv + 1, argv + argc);
    const bool many = models.size() > 2 && models[0] == "--devices";
    const std::vector<std::string> devices(models.begin(), models.begin() + (many ? 3 : 0));
    models.erase(models.begin(), models.begin() + std::ssize(devices));
    if (models.empty()) models = {"models/resnet50.onnx"};
    many ? tandem::run_on_devices(std::stoi(devices[1]), devices[2], models) : tandem::run(models);
    return 0;
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "compile_time: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
