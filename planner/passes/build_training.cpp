// Forward, loss, backward, updates: the training graph of one device.
#include <algorithm>
#include <map>
#include <set>

#include "graph/step_scalars.h"
#include "planner/passes/optimizer.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

std::vector<ValueId> trainable_parameters(const Graph& graph) {
  std::vector<ValueId> list;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].kind == ValueKind::parameter && graph.values[i].trainable) list.push_back({static_cast<int>(i)});
  return list;
}

// What of the model's trainable parameters the loss does not reach, in one line.
std::vector<std::string> warn_of_unreached(const Graph& model, const Graph& training, std::span<const ValueId> parameters,
                                           std::span<const ValueId> gradients) {
  std::set<std::string> reached;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].present()) reached.insert(training[parameters[i]].name);
  constexpr std::size_t most = 4;
  std::size_t count = 0;
  std::string names;
  for (const ValueId v : trainable_parameters(model)) {
    if (reached.contains(model[v].name) || count++ >= most) continue;
    names += concat(count > 1 ? ", " : "", '\'', model[v].name, '\'');
  }
  if (count == 0) return {};
  return {concat("the loss does not depend on ", names, count > most ? concat(", ... (", count, " parameters in all)") : "",
                 count == 1 ? ": it keeps its value" : ": they keep their values")};
}

// Small parameters share one update step: starting a step costs more than updating a thousand numbers.
constexpr std::int64_t small_parameter = 16384;
constexpr std::size_t largest_group = 64;

void append_updates(Graph& graph, const CompileOptions& o, ValueId scalars, std::span<const ValueId> parameters, std::span<const ValueId> gradients,
                    std::span<const ValueId> copies) {
  const UpdateRule rule = update_rule(o.optimizer);
  const Operator& op = internal_operator(rule.op);
  std::vector<std::size_t> small[2];  // with and without a copy
  const auto emit = [&](std::span<const std::size_t> group) {
    std::vector<ValueId> inputs{scalars};
    for (const std::size_t i : group) {
      const Value parameter = graph[parameters[i]];
      inputs.push_back(parameters[i]);
      inputs.push_back(gradients[i]);
      for (const std::string& state : rule.states) {
        Value v{.name = concat(state, '/', parameter.name), .type = parameter.type, .kind = ValueKind::parameter, .optimizer_state = true};
        v.source = parameter.source;
        v.template_shape = parameter.template_shape;
        inputs.push_back(graph.add_value(std::move(v)));
      }
      if (copies[i].present()) inputs.push_back(copies[i]);
    }
    Attributes attributes = rule.attributes;
    attributes.set("tensors", static_cast<std::int64_t>(group.size()));
    if (copies[group[0]].present()) attributes.set("copies", std::int64_t{1});
    const int outputs = static_cast<int>(group.size() * (1 + rule.states.size() + copies[group[0]].present()));
    graph.add_node(op, concat("update/", graph[parameters[group[0]]].name), std::move(attributes), std::move(inputs), outputs);
  };
  // In the order in which gradients become ready, so that an update can follow its gradient.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].present()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return graph[gradients[a]].producer < graph[gradients[b]].producer; });
  for (const std::size_t i : order) {
    if (graph[parameters[i]].type.shape.elements() > small_parameter) {
      emit(std::span(&i, 1));
      continue;
    }
    std::vector<std::size_t>& group = small[copies[i].present() ? 0 : 1];
    group.push_back(i);
    if (group.size() == largest_group) {
      emit(group);
      group.clear();
    }
  }
  for (const std::vector<std::size_t>& group : small)
    if (!group.empty()) emit(group);
}

constexpr const char *loss_scale_state = "tandem.loss_scale", *loss_scale_output = "loss_scale";

// The scale of this step's loss, from a state that the optimizer keeps.
ValueId append_loss_scale(Graph& graph, const LossScaling& scaling) {
  Value state{.name = loss_scale_state, .type = {DType::float32, Shape{3}}, .kind = ValueKind::parameter, .optimizer_state = true, .template_shape = Shape{3}};
  const ValueId id = graph.add_value(std::move(state));
  return GraphBuilder(graph, "loss_scale", {}).emit("LossScale", {id}, {{"start", static_cast<float>(scaling.start)}});
}

