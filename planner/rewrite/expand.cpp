// Replaces composite operators by what their row's `expand` makes of them, again and again until kernels know every node.
#include "planner/rewrite/expand.h"

#include <algorithm>
#include <string_view>

#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem {
namespace {

// What draws random numbers draws them by sample: its expansion has to know where the node's result holds these.
constexpr std::string_view drawing[] = {"Bernoulli",        "Dropout",       "Multinomial",      "RandomNormal",
                                        "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

Node placed(Node node, const Value& result) {
  if (result.batch.present() && std::ranges::find(drawing, node.op->name) != std::end(drawing))
    node.attributes.set("samples", Ints{result.batch.axis, result.batch.outer});
  return node;
}

Graph expand_those(const Graph& graph, bool training, bool (*meant)(const Operator&)) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return meant(*n.op); })) return graph;
  Graph now = graph;
  constexpr int most_rounds = 8;  // composites may expand into composites; no chain of them is longer
  for (int round = 0;; ++round) {
    const Node* changed = nullptr;
    GraphCopy copy(now);
    for (const Node& node : now.nodes) {
      if (!meant(*node.op)) {
        copy.copy(node);
        continue;
      }
      ExpandContext context(copy.to, placed(copy.mapped(node), now[node.outputs[0]]));
      context.training = training;
      const std::vector<ValueId> outputs = node.op->expand(context);
      if (!outputs.empty() && outputs.size() < node.outputs.size())
        fail(node.op->name, " '", node.name, "': its expansion gives ", outputs.size(), " outputs, the node has ", node.outputs.size());
      if (outputs.empty()) {
        copy.copy(node);
      } else {
        copy.replace(node, outputs);
        changed = &node;
      }
    }
    if (changed && round == most_rounds)
      fail(changed->op->name, " '", changed->name, "' is composed of what is composed in turn, more than ", most_rounds, " times over");
    const bool done = changed == nullptr;
    now = copy.finish();
    if (done) return now;
  }
}

bool is_composite(const Operator& op) { return op.expand != nullptr; }
bool is_of_another_domain(const Operator& op) { return is_composite(op) && !op.domain.empty() && op.domain != "tandem"; }

}  // namespace

Graph expand(const Graph& graph, bool training) {
  Graph now = expand_those(graph, training, is_composite);
  const auto is_left = [](const Node& n) { return is_gradient(*n.op); };
  // What they differentiate is expanded now, and so far no other Gradient is part of it.
  while (std::ranges::any_of(now.nodes, is_left)) now = expand_those(differentiate_first(now), training, is_composite);
  return now;
}

namespace pass_rows {
namespace {

Graph expanded_again(const Graph& graph, bool training) {
  Graph simple = simplify(graph);
  const Graph expanded = tandem::expand(simple, training);
  const auto same = [](const Node& a, const Node& b) { return a.op == b.op; };
  const bool changed = !std::equal(simple.nodes.begin(), simple.nodes.end(), expanded.nodes.begin(), expanded.nodes.end(), same);
  return changed ? simplify(expanded) : simple;
}

}  // namespace

// Composites of other domains than ONNX's become ONNX's. Before all that looks for patterns, which so sees one language.
Pass expand_dialects() {
  return {.name = "expand_dialects",
          .run = [](Graph g, PassContext& c) { return expand_those(g, c.training(), is_of_another_domain); },
          .why = "patterns are looked for in one language, ONNX's"};
}

Pass expand() {
  return {.name = "expand",
          .run = [](Graph g, PassContext& c) { return tandem::expand(g, c.training()); },
          .gives = {Property::primitive},
          .why = "kernels know the operators that composites are made of"};
}

// Simplifies, by which views of parameters become parameters, and expands again: products with these are others.
Pass expand_again() {
  return {.name = "expand_again",
          .run = [](Graph g, PassContext& c) { return expanded_again(g, c.training()); },
          .needs = {Property::primitive},
          .why = "products by what was a view of a parameter are products by a parameter"};
}

}  // namespace pass_rows

}  // namespace tandem
