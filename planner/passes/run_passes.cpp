// Runs passes, and checks what each leaves behind.
#include "planner/passes/run_passes.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "planner/loss/external_loss.h"
#include "planner/rewrite/expand.h"
#include "planner/rewrite/graph_copy.h"

namespace tandem {
namespace {

#ifdef NDEBUG
constexpr bool debugging = false;
#else
constexpr bool debugging = true;
#endif

constexpr Property properties[] = {Property::primitive, Property::loss, Property::gradients, Property::whole, Property::updated};

std::string not_primitive(const Graph& graph, const PassContext& c) {
  const Graph expanded = expand(graph, c.training());
  if (expanded.nodes.size() != graph.nodes.size()) return "an operator is left that is made of others";
  return {};
}

std::string no_loss(const Graph& graph, const PassContext& c) {
  if (has_external_loss(c.options)) {
    const auto given = [&](ValueId in) { return graph[in].role == ValueRole::gradient; };
    return std::ranges::any_of(graph.inputs, given) ? "" : "no input is the gradient of an output";
  }
  const auto losses =
      std::count_if(graph.outputs.begin(), graph.outputs.end(), [](const GraphOutput& o) { return o.role == ValueRole::loss; });
  if (losses != 1) return concat(losses, " outputs are the loss");
  const TensorType& type = graph[output_as(graph, ValueRole::loss)].type;
  return type.shape.elements() == 1 && is_float(type.dtype) ? "" : concat("the loss is ", type);
}

std::string no_gradients(const Graph& graph, const PassContext&) {
  bool any = false;
  for (const GraphOutput& out : graph.outputs) {
    if (out.role != ValueRole::gradient) continue;
    any = true;
    const ValueId parameter = parameter_named(graph, out.of);
    if (!parameter.present()) return concat("a gradient is that of '", out.of, "', which is no parameter");
    if (graph[parameter].type.shape != graph[out].type.shape)
      return concat("the gradient of '", out.of, "', ", graph[parameter].type, ", is ", graph[out].type);
  }
  return any ? "" : "no output is a gradient";
}

// What updates take is not one device's part of it.
std::string not_whole(const Graph& graph, const PassContext&) {
  const auto in_part = [&](ValueId v) {
    return std::any_of(graph[v].placement.parts.begin(), graph[v].placement.parts.end(),
                       [](const Part& p) { return p.spread == Spread::partial || p.spread == Spread::own; });
  };
  for (const GraphOutput& out : graph.outputs)
    if (out.role == ValueRole::gradient && in_part(out))
      return concat("the gradient of '", out.of, "' is ", to_string(graph[out].placement, graph.groups));
  for (const Node& node : graph.nodes)
    if (node.op->keeps_statistic && in_part(node.inputs[1]))
      return concat("'", graph[node.inputs[0]].name, "' follows one device's samples alone");
  return {};
}

std::string not_updated(const Graph& graph, const PassContext&) {
  for (const GraphOutput& out : graph.outputs)
    if (out.role == ValueRole::gradient) return concat("the gradient of '", out.of, "' is left");
  bool updates = false;
  std::set<ValueId> written;
  for (const Node& node : graph.nodes) {
    if (node.op->in_place.empty()) {
      if (updates) return concat("'", node.name, "' stands behind an update");
      continue;
    }
    updates = true;
    if (!node.attributes.has("tensors") || node.op->keeps_statistic) continue;  // a statistic that two layers share follows both
    for (const ValueId parameter : updated_by(node))
      if (!written.insert(parameter).second) return concat("'", graph[parameter].name, "' is written twice");
  }
  return updates ? "" : "nothing is updated";
}

void check(const Graph& graph, Properties held, const Pass& pass, const PassContext& c) {
  const auto refuse = [&](const std::string& what) { fail("pass ", pass.name, ": ", what); };
  try {
    verify(graph);
  } catch (const Error& e) {
    refuse(e.what());
  }
  for (const Property p : properties)
    if (held.has(p))
      if (const std::string breach = breach_of(p, graph, c); !breach.empty()) refuse(breach);
}

}  // namespace

std::string breach_of(Property property, const Graph& graph, const PassContext& context) {
  switch (property) {
    case Property::primitive: return not_primitive(graph, context);
    case Property::loss: return no_loss(graph, context);
    case Property::gradients: return no_gradients(graph, context);
    case Property::whole: return not_whole(graph, context);
    case Property::updated: return not_updated(graph, context);
  }
  return {};
}

Graph run_passes(std::span<const Pass> passes, Graph graph, PassContext& c) {
  const Properties unasked = c.training() && !has_external_loss(c.options) ? Properties{} : of_training;
  Properties held;
  int number = 0;
  const auto tell = [&](const Pass& pass, double seconds) {
    if (c.options.passes.after) c.options.passes.after({c.samples, number, pass.name, graph, seconds, pass.why});
    ++number;
  };
  tell({.name = "model", .why = "as it comes"}, 0);
  for (const Pass& pass : passes) {
    if (pass.when && !pass.when(c)) continue;
    if (std::ranges::find(c.options.passes.without, pass.name) != c.options.passes.without.end()) continue;
    if (!pass.needs.without(held).without(unasked).empty()) fail("pass ", pass.name, " stands before what it needs");
    const auto begin = std::chrono::steady_clock::now();
    graph = pass.run(std::move(graph), c);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    held = held.with(pass.gives).without(pass.ends);
    if (debugging || c.options.passes.verify) check(graph, held, pass, c);
    tell(pass, took.count());
  }
  return graph;
}

}  // namespace tandem
