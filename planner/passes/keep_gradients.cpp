// Gradients that the caller asked for are given in their parameters' template form.
#include <algorithm>

#include "graph/layout_tag.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/update/loss_scaling.h"

namespace tandem::pass_rows {
namespace {

// Undoes the view that became the parameter's own shape.
ValueId in_template_form(Graph& graph, const Value& parameter, ValueId gradient) {
  GraphBuilder b(graph, concat("gradient/", parameter.name), {});
  if (!parameter.source.any() && !parameter.source.is_row_major()) {
    Ints perm;
    for (const int axis : tag_of(parameter.source).axes) perm.push_back(axis);
    gradient = b.transpose(gradient, perm);
  }
  return b.reshape(gradient, parameter.template_shape);
}

Graph keep_gradients(Graph graph, const CompileOptions& o) {
  const std::vector<GraphOutput> given = graph.outputs;
  std::vector<std::string> kept = o.keep_gradients;
  if (kept.empty() && has_external_loss(o))
    for (const GraphOutput& out : given)
      if (out.role == ValueRole::gradient) kept.push_back(out.of);
  for (const std::string& name : kept)
    for (const GraphOutput& out : given) {
      if (out.role != ValueRole::gradient || out.of != name) continue;
      const Value parameter = graph[parameter_named(graph, name)];
      ValueId value = in_template_form(graph, parameter, out);
      if (loss_scaling_of(o)) value = unscaled(graph, value);
      graph.outputs.emplace_back(value, ValueRole::metric, concat("gradient/", name));
    }
  return graph;
}

}  // namespace

// The gradients that options.keep_gradients names become metrics, each device's part of them; of an external loss that names none, all.
Pass keep_gradients() {
  return {.name = "keep_gradients",
          .run = [](Graph g, PassContext& c) { return keep_gradients(std::move(g), c.options); },
          .needs = differentiated,
          .why = "the caller asked for gradients",
          .required = "the caller reads what it keeps"};
}

}  // namespace tandem::pass_rows
