#include "importer/message/drop_orphans.h"
#include "tandem_onnx.pb.h"

#include <algorithm>

namespace tandem {
namespace {

using Names = std::set<std::string>;

// Removes the names that a graph, or one inside it, reads. One that a subgraph gives to a value of its own counts as
// read: to keep an initializer too many does no harm.
void strike_out(const onnx::GraphProto& graph, Names& names) {
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.input()) names.erase(name);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) strike_out(attribute.g(), names);
      for (const auto& inner : attribute.graphs()) strike_out(inner, names);
    }
  }
  for (const auto& output : graph.output()) names.erase(output.name());
}

template <class List, class Predicate>
void erase_if(List& list, Predicate&& predicate) {
  int kept = 0;
  for (int i = 0; i < list.size(); ++i)
    if (!predicate(list[i])) list.SwapElements(kept++, i);
  list.DeleteSubrange(kept, list.size() - kept);
}

}  // namespace

void drop_orphans(const Names& candidates, onnx::ModelProto& model) {
  Names orphans = candidates;
  onnx::GraphProto& graph = *model.mutable_graph();
  strike_out(graph, orphans);
  for (const auto& training : model.training_info()) {
    for (const onnx::GraphProto* inner : {&training.initialization(), &training.algorithm()}) strike_out(*inner, orphans);
    for (const auto* bindings : {&training.initialization_binding(), &training.update_binding()})
      for (const auto& binding : *bindings) orphans.erase(binding.key());
  }
  if (model.ir_version() >= 4)
    for (const auto& input : graph.input()) orphans.erase(input.name());
  const auto orphan = [&](const auto& entry) { return orphans.contains(entry.name()); };
  std::erase_if(orphans, [&](const std::string& name) {
    return std::none_of(graph.initializer().begin(), graph.initializer().end(), [&](const auto& i) { return i.name() == name; });
  });
  erase_if(*graph.mutable_initializer(), orphan);
  erase_if(*graph.mutable_input(), orphan);
}

}  // namespace tandem
