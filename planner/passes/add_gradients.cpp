// The backward graph of the loss, for all trainable parameters: their gradients become outputs.
#include <algorithm>

#include "base/option.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/update/loss_scaling.h"

namespace tandem::pass_rows {
namespace {

// The parameters without a gradient, in one line.
std::string unreached(const Graph& graph, std::span<const ValueId> parameters, std::span<const ValueId> gradients) {
  constexpr std::size_t most = 4;
  std::size_t count = 0;
  std::string names;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (gradients[i].present() || count++ >= most) continue;
    names += concat(count > 1 ? ", " : "", '\'', graph[parameters[i]].name, '\'');
  }
  if (count == 0) return {};
  return concat("the loss does not depend on ", names, count > most ? concat(", ... (", count, " parameters in all)") : "",
                count == 1 ? ": it keeps its value" : ": they keep their values");
}

// The loss, or the outputs whose gradients are inputs: those that something computes.
std::vector<ValueId> gradients_in(Graph& graph, const CompileOptions& o, const std::vector<ValueId>& wanted) {
  if (!has_external_loss(o)) {
    const ValueId loss = output_as(graph, ValueRole::loss);
    const std::optional<LossScaling> scaling = loss_scaling_of(o);
    return differentiate(graph, scaling ? scaled_loss(graph, *scaling, loss) : loss, wanted);
  }
  std::vector<GradientOfValue> given;
  for (const GraphOutput& out : graph.outputs)
    if (const auto gradient = graph.find(ValueRole::gradient, out.of)) given.push_back({out, *gradient});
  return differentiate(graph, given, wanted);
}

// Inputs whose gradients the caller keeps, which gets zeros where no output depends on one.
std::vector<ValueId> kept_inputs(const Graph& graph, const CompileOptions& o) {
  std::vector<ValueId> inputs;
  for (const ValueId in : graph.inputs)
    if (graph[in].role == ValueRole::plain && std::ranges::find(o.keep_gradients, graph[in].name) != o.keep_gradients.end())
      inputs.push_back(in);
  return inputs;
}

void give_gradient_of_input(Graph& graph, const Value input, ValueId gradient) {
  GraphBuilder b(graph, concat("gradient/", input.name), {});
  if (!gradient.present()) gradient = b.broadcast_to(b.scalar(0, input.type.dtype), input.type.shape);
  graph[gradient].depends_on_batch = input.depends_on_batch;
  graph.outputs.emplace_back(gradient, ValueRole::measure, concat("gradient/", input.name));
}

Graph add_gradients(Graph graph, const CompileOptions& o, std::vector<std::string>& warnings) {
  const std::vector<ValueId> parameters = trainable_parameters(graph);
  for (const ValueId p : parameters)
    if (is_16_bit(graph[p].type.dtype))
      fail("parameter '", graph[p].name, "' is ", graph[p].type.dtype, ": training keeps weights in float32 (", option("precision"),
           " says what is computed in)");
  const bool external = has_external_loss(o);
  if (parameters.empty() && !external)
    fail("model '", graph.name, "' has no trainable parameter", o.trained.freeze.empty() ? "" : concat(" left after ", option("freeze")));
  const std::vector<ValueId> inputs = external ? kept_inputs(graph, o) : std::vector<ValueId>();
  std::vector<ValueId> wanted = parameters;
  wanted.insert(wanted.end(), inputs.begin(), inputs.end());
  const std::vector<ValueId> gradients = gradients_in(graph, o, wanted);
  if (!external && std::none_of(gradients.begin(), gradients.end(), [](ValueId g) { return g.present(); }))
    fail("the loss does not depend on any trainable parameter of model '", graph.name, "'");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].present()) graph.outputs.emplace_back(gradients[i], ValueRole::gradient, graph[parameters[i]].name);
  for (std::size_t i = 0; i < inputs.size(); ++i) give_gradient_of_input(graph, graph[inputs[i]], gradients[parameters.size() + i]);
  if (external) return graph;
  if (std::string line = unreached(graph, parameters, gradients); !line.empty()) warnings.push_back(std::move(line));
  return graph;
}

}  // namespace

// The gradients of the loss, or of the scaled loss, become outputs. Says which parameters it does not reach. Fails (model) where there
// is none that it does.
Pass add_gradients() {
  return {.name = "add_gradients",
          .run = [](Graph g, PassContext& c) { return add_gradients(std::move(g), c.options, c.warnings); },
          .needs = {Property::primitive, Property::loss},
          .gives = {Property::gradients},
          .why = "updates take gradients"};
}

}  // namespace tandem::pass_rows
