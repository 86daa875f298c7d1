// Kernels that compute in float32 read 16-bit numbers themselves, and write them, where the plan's backends have such forms: the
// Casts before and behind go, with a pass over memory each. What is computed is the same to the bit.
#include <algorithm>

#include "graph/operator.h"
#include "kernels/precision.h"
#include "planner/passes/graph_copy.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

struct Row {
  std::string_view op;
  std::initializer_list<std::size_t> inputs;  // that may be of 16 bits where the others are float32
  int output;                                 // that may, as attribute "to" says; -1: none
};
const Row rows[] = {
    {"SoftmaxCrossEntropyTraining", {0}, 1},
    {"CountCorrect", {0}, -1},
};

class Folding {
 public:
  Folding(const Graph& graph, const Fuses& fuses) : graph_(graph), copy_(graph), fuses_(fuses), read_as_(graph.values.size()), otherwise_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      const bool cast = node.op->name == "Cast";
      for (const ValueId v : node.inputs)
        if (v.present()) note(v, cast ? graph[node.outputs[0]].type.dtype : DType::undefined);
    }
    for (const GraphOutput& out : graph.outputs) otherwise_[out] = true;
  }

  Graph run() {
    for (const Node& node : graph_.nodes)
      if (!fold(node) && !is_done(node)) copy_.copy(node);
    return simplify(copy_.finish());
  }

 private:
  void note(ValueId v, DType dtype) {
    if (!is_16_bit(dtype) || (read_as_[v] != DType::undefined && read_as_[v] != dtype)) otherwise_[v] = true;
    read_as_[v] = dtype;
  }

  // What a Cast from 16 bits to float32 read; else absent.
  ValueId before_cast(ValueId v) const {
    if (!v.present() || graph_[v].type.dtype != DType::float32 || !graph_[v].producer.present()) return {};
    const Node& cast = graph_[graph_[v].producer];
    return cast.op->name == "Cast" && is_16_bit(graph_[cast.inputs[0]].type.dtype) ? cast.inputs[0] : ValueId{};
  }

  bool fold(const Node& node) {
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == node.op->name; });
    if (row == std::end(rows)) return false;
    Node narrow = copy_.mapped(node);
    bool any = false;
    for (const std::size_t i : row->inputs)
      if (const ValueId x = i < node.inputs.size() ? before_cast(node.inputs[i]) : ValueId{}; x.present()) {
        narrow.inputs[i] = copy_.map(x);
        any = true;
      }
    if (row->output >= 0) {
      const ValueId y = node.outputs[static_cast<std::size_t>(row->output)];
      const bool cast = read_as_[y] != DType::undefined && !otherwise_[y];
      any = any || cast;
      narrow.attributes.set("to", static_cast<std::int64_t>(cast ? read_as_[y] : graph_[y].type.dtype));
    }
    if (!any || !offered(fuses_, copy_.to, narrow, node.outputs.size())) return false;
    const std::vector<ValueId> inputs = narrow.inputs;
    copy_.copy(narrow, inputs, node.outputs.size());
    return true;
  }

  // A Cast of what is of that type by now.
  bool is_done(const Node& node) {
    if (node.op->name != "Cast") return false;
    const ValueId x = copy_.map(node.inputs[0]);
    if (copy_.to[x].type.dtype != graph_[node.outputs[0]].type.dtype) return false;
    const ValueId now[] = {x};
    copy_.replace(node, now);
    return true;
  }

  const Graph& graph_;
  GraphCopy copy_;
  const Fuses& fuses_;
  IdVector<ValueId, DType> read_as_;  // the type that Casts make of a value
  IdVector<ValueId, bool> otherwise_;  // read by others, or as other types
};

}  // namespace

Graph fold_casts(const Graph& graph, const Fuses& fuses) { return fuses ? Folding(graph, fuses).run() : graph; }

}  // namespace tandem
