// Kernels that compute in float32 read 16-bit numbers themselves, and write them, where the plan's backends have such forms: the
// Casts before and behind go, with a pass over memory each. What is read in float32, too, is written in both. A LookUp that is cast looks
// up what its table is cast to. What is computed is the same to the bit.
#include <algorithm>

#include "graph/operator.h"
#include "kernels/precision.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem::pass_rows {
namespace {

struct Row {
  std::string_view op;
  std::initializer_list<std::size_t> inputs;  // that may be of 16 bits where the others are float32
  int output;                                 // that may, as attribute "to" says; -1: none
  int copy = -1;                              // that is output 0 in 16 bits, as attribute "copy" says; -1: there is none
  int least = copy;                           // outputs of a node that may have one
};
const Row rows[] = {
    {"SoftmaxCrossEntropyTraining", {0}, 1},
    {"CountCorrect", {0}, -1},
    {"Softmax", {0}, 0},
    {"LogSoftmax", {0}, 0},
    {"RowNormalization", {3}, 0, 4},
    {"RowNormalizationBackward", {0}, -1, 3, 2},
};

class Folding {
 public:
  Folding(const Graph& graph, const Fuses& fuses)
      : graph_(graph),
        copy_(graph),
        fuses_(fuses),
        readers_(graph.values.size()),
        is_output_(graph.values.size()),
        copies_(graph.values.size()) {
    for (const Node& node : graph.nodes)
      for (const ValueId v : node.inputs)
        if (v.present()) readers_[v].push_back(&node);
    for (const GraphOutput& out : graph.outputs) is_output_[out] = true;
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      if (fold(node) || fold_table(node) || is_done(node) || is_copied(node)) continue;
      if (node.op->name == "Reshape")  // perhaps of what is narrow by now
        copy_.copy(node, copy_.mapped(node).inputs, node.outputs.size());
      else
        copy_.copy(node);
    }
    return simplify(copy_.finish());
  }

 private:
  // The 16-bit type that all readers cast the value to, reshaped or not; else undefined.
  DType only_read_as(ValueId v) const {
    if (!v.present() || is_output_[v]) return DType::undefined;
    DType all = DType::undefined;
    for (const Node* const reader : readers_[v]) {
      const DType one = reader->op->name == "Cast"      ? graph_[reader->outputs[0]].type.dtype
                        : reader->op->name == "Reshape" ? only_read_as(reader->outputs[0])
                                                        : DType::undefined;
      if (!is_16_bit(one) || (all != DType::undefined && all != one)) return DType::undefined;
      all = one;
    }
    return all;
  }

  // What a Cast from 16 bits to float32 reads, in the shape of `v`, which it makes, reshaped or not; else absent.
  ValueId before_cast(ValueId v) {
    if (!v.present() || graph_[v].type.dtype != DType::float32 || !graph_[v].producer.present()) return {};
    const Node& node = graph_[graph_[v].producer];
    if (node.op->name == "Cast") return is_16_bit(graph_[node.inputs[0]].type.dtype) ? copy_.map(node.inputs[0]) : ValueId{};
    return node.op->name == "Reshape" ? reshaped(node, before_cast(node.inputs[0])) : ValueId{};
  }

  // A value of another type in the shape that the Reshape gives; absent where that is.
  ValueId reshaped(const Node& node, ValueId x) {
    if (!x.present()) return {};
    Node of = copy_.mapped(node);
    of.inputs[0] = x;
    const NodeId id = copy_.to.add_node(*of.op, of.name, of.attributes, of.inputs, 1, of.origin);
    copy_.lies_as(copy_.to[id].outputs[0], node.outputs[0]);
    return copy_.to[id].outputs[0];
  }