// What the updates of scaled gradients go by; `finite` is 1 where the step counts. The gradients are those already summed
// over the devices, the same on all of them: so is what is found in them.
ValueId append_scaled_scalars(Graph& graph, const CompileOptions& o, ValueId scalars, ValueId finite) {
  const Attributes attributes{{"start", static_cast<float>(o.loss_scaling->start)}, {"beta1", static_cast<float>(o.optimizer.beta1)}, {"beta2", static_cast<float>(o.optimizer.beta2)}};
  return GraphBuilder(graph, "loss_scale", {}).emit("ScaledScalars", {scalars, *graph.find(loss_scale_state), finite}, attributes);
}

// A gradient in its parameter's template form: undoes the view that became the parameter's own shape.
ValueId in_template_form(Graph& graph, ValueId parameter, ValueId gradient) {
  const Value p = graph[parameter];
  GraphBuilder b(graph, concat("gradient/", p.name), {});
  if (!p.source.any() && !p.source.is_row_major()) {
    Ints perm;
    for (const char axis : p.source.tag()) perm.push_back(axis - 'a');
    gradient = b.transpose(gradient, perm);
  }
  return b.reshape(gradient, p.template_shape);
}

}  // namespace

std::optional<LossScaling> loss_scaling_of(const CompileOptions& o) {
  if (!o.loss_scaling) return o.precision == Precision::fp16 ? std::optional(LossScaling{}) : std::nullopt;
  if (o.loss_scaling->start == 0) return std::nullopt;
  if (!(o.loss_scaling->start > 0) || o.loss_scaling->interval < 1)
    fail(ExitCode::usage, "loss scaling starts at ", o.loss_scaling->start, " and doubles after ", o.loss_scaling->interval, " steps: both must be positive");
  return o.loss_scaling;
}

