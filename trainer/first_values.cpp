// First values of weights, as the options ask for them.
#include <algorithm>

#include "base/option.h"
#include "planner/compile.h"
#include "trainer/compiled_model.h"

namespace tandem {
namespace {

// What a model without inputs gives, by output.
std::map<std::string, Tensor> outputs_of(const ModelFile& file, const ModelOptions& o, Backends on) {
  const ImportOptions import{.batch = 0, .training = false};
  Graph graph = file.graph(import);
  std::map<std::string, Tensor> values;
  std::vector<GraphOutput> open;
  for (const GraphOutput& out : graph.outputs) {
    if (graph[out].kind == ValueKind::constant) values[graph[out].name] = *graph[out].data;
    else open.push_back(out);
  }
  if (open.empty()) return values;
  graph.outputs = open;
  CompileOptions options{.mode = PlanMode::inference, .batch = 1, .devices = {o.plan.devices.at(0)}};
  Session session(compile([&](std::int64_t) { return graph; }, options, on), on);
  session.set_parameters(initialize(graph, "keep", o.seed).values);
  std::vector<const std::byte*> inputs(session.plan(0).inputs.size());
  std::vector<std::byte*> outputs;
  for (const HostOutput& out : session.plan(0).outputs) {
    Tensor& tensor = values[out.name] = Tensor(out.type);
    outputs.push_back(tensor.write().data());
  }
  session.run(0, inputs, outputs, {.seed = o.seed});
  return values;
}

}  // namespace

Initial first_values(const ModelFile& file, const Graph& graph, const ModelOptions& o, Backends on) {
  const bool inference = o.plan.mode == PlanMode::inference, asked = o.init == "training-info";
  Initial initial = initialize(graph, asked || (inference && o.init == "auto") ? "keep" : o.init, o.seed);
  if (inference || !(asked || (o.init == "auto" && !initial.chosen.empty()))) return initial;
  const std::optional<ModelFile> by_file = file.initialization();
  if (!by_file && asked)
    fail(ExitCode::usage, option("init"), " training-info: model '", file.name(), "' has no initialization in its training_info");
  if (!by_file) return initial;
  const std::map<std::string, Tensor> values = outputs_of(*by_file, o, on);
  for (NamedTensor& v : initial.values) {
    const auto it = values.find(v.name);
    if (it == values.end()) continue;
    if (it->second.type() != v.tensor.type())
      fail("training_info: the initialization gives '", v.name, "' ", it->second.type(), ", the weight is ", v.tensor.type());
    v.tensor = it->second;
    std::erase(initial.missing, v.name);
    std::erase(initial.constant, v.name);
    initial.chosen = "its training_info computes them";
  }
  return initial;
}

}  // namespace tandem
