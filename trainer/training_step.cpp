// ONNX's training words: a template's own step as options, and first values by its initialization.
#include <algorithm>

#include "base/option.h"
#include "graph/updates.h"
#include "planner/compile.h"
#include "planner/loss/labels.h"
#include "planner/rewrite/graph_copy.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {
namespace {

}  // namespace

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
  CompiledModel& s = *compiled_;
  s.running();
  const OptimizerOptions& o = s.options.plan.optimizer;
  if (s.options.plan.mode != PlanMode::training) not_written("the model is compiled for inference");
  if (s.losses.size() != 1) not_written("a step of ", s.losses.size(), " losses is not written");
  const char* const more = o.clip_norm > 0 || o.clip_value > 0 || o.clip_parameter_norm > 0 ? "clipped gradients"
                           : o.average                                                      ? "averaged weights"
                           : o.amsgrad                                                      ? "amsgrad"
                                                                                            : nullptr;
  if (more) not_written("a step with ", more, " is not written");
  TrainingStep step{.optimizer = o.name, .learning_rate = learning_rate, .steps_before = s.step + o.steps_before};
  ModelOptions one = s.options;
  one.plan.devices.resize(1);
  one.plan.batch = one.micro_batch();
  one.plan.parallel.micro_batches = 1;
  one.plan.given_bytes.clear();
  const Graph model = s.source.graphs(one)(one.plan.batch);
  describe_loss(s.losses[0], model, one.plan, step);
  for (const ValueId in : model.inputs) step.inputs.push_back(model[in].name);
  const Graph graph = tandem::training_graph(s.source.graphs(one), s.source.plan_options(one));
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

}  // namespace tandem
