// Times planning and prints one JSON line a case: ResNet-50 (or the models given), and chains of 100, 1,000 and 10,000
// nodes (convolution, ReLU, convolution, ...), each for training on one CPU device without timing kernels.
//   compile_time [MODEL.onnx ...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/json.h"
#include "graph/operator.h"
#include "importer/model_file.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"

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
    best.steps = plan.devices[0].steps.size();
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
    if (models.empty()) models = {"models/resnet50.onnx"};
    tandem::run(models);
    return 0;
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "compile_time: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
