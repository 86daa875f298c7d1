#include "planner/pass_notes.h"

#include <fmt/format.h>

#include <utility>

#include "graph/operator.h"
#include "planner/place/by_rules.h"

namespace tandem {
namespace {

std::string in_brackets(std::string_view before, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format(" ({}{})", before, fmt::join(names, ", "));
}

}  // namespace

void PassNotes::listen(CompileOptions& options) {
  options.passes.after = [this, before = std::move(options.passes.after)](const PassResult& r) {
    if (before) before(r);
    note(r);
  };
  options.passes.not_fused = [this, before = std::move(options.passes.not_fused)](const NotFused& pair) {
    if (before) before(pair);
    note(pair);
  };
}

// Nodes that come from the same ones of the model are its parts: nobody looks for them.
void PassNotes::note(const NotFused& pair) {
  Missed m{.why = pair.why};
  for (const Node* n : {&pair.first, &pair.second}) {
    m.nodes.insert(n->origin.begin(), n->origin.end());
    m.pair += concat(m.pair.empty() ? "" : " and ", n->op->name, in_brackets("", n->origin));
  }
  if (std::set(pair.first.origin.begin(), pair.first.origin.end()) != std::set(pair.second.origin.begin(), pair.second.origin.end()))
    of_this_pass_.push_back(std::move(m));
}

// The passes of the size of slice that comes last.
void PassNotes::note(const PassResult& result) {
  if (result.number == 0) {
    nodes_.clear();
    missed_.clear();
  }
  for (Missed& m : std::exchange(of_this_pass_, {})) {
    m.pass = result.name;
    missed_.insert(std::move(m));
  }
  std::map<std::string, std::set<std::string>> now;
  for (const Node& node : result.graph.nodes)
    for (const std::string& name : node.origin) {
      if (result.number == 0) names_.insert(name);
      if (!nodes_.contains(name) && !(result.number == 0 && tandem::names(pattern_, name))) continue;
      std::vector<std::string> others = node.origin;
      std::erase(others, name);
      now[name].insert(concat(node.op->name, in_brackets("with ", others)));
    }
  if (result.number == 0)
    for (const auto& [name, operators] : now) nodes_[name];
  for (auto& [name, list] : nodes_) {
    std::set<std::string>& operators = now[name];
    if (!list.empty() && list.back().operators == operators) continue;
    list.push_back({result.number == 0 ? "model" : std::string(result.name), result.number == 0 ? "" : std::string(result.why),
                    std::move(operators)});
  }
}

}  // namespace tandem
