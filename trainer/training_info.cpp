// ONNX's training words: a template's own step as options, and first values by its initialization.
#include <algorithm>

#include "base/option.h"
#include "graph/updates.h"
#include "planner/compile.h"
#include "planner/loss/labels.h"
#include "planner/rewrite/graph_copy.h"
#include "trainer/model_state.h"

namespace tandem {
namespace {

struct Number {
  std::string_view name;
  double OptimizerOptions::*value;
};
constexpr Number numbers[] = {
    {"momentum", &OptimizerOptions::momentum}, {"dampening", &OptimizerOptions::dampening}, {"beta1", &OptimizerOptions::beta1}, {"beta2", &OptimizerOptions::beta2},
    {"rho", &OptimizerOptions::rho}, {"epsilon", &OptimizerOptions::epsilon}, {"rate_decay", &OptimizerOptions::rate_decay}, {"trust", &OptimizerOptions::trust},
};
struct Flag {
  std::string_view name;
  bool OptimizerOptions::*value;
};
constexpr Flag flags[] = {
    {"nesterov", &OptimizerOptions::nesterov}, {"amsgrad", &OptimizerOptions::amsgrad}, {"centered", &OptimizerOptions::centered},
    {"decoupled", &OptimizerOptions::decoupled}, {"epsilon_hat", &OptimizerOptions::epsilon_hat},
};

// Weights that are updated otherwise than the first get groups; a pattern also means what stands behind a name's last '.' or '/', so
// the longest names come first.
std::vector<UpdateGroup> groups_of(std::vector<TrainingStep::Trained> trained) {
  const TrainingStep::Trained first = trained[0];
  if (std::ranges::all_of(trained, [&](const auto& t) { return t.weight_decay == first.weight_decay && t.rate == first.rate; })) return {};
  std::ranges::stable_sort(trained, std::ranges::greater(), [](const auto& t) { return t.weight.size(); });
  std::vector<UpdateGroup> groups;
  for (const TrainingStep::Trained& t : trained) groups.push_back({.patterns = {t.weight}, .weight_decay = t.weight_decay, .rate = t.rate});
  return groups;
}

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

void Model::take_loss(const TrainingStep& step, ModelOptions& options) const {
  CompileOptions& o = options.plan;
  if (step.loss == "output" && !step.mean_of_samples && o.devices.size() > 1)
    fail(ExitCode::usage, "the loss '", step.loss_on, "' of the template's training_info is not known to be a mean over the samples: a batch of it cannot be shared by ", o.devices.size(),
         " devices; ", option("loss"), " names another");
  o.loss.name = step.loss;
  o.loss.assumed = false;
  o.loss.on.clear();
  o.loss.ignore_index = step.ignore_index;
  const Graph graph = state_->plain_source(options)(o.batch);  // with all inputs: the loss that is not set yet may need them
  const std::optional<ValueId> on = graph.find(step.loss_on);
  if (!on)
    fail("training_info: the loss is computed on '", step.loss_on, "', which the model's graph has not as it is built here; ",
         option("loss"), " names another");
  // Scores that go into the model's last Softmax are found by themselves.
  if (logits_of(graph, o)[0] != *on) o.loss.on = step.loss_on;
  if (step.class_axis && graph[*on].type.shape.rank() > 2) o.loss.class_axis = 1;
}

void Model::take_optimizer(const TrainingStep& step, ModelOptions& options) const {
  OptimizerOptions& o = options.plan.optimizer;
  o = optimizer_defaults(step.optimizer);
  for (const Number& n : numbers)
    if (const auto it = step.numbers.find(std::string(n.name)); it != step.numbers.end()) o.*n.value = it->second;
  for (const Flag& f : flags)
    if (const auto it = step.numbers.find(std::string(f.name)); it != step.numbers.end()) o.*f.value = it->second != 0;
  o.weight_decay = step.trained.at(0).weight_decay;
  o.groups = groups_of(step.trained);
  const bool anew = options.init == "training-info";  // as if no training had happened
  o.steps_before = anew ? 0 : step.steps_before;
  if (!anew) options.states = step.states;
  options.own_step = true;
  const Graph graph = state_->source(options)(options.plan.batch);
  for (const ValueId v : trainable_parameters(graph))
    if (std::ranges::none_of(step.trained, [&](const auto& t) { return t.weight == graph[v].name; }))
      options.plan.trained.freeze.push_back(graph[v].name);
}

namespace {

template <class... Parts>
[[noreturn]] void not_written(const Parts&... parts) {
  fail(ExitCode::usage, option("export_training_info"), ": ", parts...);
}

// Which loss, on what, with which labels.
void describe_loss(const Labels& l, const Graph& graph, const CompileOptions& o, TrainingStep& step) {
  const Value& on = graph[logits_of(graph, o)[0]];
  const Shape& shape = on.type.shape;
  step.loss = l.loss;
  step.loss_on = on.name;
  step.ignore_index = l.ignore;
  const bool classes = l.axis >= 0;
  const char* const more = l.smoothing > 0            ? "label smoothing"
                           : !l.class_weights.empty() ? "weights of classes"
                           : l.weighted               ? "weights of samples"
                           : l.probabilities          ? "probabilities that no softmax makes"
                           : o.loss.shift_labels      ? "shifted labels"
                           : !l.parameters.empty()    ? "parameters"
                                                      : nullptr;
  if (more) not_written("the loss ", l.loss, " with ", more, " is not written");
  if (shape.rank() < 2 || l.scores.rank() != shape.rank() - 1)
    not_written("'", on.name, "' ", on.type, " holds its samples in rows of several");
  if (classes && (l.axis != 0 || !l.sample || is_float(l.sample->dtype)))
    not_written("the loss on '", on.name, "' ", on.type, " has ",
                l.axis != 0 ? "its classes not on axis 1" : "labels that are no class indices");
  step.label_sample =
      TensorType{classes ? DType::int64 : DType::float32, Shape(std::vector<std::int64_t>(shape.begin() + (classes ? 2 : 1), shape.end()))};
}

// An update node's numbers by the names of OptimizerOptions.
std::map<std::string, double> numbers_of(const UpdateNumbers& n, const OptimizerOptions& o) {
  std::map<std::string, double> list;
  const auto add = [&](const char* name, double value) {
    if (optimizer_takes(o, name)) list[name] = value;
  };
  add("momentum", n.momentum);
  add("dampening", n.dampening);
  add("nesterov", n.nesterov);
  add("beta1", n.beta1);
  add("beta2", n.beta2);
  add("rho", n.beta1);
  add("epsilon", n.epsilon);
  add("rate_decay", n.rate_decay);
  add("epsilon_hat", o.epsilon_hat);
  return list;
}

}  // namespace

TrainingStep Model::training_step(double learning_rate) const {
  State& s = *state_;
  s.running();
  const OptimizerOptions& o = s.options.plan.optimizer;
  if (s.options.plan.mode != PlanMode::training) not_written("the model is compiled for inference");
  if (s.losses.size() != 1) not_written("a step of ", s.losses.size(), " losses is not written");
  const char* const more = o.clip_norm > 0 || o.clip_value > 0 || o.clip_parameter_norm > 0 ? "clipped gradients"
                           : o.accumulate                                                   ? "gradients of several batches"
                           : o.average                                                      ? "averaged weights"
                           : o.amsgrad                                                      ? "amsgrad"
                                                                                            : nullptr;
  if (more) not_written("a step with ", more, " is not written");
  TrainingStep step{.optimizer = o.name, .learning_rate = learning_rate, .steps_before = s.step + o.steps_before};
  ModelOptions one = s.options;
  one.plan.devices.resize(1);
  one.plan.given_bytes.clear();
  const Graph model = s.source(one)(one.plan.batch);
  describe_loss(s.losses[0], model, one.plan, step);
  for (const ValueId in : model.inputs) step.inputs.push_back(model[in].name);
  const Graph graph = tandem::training_graph(s.source(one), s.plan_options(one));
  for (const Node& node : graph.nodes) {
    // A file is in inference mode, and its step is of what it computes.
    if (node.op->keeps_statistic || node.op->name == "DropoutTraining" || node.op->name == "RandomNumbers")
      not_written("the step of '", node.origin.empty() ? node.name : node.origin[0], "' (", node.op->name,
                  ") is of what the model computes in training, a file's is of what it computes in inference");
    const UpdateRow* const row = find_update(node.op->name);
    if (!row) continue;
    const UpdateNumbers n = update_numbers(row->kind, node.attributes);
    if (row->kind == UpdateKind::assign) not_written("optimizer ", o.name, " is not written");
    if (n.from > 0) not_written("a group that begins at a later epoch is not written");
    step.numbers = numbers_of(n, o);
    const UpdateOperands operands(node.attributes, node.inputs.size());
    for (std::size_t t = 0; t < operands.tensors; ++t)
      step.trained.push_back({graph[node.inputs[operands.at(t)]].name, n.weight_decay, n.rate});
  }
  std::ranges::sort(step.trained, {}, &TrainingStep::Trained::weight);
  s.session->each_optimizer_state([&](const NamedTensor& t) { step.states[t.name] = t.tensor; });
  return step;
}

Initial Model::State::first_values(const Graph& graph, const ModelOptions& o, Backends on) const {
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
