// Which parameters are updated otherwise than the rest: by patterns, and vectors without weight decay.
#include <algorithm>

#include "base/option.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

// "bias" names conv1.bias and layer/bias, too.
bool names(const std::vector<std::string>& patterns, const std::string& name) {
  const auto last = name.find_last_of("./");
  return matches_any(name, patterns) || (last != std::string::npos && matches_any(name.substr(last + 1), patterns));
}

const UpdateGroup* group_of(const std::string& name, const OptimizerOptions& o) {
  const auto found = std::find_if(o.groups.begin(), o.groups.end(), [&](const UpdateGroup& g) { return names(g.patterns, name); });
  return found == o.groups.end() ? nullptr : &*found;
}

// Biases and the scales of normalizations, also where they are stored as [1,C,1,1].
bool is_vector(const Value& v) {
  const Shape& shape = v.template_shape;
  if (shape.rank() <= 1) return true;
  return shape.rank() > 2 && std::count_if(shape.begin(), shape.end(), [](std::int64_t n) { return n > 1; }) <= 1;
}

std::string some_of(const std::vector<std::string>& list) {
  constexpr std::size_t most = 6;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, list.size()); ++i) s += concat(i ? ", " : "", list[i]);
  return list.size() > most ? concat(s, ", ... (", list.size(), " in all)") : s;
}

}  // namespace

Attributes attributes_for(const Value& parameter, const UpdateRule& rule, const OptimizerOptions& o) {
  Attributes a = rule.attributes;
  if (!o.decay_vectors && is_vector(parameter)) a.set("weight_decay", 0.0F);
  const UpdateGroup* const group = group_of(parameter.name, o);
  if (!group) return a;
  if (group->weight_decay) a.set("weight_decay", static_cast<float>(*group->weight_decay));
  if (group->rate != 1) a.set("rate", static_cast<float>(group->rate));
  if (group->from > 0) a.set("from", static_cast<float>(group->from));
  return a;
}

void check_groups(const Graph& graph, const OptimizerOptions& o, std::vector<std::string>& lines) {
  std::vector<std::string> parameters, vectors;
  for (const ValueId v : trainable_parameters(graph)) {
    parameters.push_back(graph[v].name);
    if (is_vector(graph[v]) && !(group_of(graph[v].name, o) && group_of(graph[v].name, o)->weight_decay)) vectors.push_back(graph[v].name);
  }
  for (const UpdateGroup& group : o.groups) {
    for (const std::string& pattern : group.patterns)
      if (std::none_of(parameters.begin(), parameters.end(), [&](const std::string& name) { return names({pattern}, name); }))
        fail(ExitCode::usage, option("groups"), " '", pattern, "': model '", graph.name, "' trains no parameter of that name",
             suggestion(pattern, parameters));
    std::vector<std::string> members;
    for (const std::string& name : parameters)
      if (group_of(name, o) == &group) members.push_back(name);
    std::string how;
    if (group.rate != 1) how += concat(" learning rate times ", group.rate, ';');
    if (group.weight_decay) how += concat(" weight decay ", *group.weight_decay, ';');
    if (group.from > 0) how += concat(" from epoch ", group.from + 1, " on;");
    if (!how.empty()) how.pop_back();
    lines.push_back(members.empty() ? concat("a group has no parameter left to it: groups before it name them all")
                                    : concat("group of ", members.size(), members.size() == 1 ? " parameter:" : " parameters:", how, ": ",
                                             some_of(members)));
  }
  if (!o.decay_vectors && !vectors.empty() && o.weight_decay > 0)
    lines.push_back(
        concat("no weight decay on ", vectors.size(), " vectors (biases, scales and shifts of normalizations): ", some_of(vectors)));
}

}  // namespace tandem
