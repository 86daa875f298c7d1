// What a model is made of and compiled for, by name.
#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "graph/operator.h"
#include "planner/passes/freeze.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// "layer1" of "layer1.0.conv1.weight", "encoder/layer" of "/encoder/layer/MatMul".
bool is_within(std::string_view name, std::string_view module) {
  if (name.starts_with('/') && !module.starts_with('/')) name.remove_prefix(1);
  return name.size() > module.size() && name.starts_with(module) && (name[module.size()] == '.' || name[module.size()] == '/');
}

Json::Array shape_of(const TensorType& type) {
  Json::Array dims;
  for (const std::int64_t d : type.shape) dims.push_back(d);
  return dims;
}

Json optimizer_of(const OptimizerOptions& o) {
  Json::Object config{
      {"name", o.name}, {"default_rate", default_learning_rate(o)}, {"weight_decay", o.weight_decay}, {"decay_vectors", o.decay_vectors}};
  const std::pair<const char*, double> numbers[] = {{"momentum", o.momentum}, {"beta1", o.beta1},     {"beta2", o.beta2},
                                                    {"rho", o.rho},           {"epsilon", o.epsilon}, {"trust", o.trust}};
  for (const auto& [name, value] : numbers)
    if (optimizer_takes(o, name)) config.emplace_back(name, value);
  const std::pair<const char*, double> limits[] = {
      {"clip_norm", o.clip_norm}, {"clip_value", o.clip_value}, {"clip_parameter_norm", o.clip_parameter_norm}};
  for (const auto& [name, value] : limits)
    if (value > 0) config.emplace_back(name, value);
  return config;
}

}  // namespace

Layer Model::get_layer(const std::string& name) const {
  const CompiledModel& s = *compiled_;
  const Graph graph = s.source.file().graph(import_options(s.options, 1, true));
  Layer layer{.name = name, .nodes = {}, .operators = {}, .outputs = {}, .weights = {}};
  std::set<std::string> weights;
  std::set<ValueId> made;
  std::vector<bool> inside(graph.nodes.size());
  std::vector<std::string> names;
  for (const bool module : {false, true}) {  // a node of that very name before modules
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const auto goes_by = [&](const std::string& known) { return module ? is_within(known, name) : known == name; };
      bool here = goes_by(node.name);
      for (const ValueId out : node.outputs) here = here || (out.present() && goes_by(graph[out].name));
      for (const ValueId in : node.inputs)
        here = here || (in.present() && graph[in].kind == ValueKind::parameter && goes_by(graph[in].name));
      inside[i] = here;
      names.push_back(node.name);
    }
    if (std::find(inside.begin(), inside.end(), true) != inside.end()) break;
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!inside[i]) continue;
    const Node& node = graph.nodes[i];
    layer.nodes.push_back(node.name);
    layer.operators.emplace_back(node.op->name);
    for (const ValueId in : node.inputs)
      if (in.present() && graph[in].kind == ValueKind::parameter) weights.insert(graph[in].name);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  if (layer.nodes.empty())
    fail(ExitCode::usage, "model '", s.source.file().name(), "' has no node, value or module '", name, "'", suggestion(name, names));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId in : graph.nodes[i].inputs)
      if (!inside[i] && in.present() && made.contains(in)) {
        const std::string& taken = graph[in].name;
        if (std::find(layer.outputs.begin(), layer.outputs.end(), taken) == layer.outputs.end()) layer.outputs.push_back(taken);
      }
  for (const ValueId out : graph.outputs)
    if (made.contains(out) && std::find(layer.outputs.begin(), layer.outputs.end(), graph[out].name) == layer.outputs.end())
      layer.outputs.push_back(graph[out].name);
  if (s.session) {
    s.session->each_parameter([&](const NamedTensor& t) {
      if (weights.contains(t.name)) layer.weights.push_back(t);
    });
  } else {
    for (const Value& v : graph.values)
      if (v.data && weights.contains(v.name)) layer.weights.push_back({v.name, *v.data});
  }
  return layer;
}

Json Model::get_config() const {
  const CompiledModel& s = *compiled_;
  const CompileOptions& plan = s.options.plan;
  s.running();
  const Graph graph = s.source.file().graph(import_options(s.options, s.options.micro_batch(), plan.mode == PlanMode::training));
  std::vector<std::string> warnings;
  const Graph frozen = freeze(graph, s.source.plan_options(s.options), warnings);
  Json::Array inputs, outputs, layers, devices;
  for (const ValueId in : graph.inputs) inputs.push_back(Json::Object{{"name", graph[in].name}, {"type", to_string(graph[in].type)}});
  for (const ValueId out : graph.outputs) outputs.push_back(Json::Object{{"name", graph[out].name}, {"type", to_string(graph[out].type)}});
  for (const Node& node : frozen.nodes) {
    Json::Array weights, trained;
    for (const ValueId in : node.inputs) {
      if (!in.present() || frozen[in].kind != ValueKind::parameter) continue;
      weights.push_back(frozen[in].name);
      if (frozen[in].trainable) trained.push_back(frozen[in].name);
    }
    const bool known = !node.outputs.empty() && node.outputs[0].present();
    layers.push_back(Json::Object{{"name", node.name},
                                  {"operator", node.op->name},
                                  {"output", known ? Json(shape_of(frozen[node.outputs[0]].type)) : Json()},
                                  {"weights", std::move(weights)},
                                  {"trained", std::move(trained)}});
  }
  for (const DeviceSpec& d : plan.devices) devices.push_back(to_string(d.id));
  Json::Object config{{"model", s.source.file().name()},
                      {"inputs", std::move(inputs)},
                      {"outputs", std::move(outputs)},
                      {"mode", plan.mode == PlanMode::training ? "training" : "inference"},
                      {"loss", plan.loss.name},
                      {"loss_on", s.losses.empty() ? plan.loss.on : s.losses[0].value},
                      {"batch", plan.batch},
                      {"precision", name_of(plan.precision)},
                      {"devices", std::move(devices)},
                      {"layers", std::move(layers)}};
  if (plan.mode == PlanMode::training) config.emplace_back("optimizer", optimizer_of(plan.optimizer));
  if (!s.last.options.is_null()) config.emplace_back("fit", s.last.options);
  return config;
}

}  // namespace tandem