Training build_training(const Graph& whole, const Labels& labels, const CompileOptions& options, std::int64_t samples, bool collective, const Fusions& fusions) {
  CompileOptions o = options;
  o.loss_scaling = loss_scaling_of(options);
  Training t;
  Graph model = freeze(whole, o, t.warnings);
  model.outputs = {logits_of(whole, o)};  // all that the loss sees of it
  const bool synchronized = collective && o.synchronize_batch_norm;
  t.graph = expand(model, true);
  if (synchronized) t.graph = synchronize_batch_norm(t.graph, samples, o.batch);
  t.graph = fuse_layers(simplify(pool_before_relu(simplify(t.graph))), fusions);
  Graph& graph = t.graph;
  const Loss loss = attach_loss(graph, labels, samples, o.batch, o.accuracy);
  graph.outputs = {loss.loss};
  t.outputs = {"loss"};
  if (loss.correct.present()) {
    graph.outputs.push_back(loss.correct);
    t.outputs.push_back("correct");
  }
  graph = simplify(graph);  // drops what only the model's own outputs needed
  graph = sum_channels(mixed_precision(graph, o.precision), fusions);

  ValueId differentiated = graph.outputs[0];
  if (o.loss_scaling) {
    const ValueId scale = append_loss_scale(graph, *o.loss_scaling);
    differentiated = GraphBuilder(graph, "loss_scale", {}).mul(differentiated, scale);
    graph.outputs.push_back(scale);
    t.outputs.push_back(loss_scale_output);
  }
  const std::size_t scale_output = graph.outputs.size() - 1;

  std::vector<ValueId> parameters = trainable_parameters(graph);
  for (const ValueId p : parameters)
    if (is_16_bit(graph[p].type.dtype))
      fail("parameter '", graph[p].name, "' is ", graph[p].type.dtype, ": training keeps weights in float32, a template has to hold them so (--precision says what is computed in)");
  if (parameters.empty()) fail("model '", graph.name, "' has no trainable parameter", o.freeze.empty() ? "" : " left after --freeze");
  std::vector<ValueId> gradients = differentiate(graph, differentiated, parameters);
  if (std::none_of(gradients.begin(), gradients.end(), [](ValueId g) { return g.present(); }))
    fail("the loss does not depend on any trainable parameter of model '", graph.name, "'");

  for (std::string& warning : warn_of_unreached(model, graph, parameters, gradients)) t.warnings.push_back(std::move(warning));

  // Passes renumber values: what must be found again afterwards rides along as outputs.
  const std::size_t outputs = graph.outputs.size();
  for (const ValueId g : gradients)
    if (g.present()) graph.outputs.push_back(g);
  graph = normalize_in_convolutions(fuse_gradients(simplify(graph), fusions), fusions);
  parameters = trainable_parameters(graph);
  std::size_t next = outputs;
  for (ValueId& g : gradients)
    if (g.present()) g = graph.outputs[next++];
  graph.outputs.resize(outputs);
  for (const std::string& name : o.keep_gradients)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (graph[parameters[i]].name == name && gradients[i].present()) {
        ValueId kept = in_template_form(graph, parameters[i], gradients[i]);
        if (o.loss_scaling) kept = GraphBuilder(graph, "loss_scale", {}).div(kept, graph.outputs[scale_output]);
        graph.outputs.push_back(kept);
        t.outputs.push_back("gradient/" + name);
      }

  if (collective) {
    // Each replica's value is summed in place: it needs memory of its own that nothing else reads.
    const auto users = graph.consumers();
    std::map<int, int> count;
    for (const ValueId g : gradients)
      if (g.present()) ++count[g.index];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!gradients[i].present()) continue;
      ValueId& g = gradients[i];
      const bool alone = graph[g].kind == ValueKind::activation && users[static_cast<std::size_t>(g.index)].empty() && count[g.index] == 1 &&
                       graph[graph[g].producer].op->name != "Reshape" && graph[graph[g].producer].op->name != "Transpose";
      if (!alone) g = GraphBuilder(graph, concat("gradient/", graph[parameters[i]].name), {}).emit("Reorder", {g});
      t.reduced.push_back({graph[parameters[i]].name, g});
    }
  }
  // Running statistics: each replica's own, weighted by its share of the batch, make the batch's.
  std::vector<StateUpdate> statistics = std::move(graph.state_updates);
  graph.state_updates.clear();
  if (collective && !synchronized)
    for (StateUpdate& u : statistics) {
      GraphBuilder b(graph, concat("statistics/", graph[u.parameter].name), {});
      u.value = b.mul(u.value, static_cast<double>(samples) / static_cast<double>(o.batch));
      t.reduced.push_back({graph[u.parameter].name, u.value});
    }
  std::vector<ValueId> copies(parameters.size());
  if (fusions.narrow_updates) copies = narrow_updates(graph, parameters, gradients, collective);
  GraphBuilder update(graph, "update", {});
  ValueId scalars = update.input("tandem.scalars", {DType::float32, Shape{StepScalars::count}}), finite;
  if (o.loss_scaling) {
    std::vector<ValueId> all;
    for (const ValueId g : gradients)
      if (g.present()) all.push_back(g);
    finite = update.emit("AllFinite", std::move(all));
    scalars = append_scaled_scalars(graph, o, scalars, finite);
  }
  append_updates(graph, o, scalars, parameters, gradients, copies);
  for (const StateUpdate& u : statistics) {
    std::vector<ValueId> inputs{u.parameter, u.value};
    if (o.loss_scaling) inputs.push_back(scalars);
    graph.add_node(internal_operator("RunningStatistics"), concat("statistics/", graph[u.parameter].name), {{"momentum", u.momentum}}, std::move(inputs), 1);
  }
  if (o.loss_scaling) update.emit("LossScaleUpdate", {*graph.find(loss_scale_state), finite}, {{"interval", o.loss_scaling->interval}});

  const std::size_t own = graph.outputs.size();
  for (const Reduced& r : t.reduced) graph.outputs.push_back(r.value);
  graph = fuse_elementwise(graph);
  for (std::size_t i = 0; i < t.reduced.size(); ++i) t.reduced[i].value = graph.outputs[own + i];
  graph.outputs.resize(own);
  verify(graph);
  return t;
}

Graph training_graph(const GraphSource& source, const CompileOptions& options, std::int64_t samples) {
  return build_training(source(samples), labels_of(source, options), options, samples, false).graph;
}

}  // namespace tandem
