// The template's own step, which ONNX's training words describe, as options.
#include <algorithm>

#include "base/option.h"
#include "graph/updates.h"
#include "planner/compile.h"
#include "planner/loss/labels.h"
#include "planner/rewrite/graph_copy.h"
#include "trainer/template/model_template.h"

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

}  // namespace

void ModelTemplate::take_loss(const TrainingStep& step, ModelOptions& options) const {
  CompileOptions& o = options.plan;
  if (step.loss == "output" && !step.mean_of_samples && computing_devices(o).size() > 1)
    fail(ExitCode::usage, "the loss '", step.loss_on,
         "' of the template's training_info is not known to be a mean over the samples: a batch of it cannot be shared by ", computing_devices(o).size(), " devices; ", option("loss"), " names another");
  o.loss.name = step.loss;
  o.loss.assumed = false;
  o.loss.on.clear();
  o.loss.ignore_index = step.ignore_index;
  const Graph graph = plain_graphs(options)(o.batch);  // with all inputs: the loss that is not set yet may need them
  const std::optional<ValueId> on = graph.find(step.loss_on);
  if (!on)
    fail("training_info: the loss is computed on '", step.loss_on, "', which the model's graph has not as it is built here; ",
         option("loss"), " names another");
  // Scores that go into the model's last Softmax are found by themselves.
  if (logits_of(graph, o)[0] != *on) o.loss.on = step.loss_on;
  if (step.class_axis && graph[*on].type.shape.rank() > 2) o.loss.class_axis = 1;
}

void ModelTemplate::take_optimizer(const TrainingStep& step, ModelOptions& options) const {
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
  const Graph graph = graphs(options)(options.micro_batch());
  for (const ValueId v : trainable_parameters(graph))
    if (std::ranges::none_of(step.trained, [&](const auto& t) { return t.weight == graph[v].name; }))
      options.plan.trained.freeze.push_back(graph[v].name);
}

}  // namespace tandem
