// How a pass makes its graph: node by node from another one.
#pragma once
#include <span>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Copies nodes of one graph into another, mapping values; shared by the passes.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);
  Graph to;
  ValueId map(ValueId old) const { return old.present() ? map_[static_cast<std::size_t>(old.index)] : old; }
  void set(ValueId old, ValueId now) { map_[static_cast<std::size_t>(old.index)] = now; }
  Node mapped(const Node& node) const;             // the node with its inputs in the new graph
  void copy(const Node& node);                     // appends it, outputs with their names and types
  // Appends it with other inputs, from which its types follow, and perhaps with more outputs behind its own.
  NodeId copy(const Node& node, std::vector<ValueId> inputs, std::size_t outputs);
  void replace(const Node& node, std::span<const ValueId> now);  // its outputs are these values of the new graph
  Graph finish();                                  // maps outputs and state updates

 private:
  const Graph& from_;
  std::vector<ValueId> map_;
};

}  // namespace tandem