  bool fold(const Node& node) {
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == node.op->name; });
    if (row == std::end(rows)) return false;
    Node narrow = copy_.mapped(node);
    bool any = false;
    for (const std::size_t i : row->inputs)
      if (const ValueId x = i < node.inputs.size() ? before_cast(node.inputs[i]) : ValueId{}; x.present()) {
        narrow.inputs[i] = x;
        any = true;
      }
    if (row->output >= 0) {
      const ValueId y = node.outputs[static_cast<std::size_t>(row->output)];
      const DType to = only_read_as(y);
      any = any || to != DType::undefined;
      narrow.attributes.set("to", static_cast<std::int64_t>(to != DType::undefined ? to : graph_[y].type.dtype));
    }
    any = add_gradient(node, narrow) || any;
    if (fold_copy(*row, node, narrow)) return true;
    if (!any || !offered(fuses_, copy_.to, narrow, node.outputs.size())) return false;
    const std::vector<ValueId> inputs = narrow.inputs;
    copy_.copy(narrow, inputs, node.outputs.size());
    return true;
  }

  // What is read in float32 and cast to 16 bits, too, is written in both.
  bool fold_copy(const Row& row, const Node& node, Node narrow) {
    const ValueId y = node.outputs[0];
    const auto copy = static_cast<std::size_t>(row.copy);
    if (row.copy < 0 || std::ssize(node.outputs) < row.least || node.outputs.size() > copy) return false;
    if (row.output >= 0 && only_read_as(y) != DType::undefined) return false;
    const DType to = cast_of(y);
    if (to == DType::undefined) return false;
    narrow.attributes.set("copy", static_cast<std::int64_t>(to));
    if (!offered(fuses_, copy_.to, narrow, copy + 1)) return false;
    const std::vector<ValueId> inputs = narrow.inputs;
    const NodeId id = copy_.copy(narrow, inputs, copy + 1);
    copies_[y] = copy_.to[id].outputs[copy];
    copy_.lies_as(copies_[y], y);
    return true;
  }

  // The 16-bit type of the first Cast that reads the value, reshaped or not; else undefined.
  DType cast_of(ValueId v) const {
    for (const Node* const reader : readers_[v]) {
      const DType to = reader->op->name == "Cast"      ? graph_[reader->outputs[0]].type.dtype
                       : reader->op->name == "Reshape" ? cast_of(reader->outputs[0])
                                                       : DType::undefined;
      if (is_16_bit(to)) return to;
    }
    return DType::undefined;
  }

  // What there is of a value in this type beside it, reshaped or not; else absent.
  ValueId copy_of(ValueId v, DType to) {
    if (const ValueId copy = copies_[v]; copy.present()) return copy_.to[copy].type.dtype == to ? copy : ValueId{};
    if (!graph_[v].producer.present()) return {};
    const Node& node = graph_[graph_[v].producer];
    return node.op->name == "Reshape" ? reshaped(node, copy_of(node.inputs[0], to)) : ValueId{};
  }

  bool is_copied(const Node& node) {
    if (node.op->name != "Cast") return false;
    const ValueId now[] = {copy_of(node.inputs[0], graph_[node.outputs[0]].type.dtype)};
    if (!now[0].present()) return false;
    copy_.replace(node, now);
    return true;
  }

  // A gradient of rows that is the sum of one in float32 and one that was cast to it: the kernel adds them.
  bool add_gradient(const Node& node, Node& narrow) {
    const ValueId dy = node.inputs[0];
    if (node.op->name != "RowNormalizationBackward" || !graph_[dy].producer.present() || readers_[dy].size() != 1 || is_output_[dy])
      return false;
    const Node& sum = graph_[graph_[dy].producer];
    if (sum.op->name != "Add" || !std::ranges::all_of(sum.inputs, [&](ValueId v) { return graph_[v].type == graph_[dy].type; }))
      return false;
    for (const std::size_t i : {0, 1})
      if (const ValueId x = before_cast(sum.inputs[i]); x.present()) {
        narrow.inputs.resize(7);
        narrow.inputs[0] = copy_.map(sum.inputs[1 - i]);
        narrow.inputs[6] = x;
        add_origin(narrow.origin, sum.origin);
        return true;
      }
    return false;
  }

  bool fold_table(const Node& node) {
    if (node.op->name != "LookUp") return false;
    const DType to = only_read_as(node.outputs[0]);
    const Value& table = graph_[node.inputs[1]];
    if (to == DType::undefined || table.kind != ValueKind::constant) return false;
    const ValueId cast = copy_.to.add_constant(concat(table.name, '/', to), table.data->cast(to));
    copy_.copy(node, {copy_.map(node.inputs[0]), cast}, 1);
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
  IdVector<ValueId, std::vector<const Node*>> readers_;
  IdVector<ValueId, bool> is_output_;
  IdVector<ValueId, ValueId> copies_;  // of old values the new ones that are the same in 16 bits
};

}  // namespace

// Nodes that compute in float32 read and write 16 bits where they are offered so, in place of Casts before and behind them. After
// differentiation.
Pass fold_casts() {
  return {.name = "fold_casts",
          .run = [](Graph g, PassContext& c) { return c.fuses ? Folding(g, c.fuses).run() : std::move(g); },
          .needs = differentiated,
          .why = "a change of type costs no pass over memory"};
}

}  // namespace tandem::pass_rows
