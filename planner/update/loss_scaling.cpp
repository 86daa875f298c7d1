// The nodes of a scaled loss: its product with the scale, the check that all gradients are finite, and what follows for the
// scale.
#include "planner/update/loss_scaling.h"

#include "graph/operator.h"
#include "graph/step_scalars.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

constexpr const char *state_name = "tandem.loss_scale", *metric_name = "loss_scale";

// The state that belongs to no parameter; that of quantize_products comes later, and is read by its own pass.
ValueId state_of(const Graph& graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (const Value& v = graph.values[i]; v.role == ValueRole::optimizer_state && v.name == state_name) return {static_cast<int>(i)};
  fail("graph '", graph.name, "' has no loss scale");
}

}  // namespace

std::optional<LossScaling> loss_scaling_of(const CompileOptions& o) {
  if (has_external_loss(o)) return std::nullopt;  // who computes the loss scales it
  if (!o.loss.scaling) return o.precision == Precision::fp16 ? std::optional(LossScaling{}) : std::nullopt;
  if (o.loss.scaling->start == 0) return std::nullopt;
  if (!(o.loss.scaling->start > 0) || o.loss.scaling->interval < 1)
    fail(ExitCode::usage, "loss scaling starts at ", o.loss.scaling->start, " and doubles after ", o.loss.scaling->interval,
         " steps: both must be positive");
  return o.loss.scaling;
}

ValueId scaled_loss(Graph& graph, const LossScaling& scaling, ValueId loss) {
  Value state{.name = state_name,
              .type = {DType::float32, Shape{LossScaleState::count}},
              .kind = ValueKind::parameter,
              .role = ValueRole::optimizer_state,
              .template_shape = Shape{LossScaleState::count}};
  const ValueId id = graph.add_value(std::move(state));
  GraphBuilder b(graph, "loss_scale", {});
  const ValueId scale = b.emit("LossScale", {id}, {{"start", static_cast<float>(scaling.start)}});
  graph.outputs.emplace_back(scale, ValueRole::metric, metric_name);
  return b.mul(loss, scale);
}

ValueId unscaled(Graph& graph, ValueId gradient) {
  return GraphBuilder(graph, "loss_scale", {}).div(gradient, output_as(graph, ValueRole::metric, metric_name));
}

void scale_scalars(Graph& graph, const CompileOptions& o, StepScalarsOf& scalars, std::vector<std::vector<ValueId>> gradients) {
  const LossScaling scaling = *loss_scaling_of(o);
  const ValueId state = state_of(graph);
  const int home = graph[state].placement.group;
  GraphBuilder b(graph, "loss_scale", {});
  for (std::size_t group = 0; group < gradients.size(); ++group) {
    if (gradients[group].empty()) continue;
    const bool here = gradients.size() == 1 || home == static_cast<int>(group);
    const ValueId given = scalars.on(group), finite = b.emit("AllFinite", std::move(gradients[group]));
    scalars.set(group, b.emit("ScaledScalars", {given, here ? state : sent_to(graph, state, static_cast<int>(group)), finite},
                              {{"start", static_cast<float>(scaling.start)},
                               {"kind", static_cast<std::int64_t>(scalars_kind(o.optimizer))},
                               {"beta1", static_cast<float>(o.optimizer.beta1)},
                               {"beta2", static_cast<float>(o.optimizer.beta2)}}));
    if (here) b.emit("LossScaleUpdate", {state, finite}, {{"interval", scaling.interval}});
  }
}

}  // namespace tandem
