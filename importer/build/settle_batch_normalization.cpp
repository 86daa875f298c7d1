#include "importer/build/settle_batch_normalization.h"

#include <algorithm>

#include "graph/operator.h"

namespace tandem {
namespace {

constexpr const char* mark = "asks_for_training";  // upgrade.cpp sets it

bool all_are(const Value& v, double number) {
  if (!v.data) return false;
  const std::vector<double> values = v.data->to_doubles();
  return std::all_of(values.begin(), values.end(), [&](double x) { return x == number; });
}

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string s;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) s += concat(i ? ", '" : "'", names[i], '\'');
  return names.size() > shown ? concat(s, " and ", names.size() - shown, " more") : s;
}

}  // namespace

void settle_batch_normalization(Graph& graph, bool training, bool unbiased) {
  for (Node& node : graph.nodes) {
    if (node.op->name != "BatchNormalization") continue;
    if (training && unbiased) node.attributes.set("unbiased", std::int64_t{1});
    if (training) node.attributes.erase(mark);
    if (node.attributes.has(mark) && all_are(graph[node.inputs[3]], 0) && all_are(graph[node.inputs[4]], 1))
      node.attributes.set("training_mode", std::int64_t{1});
  }
}

std::vector<std::string> training_mode_notes(const Graph& graph) {
  std::vector<std::string> running, untouched, notes;
  for (const Node& node : graph.nodes)
    if (node.op->name == "BatchNormalization" && node.attributes.has(mark))
      (node.attributes.has("training_mode") ? untouched : running).push_back(node.origin.empty() ? node.name : node.origin[0]);
  const auto add = [&](const std::vector<std::string>& names, std::string_view how) {
    if (!names.empty()) notes.push_back(concat("BatchNormalization ", list(names), " of training_mode=1 ", how));
  };
  add(running, "is computed by the running statistics: nothing is trained here");
  add(untouched,
      "holds the untouched statistics 0 and 1 and is computed by those of each batch: a sample's result depends on the others of its "
      "batch");
  return notes;
}

bool normalizes_by_batch(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return n.op->name == "BatchNormalization" && n.attributes.integer("training_mode", 0) != 0 && graph[n.inputs[0]].depends_on_batch;
  });
}

}  // namespace tandem
