// Which parameters stay as they are, by the patterns of freeze and unfreeze, and what that means for normalizations.
#include "planner/passes/freeze.h"

#include <algorithm>

#include "base/option.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "planner/rewrite/pass.h"

namespace tandem {
namespace {

// Keras's way, and that of PyTorch's FrozenBatchNorm: who freezes a layer wants it to compute what it computes now.
bool stays(const Graph& graph, const Node& node, const CompileOptions& o) {
  const auto value = [&](std::size_t i) -> const Value& { return graph[node.inputs[i]]; };
  const auto asked = [&](std::size_t i) { return is_frozen(value(i).name, o); };
  const auto held = [&](std::size_t i) { return value(i).kind == ValueKind::parameter; };
  if (node.inputs.size() < 5 || !held(3) || !held(4)) return false;
  if (asked(3) && asked(4)) return true;
  if (matches_any(value(3).name, o.trained.unfreeze) || matches_any(value(4).name, o.trained.unfreeze)) return false;
  return held(1) && held(2) && asked(1) && asked(2);
}

}  // namespace

void check_patterns(const Graph& model, const CompileOptions& o) {
  for (const auto& [field, patterns] : {std::pair{"freeze", &o.trained.freeze}, {"unfreeze", &o.trained.unfreeze}})
    for (const std::string& pattern : *patterns) {
      std::vector<std::string> names = o.trained.tensors;
      for (const Value& v : model.values)
        if (v.kind == ValueKind::parameter || v.kind == ValueKind::constant) names.push_back(v.name);
      if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches_any(name, {pattern}); })) continue;
      const std::string near = nearest(pattern, names);
      fail(ExitCode::usage, option(field), " '", pattern, "': model '", model.name, "' has no parameter of that name",
           near.empty() ? std::string() : concat(", did you mean '", near, "'?"));
    }
}

bool is_frozen(const std::string& name, const CompileOptions& o) {
  return matches_any(name, o.trained.freeze) && !matches_any(name, o.trained.unfreeze);
}

Graph freeze(const Graph& model, const CompileOptions& o, std::vector<std::string>& warnings) {
  check_patterns(model, o);
  Graph graph = model;
  if (o.trained.freeze.empty()) return graph;
  int normalizations = 0;
  for (Node& node : graph.nodes)
    if (node.op->name == "BatchNormalization" && stays(graph, node, o)) {
      node.attributes.set("frozen", std::int64_t{1});
      ++normalizations;
    }
  for (Value& v : graph.values)
    if (v.trainable && is_frozen(v.name, o)) v.trainable = false;
  if (normalizations > 0)
    warnings.push_back(concat(
        "frozen: ", normalizations, normalizations == 1 ? " BatchNormalization normalizes" : " BatchNormalizations normalize",
        " with running statistics, which stay as they are (to train with those of the batch: ", option("unfreeze"), " their names)"));
  return graph;
}

namespace pass_rows {

Pass freeze() {
  return {.name = "freeze",
          .run = [](Graph g, PassContext& c) { return tandem::freeze(g, c.options, c.warnings); },
          .why = "parameters that freeze names are not trained, and their normalizations stand still",
          .required = "what is frozen would be trained"};
}

}  // namespace pass_rows

}  // namespace tandem
