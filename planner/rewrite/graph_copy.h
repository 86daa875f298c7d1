// How a pass makes its graph: node by node from another one, or by arranging its nodes anew.
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
  ValueId map(ValueId old) const { return old.present() ? map_[old] : old; }
  void set(ValueId old, ValueId now) { map_[old] = now; }
  Node mapped(const Node& node) const;             // the node with its inputs in the new graph
  void copy(const Node& node);                     // appends it, outputs with their names and types
  // Appends it with other inputs, from which its types follow, and perhaps with more outputs behind its own.
  NodeId copy(const Node& node, std::vector<ValueId> inputs, std::size_t outputs);
  void lies_as(ValueId now, ValueId old);          // its samples and its parts on devices are those of a value of the old graph
  void replace(const Node& node, std::span<const ValueId> now);  // its outputs are these values of the new graph
  Graph finish();                                  // maps the outputs, puts updates last

 private:
  const Graph& from_;
  IdVector<ValueId, ValueId> map_;
};

// Where several nodes become one, it comes from what each of them came from: adds the ONNX nodes that are not there yet.
void add_origin(std::vector<std::string>& origin, const std::vector<std::string>& more);
// What a node comes from that computes `last` of these values alone: the ONNX nodes of `last`, then of all that lies between.
std::vector<std::string> origin_of(const Graph& graph, const Node& last, std::span<const ValueId> operands);

// The graph's nodes become those of these numbers, in this order; what the others computed has no producer any more.
void arrange_nodes(Graph& graph, std::span<const std::size_t> order);

// Nodes go whose results nothing reads, but for those that write parameters, and those that are kept.
void drop_unread(Graph& graph, bool (*kept)(const Node&) = [](const Node&) { return false; });

// Nodes that write parameters last, those of the optimizer first of them: whoever reads a parameter reads what it was before
// the step.
void put_updates_last(Graph& graph);

// Without the nodes that write parameters.
Graph without_updates(Graph graph);

// What the optimizer may update, in the order of the values.
std::vector<ValueId> trainable_parameters(const Graph& graph);
// The model's parameter of that name; absent where there is none.
ValueId parameter_named(const Graph& graph, std::string_view name);

// The output of this role, which must be there.
ValueId output_as(const Graph& graph, ValueRole role, std::string_view of = {});

}  // namespace tandem
